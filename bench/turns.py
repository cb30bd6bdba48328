"""Twelve sweeps at once on two slots of a real `sweeps serve`: who begins when, and how late each one ends.

    python bench/turns.py                   a trial takes about half a minute; twenty minutes in all
    python bench/turns.py --steps 300       shorter trials, of which the start is a larger part

The smallest sweep, submitted last, has twelve trials, and runs alone first; each of the others has twenty. Once it has
ended, the others are cancelled. Times are seconds since the first of the twelve was submitted.
"""

import argparse
import sys
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from sweep_service.client import Client
from tests.chaos.installation import installed
from tests.sweep_stack import SMALL_TRAINING

SWEEPS: Final = 12
SMALL, LARGE = (0, 1, 2, 3, 4, 5), tuple(range(10))
"""Seeds of the smallest sweep and of the others; each has two configs."""


def spec(name: str, seeds: tuple[int, ...], steps: int) -> dict[str, Any]:
    """Return a sweep of two configs whose trials take one slot each."""
    return {
        "name": name,
        "training": SMALL_TRAINING
        | {"steps": steps, "evaluation": {"every_steps": 40, "samples_per_problem": 4, "pass_k": 2}},
        "space": {"loss.beta1": [0, 0.5], "loss.beta2": 0},
        "seeds": {"tune": list(seeds)},
        "baselines": {"ppo_clip": False, "dapo": False},
        "resources": {"cpus": 1},
    }


def wait_for_end(client: Client, sweep_id: str) -> float:
    """Wait until a sweep has succeeded; return when it ended."""
    sweep = client.wait(sweep_id)
    assert sweep.state == "SUCCEEDED"
    assert sweep.ended_at is not None
    return sweep.ended_at


def trained(client: Client, sweep_id: str, until: float) -> tuple[float, float | None, int]:
    """Return when a sweep's first trial began and was first evaluated, and how many trials had ended by then."""
    trials = list(client.trials(sweep_id))
    curves = client.curves(sweep_id, ["eval/avg_at_k"])
    evaluated = [moment for curve in curves for moment, step in zip(curve.times, curve.steps, strict=True) if step > 0]
    began = min(trial.started_at for trial in trials if trial.started_at)
    return began, min(evaluated, default=None), sum((trial.ended_at or until + 1) <= until for trial in trials)


def main() -> None:
    """Run and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2400, help="optimizer updates of a trial (%(default)s)")
    steps = parser.parse_args().steps
    with installed(disk=False) as installation:
        installation.start()
        installation.wait_until_ready()
        client = installation.client(patience_s=60, timeout_s=30)
        alone = client.submit(spec("alone", SMALL, steps))
        length_s = wait_for_end(client, alone.id) - alone.created_at
        names = [f"large {number}" for number in range(1, SWEEPS)] + ["smallest"]
        sweeps = [
            client.submit(spec(name.replace(" ", "-"), SMALL if name == "smallest" else LARGE, steps)) for name in names
        ]
        zero, end = sweeps[0].created_at, wait_for_end(client, sweeps[-1].id)
        print(f"{'sweep':10} {'first trial':>12} {'first evaluation':>17} {'trials done':>12}")
        for name, sweep in zip(names, sweeps, strict=True):
            began, evaluated, number = trained(client, sweep.id, end)
            print(f"{name:10} {began - zero:12.1f} {(evaluated or end) - zero:17.1f} {number:12}")
        took_s = end - sweeps[-1].created_at
        print(f"the smallest took {took_s:.1f} s, {took_s / length_s:.2f} times its {length_s:.1f} s alone")
        for sweep in sweeps[:-1]:
            client.cancel(sweep.id)


if __name__ == "__main__":
    main()
