"""Batches: runs that trained alike, on one kind of hardware with the same versions of packages.

A change of either midway may move one config and not another, and no number of seeds shows it. So configs are compared
within one batch. Whatever the attempts of a run have noted names its batch, to the last digit of a version, for nobody
knows which of them move numbers; its host does not. A run whose attempts differ is of a batch of its own kind; one
whose trainer noted nothing is of the unknown batch. Packages that only some configs use, such as those of a loss, tell
batches of these configs apart and none of others.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from trainers.process.environment import HARDWARE

Batch = frozenset[tuple[tuple[str, str], ...]]
"""The different notes of a run's attempts, each with its names in order."""
Runs = Mapping[str, Mapping[int, Batch]]
"""By config and seed the batch of each run with a result; no config is without one."""


def batch_of(noted: Sequence[Mapping[str, str]]) -> Batch:
    """Return the batch of a run whose attempts have noted these names and versions."""
    return frozenset(tuple(sorted(versions.items())) for versions in noted)


def common_names(runs: Runs) -> frozenset[str]:
    """Return the names that every config has noted for one of its runs."""
    noted = [{name for batch in own.values() for name in _names(batch)} for own in runs.values()]
    return frozenset(set[str].intersection(*noted)) if noted else frozenset()


def of_names(batch: Batch, names: Collection[str]) -> Batch:
    """Return a batch with these names alone; configs whose batches are the same then trained alike."""
    return frozenset(tuple(one for one in note if one[0] in names) for note in batch)


def home_batches(runs: Runs) -> dict[str, Batch]:
    """Return by config the batch in which its runs count.

    It is the one in which most runs of other configs share a seed with its own; of equal ones that of its first seed.
    """
    if len({batch for own in runs.values() for batch in own.values()}) == 1:
        return {config_id: next(iter(own.values())) for config_id, own in runs.items()}
    names = common_names(runs)
    alike = {id_: {seed: of_names(batch, names) for seed, batch in own.items()} for id_, own in runs.items()}
    homes = dict[str, Batch]()
    for config_id, own in runs.items():
        others, shared = [batches for id_, batches in alike.items() if id_ != config_id], dict[Batch, int]()
        for seed in sorted(own):
            together = sum(other.get(seed) == alike[config_id][seed] for other in others)
            shared[own[seed]] = shared.get(own[seed], 0) + together
        homes[config_id] = max(shared, key=lambda batch: shared[batch])
    return homes


def batch_text(batch: Batch, own: Iterable[Batch], others: Iterable[Batch]) -> str:
    """Name a config's batch by what sets it apart: `on NVIDIA H200 with torch 2.13.0 and trl 1.16.0`.

    Args:
        batch: the batch to name.
        own: all batches of the config's runs.
        others: those of other runs, of names alone that every config notes.
    """
    if not batch:
        return "with versions that nobody noted"
    own, others = [*own], [*others]
    names = {name for one in others for name in _names(one)}
    apart = _apart(own) | _apart([*others, *(of_names(one, names) for one in own)])
    packages = [f"{name} {_listed(_values(name, batch))}" for name in sorted(apart - {HARDWARE})]
    kinds = _listed(_values(HARDWARE, batch)).replace("unknown", "unknown hardware")
    hardware = [f"on {kinds}"] if HARDWARE in apart else []
    return " ".join([*hardware, *([f"with {_listed(packages)}"] if packages else [])])


def _names(batch: Batch) -> set[str]:
    return {name for note in batch for name, _ in note}


def _apart(batches: Collection[Batch]) -> set[str]:
    """Return the names that have different values in some batches."""
    names = {name for batch in batches for name in _names(batch)}
    return {name for name in names if len({_values(name, batch) for batch in batches}) > 1}


def _values(name: str, batch: Batch) -> frozenset[str]:
    return frozenset(dict(note).get(name, "unknown") for note in batch) or frozenset(["unknown"])


def _listed(texts: Iterable[str]) -> str:
    return " and ".join(sorted(texts))
