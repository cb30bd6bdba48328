"""One-token sequences for the contract tests of losses, their closed forms, and parameters to try."""

from collections.abc import Sequence
from math import log, nextafter
from typing import Any

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

from tests.losses.all_cases import CASES
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

VARIANTS = [LOSSES[name].params.model_validate(settings) for name, case in CASES.items() for settings in case.variants]

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


def weight(ratio: float, advantage: float, params: Any) -> float:
    """Closed form of a token's gradient weight, the factor on A grad log pi, with the cut of its log-ratio."""
    case, clamp = CASES[params.name], getattr(params, "log_ratio_clamp", None)
    if case.clamp_drops and clamp is not None and abs(log(ratio)) > clamp:
        return 0.0
    return case.weight(ratio, advantage, params)


COMMON_CHOICES: dict[str, st.SearchStrategy[Any]] = {
    "epsilon_low": st.floats(0.01, 0.9),
    "epsilon_high": st.floats(0.01, 2),
    "dual_clip": st.none() | st.floats(3.01, 20),
    "log_ratio_clamp": st.none() | st.floats(0.5, 20),
}

advantages = st.floats(-5, 5).filter(lambda a: abs(a) > 1e-3)
rows = st.lists(st.tuples(st.floats(-6, 6).map(lambda d: round(d, 6)), advantages), min_size=1, max_size=12)


def with_bounds(name: str, low: float, high: float) -> Any:
    """Parameters with exactly these bounds on the ratio of a token with old probability 1, which alone decide."""
    kind, case = LOSSES[name].params, CASES[name]
    epsilons = dict(zip(("low", "high"), case.epsilons(low, high), strict=True))
    for side, bound in (("low", low), ("high", high)):
        for _ in range(20):  # rounding may have moved the bound by a few units in its last place
            actual = getattr(kind.model_validate({f"epsilon_{side}": epsilons[side]} | case.bare), side)
            raised = (actual < bound) == (side == "high")
            epsilons[side] = epsilons[side] if actual == bound else nextafter(epsilons[side], 9.0 if raised else 0.0)
    return kind.model_validate({f"epsilon_{side}": value for side, value in epsilons.items()} | case.bare)


def any_params(name: str) -> st.SearchStrategy[Any]:
    kind, choices = LOSSES[name].params, COMMON_CHOICES | CASES[name].choices
    return st.fixed_dictionaries({field: choices[field] for field in choices if field in kind.model_fields}).map(
        lambda values: kind.model_validate(values)
    )
