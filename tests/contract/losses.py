"""One-token sequences for the contract tests of losses, and closed forms that share no code with the losses."""

from collections.abc import Callable, Sequence
from math import log, nextafter, sqrt
from typing import Any

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

from trainers.losses import (
    LOSSES,
    EntropyBonusParams,
    ERCMask,
    ERCPenalty,
    LossOutput,
    ReferenceKLParams,
    TermsParams,
    TokenBatch,
    policy_loss,
)

quick = settings(max_examples=60, deadline=None)
brief = settings(max_examples=10, deadline=None)
"""For tests that run for every loss, aggregation and denominator."""

ALL_TERMS = TermsParams(
    positive_nll=0.1,
    entropy_bonus=EntropyBonusParams(coefficient=0.01),
    kl=ReferenceKLParams(coefficient=0.05),
)
ALL_PARAMS = [
    *(entry.params() for entry in LOSSES.values()),
    *(
        entry.params(erc=erc)
        for entry in LOSSES.values()
        if "erc" in entry.params.model_fields
        for erc in (ERCMask(), ERCPenalty())
    ),
]

Row = tuple[float, float]
"""Log-ratio and advantage of a token."""


def run(params: Any, rows: Sequence[Row], **parts: Any) -> tuple[LossOutput, Tensor]:
    """The loss of sequences of one token each, in float64, and d (sum of losses) / d log-prob; both (B, 1).

    Without a choice of its own clip_cov drops nothing.
    """
    delta_BT, advantages_BT = torch.tensor(rows, dtype=torch.float64).reshape(-1, 2, 1).unbind(1)
    logprobs_BT = delta_BT.clone().requires_grad_()
    ones_BT = torch.ones_like(delta_BT)
    parts = {"selected_BT": ~ones_BT.bool(), "entropy_BT": ones_BT, "old_entropy_BT": ones_BT, **parts}
    output = policy_loss(TokenBatch(logprobs_BT, ones_BT * 0, advantages_BT, ones_BT, **parts), params)
    return output, torch.autograd.grad(output.loss_BT.sum(), logprobs_BT)[0]


def label(params: Any) -> str:
    """A test's id: the loss and what differs from its defaults."""
    values = {name: (getattr(params, name), field.default) for name, field in type(params).model_fields.items()}
    changed = {name: getattr(value, "mode", value) for name, (value, default) in values.items() if value != default}
    return "-".join([params.name, *(f"{name}={value}" for name, value in changed.items())])


# closed forms of the gradient weight: the factor on A grad log pi


def clipped(ratio: float, advantage: float, params: Any) -> float:
    if (advantage > 0 and ratio > 1 + params.epsilon_high) or (advantage < 0 and ratio < 1 - params.epsilon_low):
        return 0.0
    return ratio


def dual_clipped(ratio: float, advantage: float, params: Any) -> float:
    dropped = advantage < 0 and params.dual_clip is not None and ratio > params.dual_clip
    return 0.0 if dropped else clipped(ratio, advantage, params)


def gradient_preserving(ratio: float, advantage: float, params: Any) -> float:
    if advantage < 0 and ratio < 1 - params.epsilon_low:
        return getattr(params, "beta1", 1.0) * (1 - params.epsilon_low)
    if advantage > 0 and ratio > 1 + params.epsilon_high:
        return getattr(params, "beta2", 1.0) * (1 + params.epsilon_high)
    return dual_clipped(ratio, advantage, params)


def cispo(ratio: float, advantage: float, params: Any) -> float:
    return min(max(ratio, 1 - params.epsilon_low), 1 + params.epsilon_high)


def kl_cov(ratio: float, advantage: float, params: Any) -> float:
    """Return the weight of a token where all are selected."""
    assert params.selected_share == 1
    sign = (ratio > 1) - (ratio < 1)
    return ratio - params.kl_coefficient * sign / advantage


