"""Makes docs/results.md's curves, figures and tables: trains what is missing, then draws."""

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from curves import read_run
from figures import draw
from studies import LOSSES, SETTINGS, STUDIES
from tables import write_tables

from trainers.config import TrainingConfig, with_params
from trainers.process.events import read_events
from trainers.yaml_text import write_yaml

ROOT: Final = Path(__file__).resolve().parents[1]
CURVES: Final = ROOT / "docs" / "results"

_EPILOG: Final = """\
A run that is finished is not made again, one that was interrupted goes on: give the same command again. A run takes
one core (one thread) for half a minute to two; the first of a setting may make its warm start, one minute more.

  python bench/results.py                  everything in docs/results.md; runs go under runs/results
  python bench/results.py losses --jobs 2  one study, two runs at a time
  python bench/results.py --draw           figures and tables anew from the curves in docs/results, without training
"""


def configuration(setting: str, loss: str, seed: int) -> TrainingConfig:
    """A run. What a setting says of the loss wins, so that it can tighten every loss's bounds."""
    arm = LOSSES[loss]
    params = with_params({"loss": arm.params, "seed": seed}, {**arm.further, **SETTINGS[setting]})
    return TrainingConfig.model_validate(params)


def train(config: TrainingConfig, folder: Path, cache: Path) -> None:
    """Train in a process of its own, unless that has been done."""
    if _finished(folder, config):
        return
    folder.mkdir(parents=True, exist_ok=True)
    file, started = folder / "config.yaml", time.monotonic()
    file.write_text(write_yaml(config.model_dump(mode="json")))
    command = [sys.executable, "-m", "trainers", file, "--output", folder, "--cache", cache, "--resume"]
    with (folder / "log.txt").open("a") as log:
        subprocess.run(command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=log, check=False)
    if not _finished(folder, config):
        raise SystemExit(f"{folder}: the run failed; its log.txt says why")
    print(f"{folder.parent.name}/{folder.name}: {time.monotonic() - started:.0f} s", flush=True)


def _finished(folder: Path, config: TrainingConfig) -> bool:
    if not (folder / "events.jsonl").exists():
        return False
    events = read_events(folder / "events.jsonl")
    started = next(event for event in events if event["type"] == "started")
    if TrainingConfig.model_validate(started["config"]) != config:
        raise SystemExit(f"{folder} holds a run of another configuration; remove it")
    return any(event["type"] == "finished" and event["outcome"] != "STOPPED" for event in events)


def run_study(name: str, runs: Path, cache: Path, jobs: int) -> None:
    """Train what is missing of a study and write its curves."""
    settings, losses, seeds = STUDIES[name]
    wanted = {
        (setting, loss, seed): runs / setting.replace(" ", "_") / f"{loss}-seed{seed}"
        for seed in seeds
        for setting in settings
        for loss in losses
    }
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(lambda run: train(configuration(*run), wanted[run], cache), wanted))
    kept: dict[str, Any] = {setting: {loss: {} for loss in losses} for setting in settings}
    for (setting, loss, seed), folder in wanted.items():
        kept[setting][loss][str(seed)] = read_run(folder / "events.jsonl")
    CURVES.mkdir(exist_ok=True)
    (CURVES / f"{name}.json").write_text(json.dumps(kept, separators=(",", ":")) + "\n")


def main() -> None:
    """Train, draw, write."""
    parser = argparse.ArgumentParser(
        "bench/results.py", description=__doc__, epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("study", nargs="*", help=f"{', '.join(STUDIES)}; default: all")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, one core each (1)")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "results", help="where runs are kept")
    parser.add_argument("--cache", type=Path, help="models (RUNS/cache)")
    parser.add_argument("--draw", action="store_true", help="train nothing")
    options = parser.parse_args()
    if unknown := set(options.study) - set(STUDIES):
        parser.error(f"no study {', '.join(unknown)}; there are {', '.join(STUDIES)}")
    if not options.draw:
        for name in options.study or STUDIES:
            run_study(name, options.runs, options.cache or options.runs / "cache", options.jobs)
    results = {file.stem: json.loads(file.read_text()) for file in sorted(CURVES.glob("*.json"))}
    draw(results, ROOT / "docs" / "images" / "results")
    write_tables(results, ROOT / "docs" / "results.md")


if __name__ == "__main__":
    main()
