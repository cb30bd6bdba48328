"""Trains the grid of runs that plans and replays draw from, and writes sweep_service/stopping/recorded_grid.json.

python bench/record_grid.py [--jobs 2]    half an hour on two cores; given again, it goes on where it was interrupted
"""

import argparse
import json
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any, Final

from results import ROOT, train

from trainers.config import TrainingConfig, with_params
from trainers.process.events import read_events

FILE: Final = ROOT / "sweep_service" / "stopping" / "recorded_grid.json"
SPACE: Final = {"loss.beta1": (0.0, 0.25, 0.5, 1.0), "optimizer.learning_rate": (1e-4, 2e-4, 4e-4)}
"""Twelve points; the higher of both parameters destroy some of the runs."""
SEEDS: Final = range(8)
BASE: Final[dict[str, Any]] = {
    "loss": {"name": "ce_gppo", "beta1": 0.0, "beta2": 1.0},
    "steps": 240,
    "evaluation": {"every_steps": 16},
}
METRIC: Final = "eval/avg_at_k"


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
    contenders, samples, steps = list[dict[str, Any]](), 0, list[int]()
    for place, point in enumerate(points):
        curves = list[list[float]]()
        for seed in SEEDS:
            events = read_events(options.runs / f"point{place}-seed{seed}" / "events.jsonl")
            evaluations = {event["step"]: event for event in events if event["type"] == "evaluation"}
            curves.append([round(evaluations[step]["metrics"][METRIC], 4) for step in sorted(evaluations)])
            steps = max(steps, sorted(evaluations), key=len)
            counts = evaluations[0]["problems"]
            samples = counts["judged"] * len(counts["right"])
        contenders.append({"params": point, "runs": curves})
    grid = {"metric": METRIC, "samples": samples, "steps": steps, "contenders": contenders}
    FILE.write_text(json.dumps(grid, separators=(",", ":")).replace('{"params"', '\n{"params"') + "\n")


if __name__ == "__main__":
    main()