def dcpo(ratio: float, advantage: float, params: Any) -> float:
    """Return the weight of a token whose old probability is 1, as it is for every token of `run`."""
    low = 0.5 + 0.5 * sqrt(max(1 - 4 * params.epsilon_low, 0.0))
    high = min(0.5 + 0.5 * sqrt(1 + 4 * params.epsilon_high), params.largest_bound)
    dropped = advantage < 0 and params.dual_clip is not None and ratio > params.dual_clip
    return 0.0 if dropped or (advantage > 0 and ratio > high) or (advantage < 0 and ratio < low) else ratio


def bapo(ratio: float, advantage: float, params: Any) -> float:
    """Return the weight of a token where the bounds are enough at which the search begins."""
    assert params.target == 0
    return dual_clipped(ratio, advantage, params)


WEIGHTS: dict[str, Callable[[float, float, Any], float]] = {
    "grpo": dual_clipped,
    "dapo": dual_clipped,
    "gppo": gradient_preserving,
    "ce_gppo": gradient_preserving,
    "cispo": cispo,
    "gspo": clipped,
    "clip_cov": clipped,
    "kl_cov": kl_cov,
    "dcpo": dcpo,
    "bapo": bapo,
}


def weight(ratio: float, advantage: float, params: Any) -> float:
    """Closed form of a token's weight, with the cut of its log-ratio."""
    clamp = getattr(params, "log_ratio_clamp", None)
    if params.name == "gspo" and log(ratio) > params.log_ratio_cap:
        return 0.0
    if clamp is not None and abs(log(ratio)) > clamp:
        bound = 2.718281828459045 ** (clamp if ratio > 1 else -clamp)
        return cispo(bound, advantage, params) if params.name == "cispo" else 0.0
    return WEIGHTS[params.name](ratio, advantage, params)


# parameters and rows to try

CHOICES: dict[str, st.SearchStrategy[Any]] = {
    "epsilon_low": st.floats(0.01, 0.9),
    "epsilon_high": st.floats(0.01, 2),
    "dual_clip": st.none() | st.floats(3.01, 20),
    "log_ratio_clamp": st.none() | st.floats(0.5, 20),
    "log_ratio_cap": st.floats(0.5, 10),
    "beta1": st.floats(0, 2),
    "beta2": st.floats(0, 2),
    "selected_share": st.just(1.0),
    "kl_coefficient": st.floats(0, 2),
    "largest_bound": st.floats(1.5, 20),
    "low_end": st.just(0.99),
    "high_end": st.just(3.0),
    "target": st.just(0.0),
}

advantages = st.floats(-5, 5).filter(lambda a: abs(a) > 1e-3)
rows = st.lists(st.tuples(st.floats(-6, 6).map(lambda d: round(d, 6)), advantages), min_size=1, max_size=12)


def with_bounds(name: str, low: float, high: float) -> Any:
    """Parameters with exactly these bounds on the ratio of a token with old probability 1; bapo's do not move."""
    kind = LOSSES[name].params
    if name != "dcpo":
        fixed = {"target": 0.0} if name == "bapo" else {}
        return kind.model_validate({"epsilon_low": 1 - low, "epsilon_high": high - 1, **fixed})
    epsilons = {"low": low * (1 - low), "high": high * (high - 1)}
    for side, bound in (("low", low), ("high", high)):
        for _ in range(20):  # rounding may have moved the bound by a few units in its last place
            found = getattr(kind.model_validate({f"epsilon_{side}": epsilons[side]}), side)
            raised = (found < bound) == (side == "high")
            epsilons[side] = epsilons[side] if found == bound else nextafter(epsilons[side], 9.0 if raised else 0.0)
    return kind.model_validate({f"epsilon_{side}": value for side, value in epsilons.items()})


def any_params(name: str) -> st.SearchStrategy[Any]:
    kind = LOSSES[name].params
    return st.fixed_dictionaries({field: CHOICES[field] for field in CHOICES if field in kind.model_fields}).map(
        lambda values: kind.model_validate(values)
    )
