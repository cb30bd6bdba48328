"""Trains the grid of runs that `replay_stops.py` replays, and writes bench/recorded_grid.json.

python bench/record_grid.py [--jobs 2]    half an hour on two cores; given again, it goes on where it was interrupted
"""

import argparse
import json
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any, Final

from curves import POINTS, read_run
from results import ROOT, train

from trainers.config import TrainingConfig, with_params

FILE: Final = Path(__file__).with_name("recorded_grid.json")
SPACE: Final = {"loss.beta1": (0.0, 0.25, 0.5, 1.0), "optimizer.learning_rate": (1e-4, 2e-4, 4e-4)}
"""Twelve points; the higher of both parameters destroy some of the runs."""
SEEDS: Final = range(8)
BASE: Final[dict[str, Any]] = {
    "loss": {"name": "ce_gppo", "beta1": 0.0, "beta2": 1.0},
    "evaluation": {"every_steps": 30},
}
_KEPT: Final = ("outcome", "eval/avg_at_k", "reward/mean", "entropy")


def configuration(params: dict[str, float], seed: int) -> TrainingConfig:
    """Return the configuration of one run."""
    return TrainingConfig.model_validate(with_params({**BASE, "seed": seed}, params))


def main() -> None:
    """Train what is missing, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, one core each (2)")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "grid", help="where runs are kept")
    options = parser.parse_args()
    points = [dict(zip(SPACE, values, strict=True)) for values in product(*SPACE.values())]
    runs = [
        (options.runs / f"point{place}-seed{seed}", configuration(point, seed))
        for seed in SEEDS
        for place, point in enumerate(points)
    ]
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda run: train(run[1], run[0], options.runs / "cache"), runs))
    kept = list[dict[str, Any]]()
    for place, point in enumerate(points):
        found = {seed: read_run(options.runs / f"point{place}-seed{seed}" / "events.jsonl") for seed in SEEDS}
        kept.append({"params": point, "runs": {seed: _compact(run) for seed, run in found.items()}})
    steps, evaluated = found[0]["steps"], found[0]["evaluated"]
    grid = {"steps": steps, "evaluated": evaluated, "points": POINTS, "contenders": kept}
    FILE.write_text(json.dumps(grid, separators=(",", ":")).replace('{"params"', '\n{"params"') + "\n")


def _compact(run: dict[str, Any]) -> dict[str, Any]:
    return {key: [_short(value) for value in run[key]] if isinstance(run[key], list) else run[key] for key in _KEPT}


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.3g}")


if __name__ == "__main__":
    main()
