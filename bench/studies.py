"""What `results.py` runs: losses on settings on seeds, everything else the same."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

Params = dict[str, Any]
"""Changes of the default training configuration, by dotted names."""


def _ce_gppo(beta1: float, beta2: float) -> Params:
    return {"name": "ce_gppo", "beta1": beta1, "beta2": beta2}


class Loss(NamedTuple):
    """What a loss is called, its parameters where they are not the defaults, and what else goes with it."""

    label: str
    params: Params
    further: Mapping[str, Any] = {}
    """Other changes of the training, by dotted names: of advantages, terms, critic."""


def _grpo(label: str, **further: object) -> Loss:
    """Return GRPO with one more option; in its name two underscores stand for a dot."""
    return Loss(label, {"name": "grpo"}, {name.replace("__", "."): value for name, value in further.items()})


LOSSES: Final[dict[str, Loss]] = {
    "grpo": Loss("GRPO", {"name": "grpo"}),
    "dapo": Loss("DAPO", {"name": "dapo"}),
    "dapo_erc": Loss("DAPO + ERC", {"name": "dapo", "erc": {"mode": "mask"}}),
    "ce_gppo_0_1": Loss("CE-GPPO (0, 1)", _ce_gppo(0, 1)),
    "ce_gppo_0.25_1": Loss("CE-GPPO (0.25, 1)", _ce_gppo(0.25, 1)),
    "ce_gppo_0.5_1": Loss("CE-GPPO (0.5, 1)", _ce_gppo(0.5, 1)),
    "ce_gppo_0.75_1": Loss("CE-GPPO (0.75, 1)", _ce_gppo(0.75, 1)),
    "ce_gppo_1_0.5": Loss("CE-GPPO (1, 0.5)", _ce_gppo(1, 0.5)),
    "gppo": Loss("GPPO (1, 1)", {"name": "gppo"}),
    "cispo": Loss("CISPO", {"name": "cispo"}),
    "gspo": Loss("GSPO", {"name": "gspo"}),
    "clip_cov": Loss("Clip-Cov", {"name": "clip_cov"}),
    "kl_cov": Loss("KL-Cov", {"name": "kl_cov"}),
    "dcpo": Loss("DCPO", {"name": "dcpo"}),
    "bapo": Loss("BAPO", {"name": "bapo"}),
    "positive_0.5": _grpo("GRPO, positive weight 0.5", advantage__positive_weight={"weight": 0.5}),
    "positive_0.75": _grpo("GRPO, positive weight 0.75", advantage__positive_weight={"weight": 0.75}),
    "entropy_advantage": _grpo("GRPO, entropy in advantages", advantage__entropy={}),
    "gtpo": _grpo("GTPO", advantage__entropy_reward={"level": "token"}),
    "grpo_s": _grpo("GRPO-S", advantage__entropy_reward={"level": "sequence"}),
    "kl_0.01": _grpo("GRPO, KL 0.01", terms__kl={"coefficient": 0.01}),
    "critic": _grpo("PPO with a critic", critic={}),
}
_FAMILY: Final = tuple(LOSSES)[tuple(LOSSES).index("dcpo") :]

_LONG: Final = {"steps": 960, "optimizer.learning_rate": 1e-4, "evaluation.every_steps": 120}
_FIFTH: Final = {"task.validation_every": 5}  # the default of `expressions` when these were measured
_EXPRESSIONS: Final = {**_LONG, **_FIFTH}
_COUNTDOWN: Final = {**_LONG, "task.name": "countdown"}

SETTINGS: Final[dict[str, Params]] = {
    "default": _FIFTH,
    "slow": _EXPRESSIONS,
    "slower": {**_EXPRESSIONS, "optimizer.learning_rate": 5e-5},
    "many updates": {**_EXPRESSIONS, "rollout.prompts_per_minibatch": 2, "device_batch": 32},
    "tight clip": {**_EXPRESSIONS, "loss.epsilon_low": 0.05, "loss.epsilon_high": 0.05},
    "weak start": {**_EXPRESSIONS, "model.warm_start_steps": 800},
    "few prompts": {**_EXPRESSIONS, "task.largest": 41, "task.validation_every": 2},
    "positive NLL": {**_EXPRESSIONS, "terms.positive_nll": 0.1},
    "countdown 3": {**_COUNTDOWN, "rollout.max_completion_tokens": 14},
    "countdown 4": {
        **_COUNTDOWN,
        "task.numbers": 4,
        "task.largest": 10,
        "task.largest_target": 30,
        "rollout.max_completion_tokens": 18,
    },
}


class Study(NamedTuple):
    """Every loss on every setting and every seed."""

    settings: tuple[str, ...]
    losses: tuple[str, ...]
    seeds: tuple[int, ...]


STUDIES: Final[dict[str, Study]] = {
    "losses": Study(
        ("default",),
        tuple(loss for loss in LOSSES if loss not in ("ce_gppo_0.25_1", "ce_gppo_0.75_1", *_FAMILY)),
        seeds=(0, 1, 2),
    ),
    "family": Study(("default",), ("grpo", *_FAMILY), seeds=(0, 1, 2)),
    "screen": Study(
        tuple(setting for setting in SETTINGS if setting != "default"), ("grpo", "dapo", "ce_gppo_0.5_1"), seeds=(0,)
    ),
    "tune": Study(
        ("slower", "countdown 3"),
        ("grpo", "dapo", "ce_gppo_0_1", "ce_gppo_0.25_1", "ce_gppo_0.5_1", "ce_gppo_0.75_1"),
        seeds=(0, 1),
    ),
    "confirm": Study(("countdown 3",), ("grpo", "dapo", "ce_gppo_0.25_1"), seeds=(10, 11, 12, 13)),
}
