"""Adapters from reference cases to this project's own functions: `solve` for losses, `solve_advantages`.

A case names an algorithm, its hyperparameters, an aggregation and the inputs as B x T lists. The tables translate
names; no formula and no single case is known here. Autograd runs in float64.
"""

from typing import Any

import torch

from tests.losses.all_cases import CASES
from trainers.losses import (
    LOSSES,
    AdvantageParams,
    AggregationParams,
    EntropyBonusParams,
    TermsParams,
    TokenBatch,
    group_advantages,
    objective,
)

LOSS_OF = {official: name for name, case in CASES.items() for official in case.official}
TERMS = {"entropy_bonus", "positive_nll"}  # on top of ce_gppo where a case has betas, else of dapo
PARAM_OF = {
    **{name: name for entry in LOSSES.values() for name in entry.params.model_fields},
    "eps_low": "epsilon_low",
    "eps_high": "epsilon_high",
    "dual_clip_c": "dual_clip",
    **{official: name for case in CASES.values() for official, name in case.official_names.items()},
}
NULLABLE = {"dual_clip", "log_ratio_clamp"}  # where null is a value; elsewhere it says "does not apply"
INPUT_OF = {
    "log_prob": "logprobs_BT",
    "old_log_prob": "old_logprobs_BT",
    "advantages": "advantages_BT",
    "response_mask": "mask_BT",
    "entropy": "entropy_BT",
    "old_entropy": "old_entropy_BT",
}


def solve(case: dict[str, Any]) -> dict[str, Any]:
    """Return {"loss": float, "grad": B x T list of d loss / d log_prob}, and "grad_entropy" where entropy is given.

    Raises: NotImplementedError, for an algorithm that we do not have.
    """
    hyper = case["hyper"]
    params = _loss_params(case["algo"], hyper)
    parts = _batch_parts(case["inputs"])
    if hyper.get("selection_deterministic", True):  # the loss must find the tokens by itself
        parts.pop("selected_BT", None)
    result = objective(
        TokenBatch(**parts),
        params,
        AggregationParams(mode=case["agg"].replace("-", "_")),
        TermsParams(
            positive_nll=hyper.get("positive_nll_coef", 0.0),
            entropy_bonus=EntropyBonusParams(coefficient=hyper.get("entropy_coef", 0.0)),
        ),
    )
    result.loss.backward()
    answer = {"loss": result.loss.item(), "grad": _gradient(parts["logprobs_BT"])}
    return answer | ({"grad_entropy": _gradient(parts["entropy_BT"])} if "entropy_BT" in parts else {})


def solve_advantages(case: dict[str, Any]) -> dict[str, Any]:
    """Return {"advantages": B x T list}: each row's advantage at its completion tokens, 0 at padding."""
    params = AdvantageParams(normalize_std=case["hyper"]["norm_by_std"], epsilon=case["hyper"]["eps"])
    rewards_B = torch.tensor(case["reward"], dtype=torch.float64)
    groups_B = torch.tensor(case["group"])
    advantages_B = torch.zeros_like(rewards_B)
    for group in groups_B.unique():  # of unequal sizes
        advantages_B[groups_B == group] = group_advantages(rewards_B[groups_B == group].unsqueeze(0), params)[0]
    return {"advantages": (advantages_B.unsqueeze(-1) * torch.tensor(case["response_mask"])).tolist()}


def _loss_params(algorithm: str, hyper: dict[str, Any]) -> Any:
    name = ("ce_gppo" if "beta1" in hyper else "dapo") if algorithm in TERMS else LOSS_OF.get(algorithm)
    if name is None:
        raise NotImplementedError(f"{algorithm} is not in LOSSES")
    kind = LOSSES[name].params
    values = {PARAM_OF[key]: value for key, value in hyper.items() if key in PARAM_OF}
    nullable = NULLABLE & set(kind.model_fields)
    values = {key: value for key, value in values.items() if value is not None or key in nullable}
    if name == "gppo":  # its betas are 1 by definition, not parameters
        assert values.pop("beta1", 1) == values.pop("beta2", 1) == 1
    if "erc_low" in hyper:
        values["erc"] = {"mode": "mask", "low": hyper["erc_low"], "high": hyper["erc_high"]}
    return kind.model_validate(values)


def _batch_parts(inputs: dict[str, Any]) -> dict[str, torch.Tensor]:
    parts = {
        INPUT_OF[name]: torch.tensor(value, dtype=torch.float64) for name, value in inputs.items() if name in INPUT_OF
    }
    for name in {"logprobs_BT", "entropy_BT"} & set(parts):
        parts[name].requires_grad_()
    if "correct_rows" in inputs:
        parts["correct_B"] = torch.tensor(inputs["correct_rows"])
    if "selected" in inputs:
        parts["selected_BT"] = torch.zeros_like(parts["mask_BT"])
        for row, column in inputs["selected"]:
            parts["selected_BT"][row, column] = 1
    return parts


def _gradient(values_BT: torch.Tensor) -> list[list[float]]:
    return (torch.zeros_like(values_BT) if values_BT.grad is None else values_BT.grad).tolist()
