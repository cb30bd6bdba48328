"""When the signs of health show in real runs: trains the embedded task on fresh seeds, and looks at all that is asked.

python bench/health_signs.py [--jobs 2] [--runs FOLDER]    ten minutes on two cores; other runs there are read, too

The exit code is 1 if a run that ends with its answers lost was flagged only after two thirds of its steps, though they
were lost before, or if a run with beta1 0 shows a sign.
"""

import argparse
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import numpy as np
from results import ROOT, train

from sweep_service.health.run_health import RunCurves, window
from sweep_service.health.signs import KEYS, SIGNS
from sweep_service.sweep.series import EVALUATION, TrialSeries
from trainers.config import TrainingConfig, with_params
from trainers.process.events import read_events

SEEDS: Final = range(100, 105)
BASE: Final[dict[str, Any]] = {"loss": {"name": "ce_gppo", "beta1": 0.0, "beta2": 1.0}}
BETAS: Final = (0.0, 1.0)
LAST: Final = 3


class Run:
    """A finished run, looked at as a sweep's runner looks at it."""

    def __init__(self, folder: Path) -> None:
        events = list(read_events(folder / "events.jsonl"))
        config = next(event["config"] for event in events if event["type"] == "started")
        self.beta1, self.rate = config["loss"]["beta1"], config["optimizer"]["learning_rate"]
        self.seed, self.steps = config["seed"], config["steps"]
        self._updates = {event["step"]: event["metrics"] for event in events if event["type"] == "step"}
        self._evaluations = {event["step"]: event for event in events if event["type"] == "evaluation"}
        self.flagged = dict[str, int]()
        """By sign the step at which it was seen first."""
        width = window(self.steps)
        for step in sorted({*self._evaluations, *range(width, self.steps + 1, width), self.steps}):
            run = self.until(step)
            for sign in SIGNS:
                if sign.code not in self.flagged and sign.look(run):
                    self.flagged[sign.code] = step

    def until(self, step: int) -> RunCurves:
        """Return the curves as far as a step."""
        counts = next(iter(self._evaluations.values()))["problems"]
        samples = counts["judged"] * len(counts["right"])
        updates = {at: metrics for at, metrics in self._updates.items() if at <= step}
        evaluations = {at: event["metrics"] for at, event in self._evaluations.items() if at <= step}
        metrics = _columns([key for key in KEYS if not key.startswith(EVALUATION)], updates)
        metrics |= _columns([key for key in KEYS if key.startswith(EVALUATION)], evaluations)
        at = [np.array(sorted(steps), dtype=np.int64) for steps in (updates, evaluations)]
        return RunCurves(self.steps, LAST, TrialSeries("", *at, np.zeros(len(evaluations)), metrics), samples)


def _columns(keys: Sequence[str], rows: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    columns = {key: np.array([rows[step].get(key) for step in sorted(rows)], dtype=float) for key in keys}
    return {key: values for key, values in columns.items() if not np.isnan(values).all()}


def main() -> int:
    """Train what is missing, and print when each sign was seen in the runs of each beta1 and learning rate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, one core each (2)")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "health", help="where runs are kept")
    options = parser.parse_args()
    wanted = {
        options.runs / f"beta{beta1}-seed{seed}": with_params({**BASE, "seed": seed}, {"loss.beta1": beta1})
        for seed in SEEDS
        for beta1 in BETAS
    }
    with ThreadPoolExecutor(options.jobs) as pool:
        list(
            pool.map(
                lambda folder: train(TrainingConfig.model_validate(wanted[folder]), folder, options.runs / "cache"),
                wanted,
            )
        )
    groups, late, false = defaultdict[tuple[float, float], list[Run]](list), 0, 0
    for folder in sorted(path.parent for path in options.runs.glob("*/events.jsonl")):
        run = Run(folder)
        groups[run.beta1, run.rate].append(run)
    print("| beta1, learning rate | runs | lost their answers | sign: runs, first seen at these shares of the steps |")
    print("| --- | --- | --- | --- |")
    for (beta1, rate), runs in sorted(groups.items()):
        lost = [run for run in runs if run.until(run.steps).health.collapsed]
        seen = defaultdict[str, list[float]](list)
        for run in runs:
            for code, step in run.flagged.items():
                seen[code].append(step / run.steps)
        late += sum(min(run.flagged.values(), default=run.steps) > 2 / 3 * run.steps for run in lost)
        false += sum(bool(run.flagged) for run in runs) if beta1 == 0 else 0
        told = [f"{code}: {len(at)}, {min(at):.0%} to {max(at):.0%}" for code, at in seen.items()]
        print(f"| {beta1:g}, {rate:g} | {len(runs)} | {len(lost)} | {'; '.join(told) or 'none'} |")
    print(f"collapsed and flagged after two thirds: {late}; flagged with beta1 0: {false}")
    return int(late > 0 or false > 0)


if __name__ == "__main__":
    raise SystemExit(main())
