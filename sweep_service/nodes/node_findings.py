"""The judgement of the nodes' answers: the faults of each node and their remedies. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

_LEAST_FREE_GIB: Final = 5
_SKEW_S: Final = 2.0
_SHOWN: Final = 5


class Node(NamedTuple):
    """A node of the cluster and its answer."""

    name: str
    gpus: float
    """Number of GPUs that Ray counts on the node."""
    answer: Mapping[str, Any] | str
    """The facts that `look` returns there, or the reason why there are none."""
    skew_s: float = 0.0
    """Seconds by which the node's clock is at least ahead of (negative: behind) the clock here."""
    nonce: str | None = None
    """Content of the file that the node wrote to the shared folder, as read here; None if it is not visible here."""
    runs_trials: bool = True
    """True if Ray may place a trial there. A head without CPUs and GPUs needs neither storage nor cache."""


Finding = tuple[str, str, str]
"""Name, verdict (ok, warning, error), detail."""


def judge(nodes: Sequence[Node], here: Mapping[str, Any], nonce: str, storage: str, cache: str) -> Iterator[Finding]:
    """Yield the faults of each node and their remedies, or one line for a node without faults.

    Args:
        here: what `look` says on this machine.
    """
    for node in nodes:
        if isinstance(node.answer, str):
            yield node.name, "error", node.answer
            continue
        problems = [*_installation(node.answer, here), *_gpus(node, node.answer["gpus"])]
        if abs(node.skew_s) > _SKEW_S:
            skew = f"{abs(node.skew_s):.0f} s {'ahead' if node.skew_s > 0 else 'behind'}"
            problems.append(("warning", f"its clock is at least {skew}; times in curves will be; run NTP there"))
        if node.runs_trials:
            problems += _storage(node, node.answer["storage"], nonce, storage)
            problems += _cache(node.answer["cache"], here["cache"], cache)
        yield from ((node.name, verdict, detail) for verdict, detail in problems)
        if not problems and not node.runs_trials:
            yield node.name, "ok", "code as here; Ray places no trial there, for it offers no CPU and no GPU"
        elif not problems:
            free = f"{node.answer['storage']['free'] / 2**30:.0f} GiB free in {storage}"
            entries = f"{len(node.answer['cache']['entries'])} catalog entries"
            cards = f", {', '.join(_counted(node.answer['gpus']['names']))}" if node.answer["gpus"] else ""
            yield node.name, "ok", f"storage shared, {free}; {entries} and code as here{cards}"


def _storage(node: Node, answer: Mapping[str, Any], nonce: str, storage: str) -> Iterator[tuple[str, str]]:
    if "problem" in answer:
        yield "error", f"storage {storage}: {answer['problem']}; mount the shared folder there, writable for Ray's user"
    elif answer["nonce"] is None:
        yield (
            "error",
            f"storage {storage} is another folder there than here: a file written here is not seen; mount the same "
            "shared folder under this path on every node, or set SWEEPS_STORAGE to one that is",
        )
    elif answer["nonce"] != nonce or node.nonce != nonce:
        yield (
            "error",
            f"storage {storage}: what this machine and that node write there does not reach the other whole; use a "
            "file system with POSIX renames and without delayed lists of names",
        )
    elif answer["free"] < _LEAST_FREE_GIB * 2**30:
        yield "warning", f"storage {storage}: {answer['free'] / 2**30:.1f} GiB free; checkpoints need more, make room"


def _cache(answer: Mapping[str, Any], here: Mapping[str, Any], cache: str) -> Iterator[tuple[str, str]]:
    if "problem" in answer:
        yield "error", f"cache {cache}: {answer['problem']}; mount the shared cache there"
        return
    if "problem" in here:
        yield "error", f"cache {cache} cannot be read on this machine: {here['problem']}"
        return
    theirs, ours = answer["entries"], here["entries"]
    absent = [name for name in ours if name not in theirs]
    other = [name for name in ours if theirs.get(name, ours[name]) != ours[name]]
    if absent:
        yield "error", f"cache {cache}: {_some(absent)} missing there; share one folder, or add them there, too"
    if other:
        yield "error", f"cache {cache}: {_some(other)} not the same there; remove and add again at one revision"


def _installation(answer: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if answer["code"] != here["code"]:
        yield "error", "other code than here; install the same version there and restart its Ray"
    pairs = {"python": (answer["python"], here["python"])}
    pairs |= {name: (answer["packages"][name], ours) for name, ours in here["packages"].items()}
    if differing := [
        f"{name} {theirs or 'none'} (here {ours or 'none'})" for name, (theirs, ours) in pairs.items() if theirs != ours
    ]:
        yield "error", f"other packages than here: {', '.join(differing)}; install requirements.lock there"


def _gpus(node: Node, answer: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    if answer is None:
        return
    if "problem" in answer:
        yield "error", f"Ray counts {node.gpus:g} GPUs and torch cannot look: {answer['problem']}"
    elif len(answer["names"]) < node.gpus:
        cards, driver = ", ".join(_counted(answer["names"])) or "none", answer["driver"] or "not found"
        yield (
            "error",
            f"Ray counts {node.gpus:g} GPUs and torch sees {cards} (driver: {driver}); install a driver and a torch "
            "that fit, or start Ray there with the right --num-gpus",
        )


def _counted(names: Sequence[str]) -> list[str]:
    return [f"{names.count(name)} x {name}" for name in dict.fromkeys(names)]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
