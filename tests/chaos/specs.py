"""The sweeps of the nemesis: small, and each the same to the last bit whenever it runs."""

import sys
from collections.abc import Mapping
from typing import Any, Final

from tests.sweep_stack import SMALL_TRAINING, small_sweep

STEPS: Final = 96
"""Optimizer updates of a trial: some seconds, so that a fault hits most of them on their way."""
_TRAINING: Final = SMALL_TRAINING | {
    "steps": STEPS,
    "model": {"warm_start_steps": 300, "hidden_size": 32, "num_layers": 1},
    "terms": {"entropy_bonus": {"coefficient": 0.02}},  # a gradient at every update, whatever the rewards
    "checkpoint_every_rollouts": 4,
    "evaluation": {"every_steps": 32, "samples_per_problem": 4, "pass_k": 2},
}
_ALL: Final[Mapping[str, Any]] = {"training": _TRAINING, "resources": {}}  # as many trials at a time as fit
OWN_TRAINER: Final = (sys.executable, "-m", "examples.own_trainer")
"""Command of the example of a trainer of one's own."""
_FORGIVEN: Final = {"max_crashes": 100}

SPECS: Final[Mapping[str, Mapping[str, Any]]] = {
    "grid": small_sweep(
        "grid", **_ALL, seeds={"tune": [0, 1], "confirm": {"top_k": 1, "seeds": [7]}}, retries=_FORGIVEN
    ),
    "measured": small_sweep(
        "measured",
        **_ALL,
        benchmarks={"names": ["expressions"], "samples": 32, "longest": 16, "of": "all"},
        retries=_FORGIVEN,
    ),
    "fragile": small_sweep(
        "fragile",
        **_ALL,
        space={"loss.beta1": {"type": "float", "low": 0, "high": 1}, "loss.beta2": 0},
        search={"strategy": "random", "num_configs": 2},
        retries={"max_crashes": 0},
    ),
    "own": {
        "name": "own",
        "trainer": {"command": [*OWN_TRAINER], "steps": STEPS, "baseline": {"beta": 0}},
        "training": {"learning_rate": 0.3, "evaluate_every": 16, "step_s": 0.05},
        "space": {"beta": [0, 0.5]},
        "seeds": {"tune": [0, 1]},
        "retries": _FORGIVEN,
    },
}
"""A grid with a confirm stage; one that measures models on a benchmark; one whose trials fail at the first crash; one
with a trainer of one's own, which knows nothing of faults.
"""

MORE: Final = {"seeds": {"confirm": {"seeds": [7, 8]}}}
"""The extension: one more confirm seed."""
EXTENDED: Final = "grid"
"""The kind of sweep that is extended."""


def spec_of(kind: str, name: str) -> dict[str, Any]:
    """Return a spec under a name of its own; nothing that is trained depends on the name."""
    return {**SPECS[kind], "name": name}
