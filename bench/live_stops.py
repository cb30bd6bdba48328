"""What rules of early stopping save in real sweeps: the demo's space widened to 12 configs, with and without a rule.

    python bench/live_stops.py [--rounds 3] [--home FOLDER]      over half an hour a round on two cores

In each round the three sweeps have the same seeds and run one after the other, in turns; every round has seeds of its
own. Printed are the hours from submission to the end, processor hours of the whole machine, and the verdict.
"""

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from service_cost import PARALLEL, serving, timed

from sweep_service.cli.spec_file import read_spec
from sweep_service.client import Client
from sweep_service.settings import Settings

BETAS: Final = [0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0]
RULES: Final = (None, "paired", "rungs")
DEMO: Final = Path(__file__).parents[1] / "examples" / "demo.yaml"


def spec(place: int, rule: str | None) -> dict[str, Any]:
    """Return a round's sweep with this rule."""
    demo = dict(read_spec(str(DEMO)))
    demo.pop("benchmarks")
    first = 20 * place
    return demo | {
        "name": f"{rule or 'none'}-{place}",
        "training": demo["training"] | {"steps": 160, "evaluation": {"samples_per_problem": 16, "every_steps": 16}},
        "space": {"loss.beta1": BETAS, "loss.beta2": 1},
        "seeds": {
            "tune": list(range(first, first + 6)),
            "confirm": {"top_k": 2, "seeds": list(range(first + 10, first + 14))},
        },
        "early_stopping": rule,
        "resources": {"cpus": 1, "max_parallel": PARALLEL},
    }


def warm_up() -> dict[str, Any]:
    """Return a sweep of one trial, by which the first model is made."""
    one = {"space": {"loss.beta1": [0.0], "loss.beta2": 1}, "seeds": {"tune": [999]}, "early_stopping": None}
    none = dict.fromkeys(("ppo_clip", "dapo", "matched"), False)
    return spec(0, None) | one | {"name": "first-model", "baselines": none}


def run(client: Client, wanted: dict[str, Any]) -> str:
    """Run a sweep to its end, and return the rest of its line of the table."""
    figures = list[tuple[float, float]]()
    with timed(figures):
        sweep = client.submit(wanted)
        client.wait(sweep.id)
    ((wall_s, spent_s),) = figures
    trials = list(client.trials(sweep.id))
    steps = sum(trial.step for trial in trials) / sum(trial.total_steps for trial in trials)
    ended = client.best(sweep.id)
    told = f"{ended.label}: {ended.verdict_text}"
    return f"{wall_s / 60:.1f} min | {spent_s / 3600:.2f} h | {steps:.0%} of {len(trials)} trials | {told}"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="rounds, each with seeds of its own (3)")
    parser.add_argument("--first", type=int, default=0, help="number of the first round (0)")
    parser.add_argument("--home", type=Path, help="where the sweeps stay; default: a folder that goes at the end")
    options = parser.parse_args()
    with ExitStack() as stack:
        home = options.home or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sweeps-")))
        home.mkdir(parents=True, exist_ok=True)
        client = stack.enter_context(serving(Settings(home=home, port=8755)))
        client.wait(client.submit(warm_up()).id)
        print(
            "| round | rule | wall | processors | steps trained | best and verdict |\n|---|---|---|---|---|---|",
            flush=True,
        )
        for place in range(options.first, options.first + options.rounds):
            turns = RULES[place % 3 :] + RULES[: place % 3]
            for rule in turns:
                print(f"| {place} | {rule or 'none'} | {run(client, spec(place, rule))} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
