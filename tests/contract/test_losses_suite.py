"""The suite that authors of losses run, `trainers.losses.contract`, run over ours, and over losses with mistakes."""

from collections.abc import Callable
from math import inf
from typing import Any, Literal

import pytest
import torch

from tests.contract.losses import ALL_PARAMS, VARIANTS, label, weight
from tests.losses.all_cases import CASES
from trainers.losses import LOSSES, LossEntry, LossOutput, TokenBatch, TokenRatioParams, regions
from trainers.losses.contract import RULES, Subject, check_loss, judged


def subject_of(params: Any, *, stated: bool) -> Subject:
    case = CASES[params.name]
    stated &= case.weight_by_ratio  # test_losses.py compares the others at old probability 1
    looks = case.looks_at_the_batch
    return Subject(LOSSES[params.name], params, weight if stated else None, looks_at_the_batch=looks)


SUBJECTS = {label(params): subject_of(params, stated=False) for params in ALL_PARAMS} | {
    label(params): subject_of(params, stated=True) for params in VARIANTS
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("subject", SUBJECTS)
def test_our_losses_keep_every_rule(subject: str, rule: str) -> None:
    assert judged(RULES[rule], SUBJECTS[subject]) is None


class PlantedParams(TokenRatioParams):
    """Parameters of the planted losses: plain importance weighting, r A."""

    name: Literal["planted"] = "planted"


def right(batch: TokenBatch, params: PlantedParams) -> LossOutput:
    ratio_BT, clamp = batch.ratio_BT(params.log_ratio_clamp), params.log_ratio_clamp
    loss_BT = -ratio_BT * batch.unit_BT(clamp) * batch.advantages_BT
    return LossOutput(loss_BT, regions(ratio_BT, batch.advantages_BT, params), ratio_BT)


def changed(loss: Callable[[TokenBatch, LossOutput], Any]) -> Callable[[TokenBatch, PlantedParams], LossOutput]:
    """Return the right loss with another loss_BT."""

    def function(batch: TokenBatch, params: PlantedParams) -> LossOutput:
        output = right(batch, params)
        return LossOutput(loss(batch, output), output.regions, output.ratio_BT)

    return function


def mean_advantage(batch: TokenBatch) -> Any:
    return batch.advantages_BT.sum() / batch.mask_BT.sum().clamp(min=1)


def ratio_of(batch: TokenBatch, clamp: float = inf) -> Any:
    return (batch.logprobs_BT - batch.old_logprobs_BT).clamp(-clamp, clamp).exp()


def centred_gradient(batch: TokenBatch, output: LossOutput) -> Any:
    unit_BT = batch.unit_BT(None)
    return output.loss_BT + mean_advantage(batch) * (unit_BT - unit_BT.detach())


def drawn_gradient(batch: TokenBatch, output: LossOutput) -> Any:
    value_BT = output.loss_BT.detach()
    return value_BT + (output.loss_BT - value_BT) * torch.rand_like(value_BT)


centred = changed(lambda batch, output: output.loss_BT + mean_advantage(batch) * batch.unit_BT(None))
overflowing = changed(lambda batch, output: -ratio_of(batch) * batch.advantages_BT)
twice_differentiated = changed(lambda batch, output: output.loss_BT * ratio_of(batch, 20).sqrt())


def counts_padding(batch: TokenBatch, params: PlantedParams) -> LossOutput:
    output = right(batch, params)
    masks: Any = {name: mask_BT | ~batch.mask_BT for name, mask_BT in output.regions.items()}
    return LossOutput(output.loss_BT, masks, output.ratio_BT)


def takes_the_bound_for_outside(batch: TokenBatch, params: PlantedParams) -> LossOutput:
    output = right(batch, params)
    wide = params.model_copy(update={"epsilon_low": 0.05})
    return LossOutput(output.loss_BT, regions(output.ratio_BT, batch.advantages_BT, wide), output.ratio_BT)


def ignores_the_clamp(batch: TokenBatch, params: PlantedParams) -> LossOutput:
    return right(batch, params.model_copy(update={"log_ratio_clamp": None}))


MISTAKES: dict[str, tuple[Callable[..., LossOutput], str]] = {
    "forgets the mask": (
        changed(lambda batch, output: output.loss_BT / output.loss_BT.detach().abs().mean()),
        "padding_changes_nothing",
    ),
    "centres on the batch": (centred, "parts_add_up"),
    "centres the gradient": (changed(centred_gradient), "parts_add_up"),
    "draws the gradient": (changed(drawn_gradient), "the_same_twice"),
    "overflows": (overflowing, "large_ratios_stay_finite"),
    "differentiates the ratio twice": (twice_differentiated, "reinforce_at_ratio_one"),
    "differentiates the ratio twice, by weight": (twice_differentiated, "weight_is_as_stated"),
    "changes advantages": (
        changed(lambda batch, output: (batch.advantages_BT.mul_(0.5), output.loss_BT)[1]),
        "inputs_stay_as_they_are",
    ),
    "swaps the sign": (changed(lambda batch, output: -output.loss_BT), "weight_is_as_stated"),
    "draws": (changed(lambda batch, output: output.loss_BT * torch.rand_like(output.loss_BT)), "the_same_twice"),
    "averages": (changed(lambda batch, output: output.loss_BT.mean()), "output_is_complete"),
    "loses the gradient": (changed(lambda batch, output: output.loss_BT.detach()), "output_is_complete"),
    "divides by the tokens": (
        changed(lambda batch, output: output.loss_BT + (batch.logprobs_BT * 0).sum() / batch.mask_BT.sum()),
        "an_empty_batch_gives_zero",
    ),
    "ignores the clamp": (ignores_the_clamp, "the_clamp_is_the_setting"),
    "counts padding": (counts_padding, "regions_partition_the_tokens"),
    "takes the bound for outside": (takes_the_bound_for_outside, "regions_partition_the_tokens"),
}
"""Loss with a mistake, and the rule that must see it."""


def planted(function: Callable[..., LossOutput]) -> Subject:
    return Subject(LossEntry(PlantedParams, function), PlantedParams(), lambda ratio, advantage, params: ratio)


IMPORTS = "importing_it_imports_no_torch"  # this module does


def test_the_loss_without_a_mistake_keeps_all_rules() -> None:
    assert {name: said for name, rule in RULES.items() if (said := judged(rule, planted(right)))}.keys() == {IMPORTS}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_seen(mistake: str) -> None:
    function, rule = MISTAKES[mistake]
    assert judged(RULES[rule], planted(function)) is not None


def test_every_rule_sees_a_mistake() -> None:
    told_elsewhere = {"entry_is_usable", IMPORTS}
    assert {rule for _, rule in MISTAKES.values()} | told_elsewhere == set(RULES)


class Unnamed(TokenRatioParams):
    name: str = "planted"


def test_all_broken_rules_are_told_at_once() -> None:
    with pytest.raises(AssertionError) as caught:
        check_loss(LossEntry(Unnamed, overflowing), Unnamed())
    said = str(caught.value)
    assert f"breaks 3 of {len(RULES)} rules" in said
    assert "entry_is_usable: its params do not have the name of its entry point; give them `name: Literal" in said
    assert "importing_it_imports_no_torch: tests.contract.test_losses_suite imports torch; import it inside" in said
    assert "large_ratios_stay_finite: loss inf and gradient" in said


def broken(function: Callable[..., LossOutput], **said: Any) -> str:
    """Return what `check_loss` says of a loss, as an author calls it."""
    with pytest.raises(AssertionError) as caught:
        check_loss(LossEntry(PlantedParams, function), PlantedParams(), **said)
    return str(caught.value)


def test_what_an_author_says_reaches_the_rules() -> None:
    assert "reinforce_at_ratio_one" not in broken(right)
    tripled = changed(lambda batch, output: output.loss_BT * 3)
    assert "reinforce_at_ratio_one" in broken(tripled)
    assert "reinforce_at_ratio_one" not in broken(tripled, reinforce=False)
    assert "weight_is_as_stated" in broken(right, weight=lambda ratio, advantage, params: 2 * ratio)
    assert "weight_is_as_stated" not in broken(right, weight=lambda ratio, advantage, params: ratio)
    assert "parts_add_up" in broken(centred)
    assert "parts_add_up" not in broken(centred, looks_at_the_batch=True)
    assert "weight_is_as_stated" not in broken(tripled)
