"""From the events of a finished run to curves small enough to keep in docs/results."""

from collections import defaultdict
from pathlib import Path
from typing import Any, Final

from trainers.process.events import read_events

CURVES: Final = ("reward/mean", "entropy", "probe/entropy")
"""`POINTS` values, each the mean over as many updates."""

POINTS: Final = 60

MEANS: Final = ("share/na_lp", "share/pa_lp", "clip_fraction/dropped", "share/selected")
"""One value, the mean over all updates."""

EVALUATIONS: Final = ("eval/avg_at_k", "eval/pass_at_k", "eval/distinct_answers")
"""One value an evaluation, the first before training."""

Run = dict[str, Any]
"""`steps`, `outcome`, `evaluated` (steps) and, under the names above, curves and numbers."""


def read_run(events: Path) -> Run:
    """What is kept of a finished run, four digits of each number."""
    updates = list[dict[str, Any]]()
    evaluations: dict[int, dict[str, Any]] = {}
    steps, outcome = 0, None
    for event in read_events(events):
        if event["type"] == "started":
            steps = event["config"]["steps"]
        elif event["type"] == "step":
            updates.append(event["metrics"])
        elif event["type"] == "evaluation":
            evaluations[event["step"]] = event["metrics"]
        elif event["type"] == "finished":
            outcome = event["outcome"]
    points: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for place, metrics in enumerate(updates):
        points[place * POINTS // steps].append(metrics)
    return {
        "steps": steps,
        "outcome": outcome,
        **{name: [_mean(name, points[point]) for point in sorted(points)] for name in CURVES},
        **{name: _mean(name, updates) for name in MEANS},
        "evaluated": sorted(evaluations),
        **{name: [_mean(name, [evaluations[step]]) for step in sorted(evaluations)] for name in EVALUATIONS},
    }


def _mean(name: str, metrics: list[dict[str, Any]]) -> float | None:
    values = [m[name] for m in metrics if m[name] is not None]
    return float(f"{sum(values) / len(values):.4g}") if values else None
