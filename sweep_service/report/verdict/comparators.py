"""Comparators of the chosen configs, and the settings in which the two of a pair differ.

Nothing here looks at a confirm result, so no comparator is chosen for how well or badly it did.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from pydantic import ValidationError

from sweep_service.sweep.baselines import clipped_loss
from sweep_service.sweep.labels import differing_names
from sweep_service.sweep.records import Config, Role

COMMON: Final = (Role.BASELINE, Role.DAPO)
"""Roles of the comparators that all candidates share; the first one present comes first."""
KINDS: Final = {Role.BASELINE: "the baseline", Role.DAPO: "DAPO", Role.MATCHED: "its matched baseline"}
"""Names of comparators in a sentence."""
LOSS: Final = "loss"
"""Name of all settings of the loss together."""

Family = Mapping[str, tuple[Role, Config]]
"""The comparator of each candidate, by the candidate's id, with the role in which it is one."""


def families(configs: Sequence[Config], candidates: Collection[str], confirmed: Collection[str]) -> list[Family]:
    """Return the families of comparisons; the first one that has a candidate holds the verdict's comparator for it.

    Where configs differ in the loss alone, the baseline is PPO clip with all else equal, and comes first. Otherwise
    each candidate's own matched baseline comes first, and the baseline only for candidates that have none.

    Args:
        configs: all of the sweep.
        candidates: ids of the chosen configs that have confirm results.
        confirmed: ids of all configs that have.
    """
    chosen = [config for config in configs if config.id in candidates]
    present = {config.id: config for config in configs if config.id in confirmed}
    common = [
        {config.id: (role, shared[0]) for config in chosen if config.id != shared[0].id}
        for role in COMMON
        if (shared := [config for config in present.values() if role in config.roles])
    ]
    own = {
        config.id: (next((role for role in COMMON if role in matched.roles), Role.MATCHED), matched)
        for config in chosen
        if (matched := _own(config, present.values()))
    }
    rests = [{**config.training, LOSS: None} for config in configs]
    if all(rest == rests[0] for rest in rests):
        return [*common, own]
    return [{**(common[0] if common else {}), **own}, *common]


def _own(config: Config, present: Iterable[Config]) -> Config | None:
    """Return a config's matched baseline; None without one, and for a config that is PPO clip itself."""
    if config.is_own:
        return None
    try:
        wanted = {**config.training, LOSS: clipped_loss(config.training.get(LOSS, {}))}
    except ValidationError:  # stored by another version
        return None
    return next((other for other in present if other.training == wanted and other.id != config.id), None)


def differs_in(one: Config, other: Config) -> list[str]:
    """Return the dotted names of the settings in which two configs differ; those of the loss together are `loss`.

    Empty for configs of a trainer of one's own: their labels tell it, and which settings make its loss is not known.
    """
    if one.is_own:
        return []
    sides: list[dict[str, Any]] = [{**config.training, LOSS: None} for config in (one, other)]
    same_loss = one.training.get(LOSS) == other.training.get(LOSS)
    return [*([] if same_loss else [LOSS]), *differing_names(sides)]
