"""References: curves and report of each sweep when nothing disturbs it, without clocks and names."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sweep_service.client import Client
from sweep_service.sweep.records import SweepState, TrialState
from tests.chaos.specs import EXTENDED, MORE, spec_of

CLOCKS: Final = ("time/", "tokens/per_second", "memory/")
"""Beginnings of the metrics that tell of the machine, and not of the training."""
_NAMES_AND_CLOCKS: Final = frozenset(
    {
        "id",
        "trial_id",
        "trials",
        "name",
        "path",
        "yaml",
        "inputs_digest",
        "spec_digest",
        "spec",
        "created_at",
        "mlflow_url",
        "mlflow_urls",
        "trial_hours",
        "hours",
        "seconds",
        "attempts",
        "command",
    }
)
"""Fields of a report that differ from run to run: ids, names, addresses, times, numbers of attempts."""
_TIME: Final = re.compile(r"\b[\d.]+ (seconds?|minutes?|hours?)\b")
_SWEEP: Final = re.compile("swp_[0-9a-z]{26}")
_MOST_KEYS: Final = 50

Point = tuple[str, int, str, str]
"""A curve: config, seed, stage, metric."""


@dataclass(frozen=True)
class Reference:
    """A sweep as it is when nothing disturbs it."""

    curves: Mapping[Point, tuple[Sequence[int], Sequence[float | None]]]
    """Curves of the sweep with its extension."""
    report: Any
    """Report of the sweep without it."""


def make_references(client: Client, say: Callable[[str], None], kinds: Sequence[str]) -> dict[str, Reference]:
    """Run every sweep undisturbed, and those that can be extended with their extension.

    Raises: RuntimeError, if one does not succeed.
    """
    ids = {kind: client.submit(spec_of(kind, f"undisturbed-{kind}")).id for kind in kinds}
    reports: dict[str, Any] = {}
    for kind, sweep_id in ids.items():
        _succeed(client, sweep_id)
        reports[kind] = comparable_report(client, sweep_id)
        say(f"undisturbed: {kind}")
        if kind == EXTENDED:
            client.extend(sweep_id, MORE)
    for sweep_id in ids.values():
        _succeed(client, sweep_id)
    return {kind: Reference(dict(curves_of(client, sweep_id)), reports[kind]) for kind, sweep_id in ids.items()}


def _succeed(client: Client, sweep_id: str) -> None:
    sweep = client.wait(sweep_id, 900)
    states = {trial.state for trial in client.trials(sweep_id)}
    if sweep.state is not SweepState.SUCCEEDED or states != {TrialState.SUCCEEDED}:
        raise RuntimeError(f"the undisturbed {sweep.name} is {sweep.state} with trials {states}: {sweep.message}")


def curves_of(client: Client, sweep_id: str) -> Iterator[tuple[Point, tuple[list[int], list[float | None]]]]:
    """Yield all curves of the trials that have SUCCEEDED, without clocks."""
    trials = [trial.id for trial in client.trials(sweep_id, [TrialState.SUCCEEDED])]
    keys = [metric.key for metric in client.metric_keys(sweep_id) if not metric.key.startswith(CLOCKS)]
    for first in range(0, len(keys) if trials else 0, _MOST_KEYS):
        for curve in client.curves(sweep_id, keys[first : first + _MOST_KEYS], trials):
            point = (curve.config_id, curve.seed, curve.stage.value, curve.key)
            yield point, (curve.steps, curve.values)


def comparable_report(client: Client, sweep_id: str) -> Any:
    """Return a sweep's report without what differs from run to run."""
    report = json.loads(client.report(sweep_id, "json", timeout_s=120))
    report["cautions"] = [one for one in report["cautions"] if one["code"] != "ASKED_BEFORE"]  # names other sweeps
    return _without_names(report)


def _without_names(part: Any) -> Any:
    if isinstance(part, dict):
        kept = {name: value for name, value in part.items() if not _is_name(name, value)}
        return {name: _without_names(value) for name, value in kept.items()}
    if isinstance(part, list):
        return [_without_names(item) for item in part if not (isinstance(item, dict) and item.get("unit") == "hours")]
    return _SWEEP.sub("SWEEP", _TIME.sub("TIME", part)) if isinstance(part, str) else part


def _is_name(name: str, value: Any) -> bool:
    """Whether a field differs from run to run; a config's id does not, and `trials` may be the list of all trials."""
    if name == "id" and str(value).startswith("cfg_"):
        return False
    return name in _NAMES_AND_CLOCKS and not (name == "trials" and value and isinstance(value[0], dict))


def first_difference(expected: Any, seen: Any, place: str = "") -> str | None:
    """Return where two documents differ first, and how; None if they are equal."""
    if isinstance(expected, dict) and isinstance(seen, dict):
        pairs = [(f"{place}/{key}", expected.get(key), seen.get(key)) for key in sorted(expected.keys() | seen.keys())]
    elif isinstance(expected, list) and isinstance(seen, list) and len(expected) == len(seen):
        pairs = [(f"{place}/{number}", *pair) for number, pair in enumerate(zip(expected, seen, strict=True))]
    else:
        return None if expected == seen else f"{place}: expected {_short(expected)}, saw {_short(seen)}"
    return next((told for where, one, other in pairs if (told := first_difference(one, other, where))), None)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 160 else f"{text[:160]}…"
