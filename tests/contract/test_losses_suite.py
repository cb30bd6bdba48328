"""The suite that authors of losses run, `trainers.losses.contract`, run over ours, and over losses with mistakes."""

from collections.abc import Callable
from typing import Any, Literal

import pytest
import torch

from tests.contract.losses import label, weight
from tests.contract.test_losses import VARIANTS
from tests.contract.test_losses_objective import LOOKS_AT_THE_BATCH
from tests.contract.test_losses_robust import ALL_PARAMS
from trainers.losses import LOSSES, LossEntry, LossOutput, TokenBatch, TokenRatioParams, regions
from trainers.losses.contract import RULES, Subject, check_loss, judged


def subject_of(params: Any, *, stated: bool) -> Subject:
    stated &= params.name != "dcpo"  # whose weight depends on the old probability: test_losses.py has it
    looks = params.name in LOOKS_AT_THE_BATCH
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


def forgets_the_mask(batch: TokenBatch, output: LossOutput) -> Any:
    return output.loss_BT / output.loss_BT.detach().abs().mean()


def centres_on_the_batch(batch: TokenBatch, output: LossOutput) -> Any:
    mean = batch.advantages_BT.sum() / batch.mask_BT.sum().clamp(min=1)
    return output.loss_BT + mean * batch.unit_BT(None)


def overflows(batch: TokenBatch, output: LossOutput) -> Any:
    return -(batch.logprobs_BT - batch.old_logprobs_BT).exp() * batch.advantages_BT


def differentiates_the_ratio_twice(batch: TokenBatch, output: LossOutput) -> Any:
    return output.loss_BT * (batch.logprobs_BT - batch.old_logprobs_BT).clamp(-20, 20).exp().sqrt()


def changes_advantages(batch: TokenBatch, output: LossOutput) -> Any:
    batch.advantages_BT.mul_(0.5)
    return output.loss_BT


def swaps_the_sign(batch: TokenBatch, output: LossOutput) -> Any:
    return -output.loss_BT


def draws(batch: TokenBatch, output: LossOutput) -> Any:
    return output.loss_BT * torch.rand_like(output.loss_BT)


def draws_the_gradient(batch: TokenBatch, output: LossOutput) -> Any:
    value_BT = output.loss_BT.detach()
    return value_BT + (output.loss_BT - value_BT) * torch.rand_like(value_BT)


def centres_the_gradient(batch: TokenBatch, output: LossOutput) -> Any:
    mean = batch.advantages_BT.sum() / batch.mask_BT.sum().clamp(min=1)
    unit_BT = batch.unit_BT(None)
    return output.loss_BT + mean * (unit_BT - unit_BT.detach())


def averages(batch: TokenBatch, output: LossOutput) -> Any:
    return output.loss_BT.mean()


def loses_the_gradient(batch: TokenBatch, output: LossOutput) -> Any:
    return output.loss_BT.detach()


def divides_by_the_tokens(batch: TokenBatch, output: LossOutput) -> Any:
    return output.loss_BT + (batch.logprobs_BT * 0).sum() / batch.mask_BT.sum()


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
    "forgets_the_mask": (changed(forgets_the_mask), "padding_changes_nothing"),
    "centres_on_the_batch": (changed(centres_on_the_batch), "parts_add_up"),
    "centres_the_gradient": (changed(centres_the_gradient), "parts_add_up"),
    "draws_the_gradient": (changed(draws_the_gradient), "the_same_twice"),
    "overflows": (changed(overflows), "large_ratios_stay_finite"),
    "differentiates_the_ratio_twice": (changed(differentiates_the_ratio_twice), "reinforce_at_ratio_one"),
    "differentiates_the_ratio_twice, by weight": (changed(differentiates_the_ratio_twice), "weight_is_as_stated"),
    "changes_advantages": (changed(changes_advantages), "inputs_stay_as_they_are"),
    "swaps_the_sign": (changed(swaps_the_sign), "weight_is_as_stated"),
    "draws": (changed(draws), "the_same_twice"),
    "averages": (changed(averages), "output_is_complete"),
    "loses_the_gradient": (changed(loses_the_gradient), "output_is_complete"),
    "divides_by_the_tokens": (changed(divides_by_the_tokens), "an_empty_batch_gives_zero"),
    "ignores_the_clamp": (ignores_the_clamp, "the_clamp_is_the_setting"),
    "counts_padding": (counts_padding, "regions_partition_the_tokens"),
    "takes_the_bound_for_outside": (takes_the_bound_for_outside, "regions_partition_the_tokens"),
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
        check_loss(LossEntry(Unnamed, changed(overflows)), Unnamed())
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
    assert "parts_add_up" in broken(changed(centres_on_the_batch))
    assert "parts_add_up" not in broken(changed(centres_on_the_batch), looks_at_the_batch=True)


def test_what_an_author_does_not_say_is_not_asked() -> None:
    flat = planted(changed(lambda batch, output: output.loss_BT * 3))
    assert judged(RULES["reinforce_at_ratio_one"], flat)
    silent = Subject(flat.entry, flat.params, reinforce=False)
    assert judged(RULES["reinforce_at_ratio_one"], silent) is None
    assert judged(RULES["weight_is_as_stated"], silent) is None
