"""Mistakes planted one at a time in the modules that training runs; each must be seen by a comparison of the suite."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.proof.judges import (
    losses_are_their_formulas,
    parts_add_up_to_the_update,
    resume_goes_on_exactly,
    trainer_makes_the_plain_updates,
)
from tests.proof.planting import planted
from trainers.errors import ConfigError

pytestmark = pytest.mark.long

Judge = Callable[[Path], None]


def of_losses(*names: str) -> Judge:
    return lambda _: losses_are_their_formulas(*names)


def of_parts(_: Path) -> None:
    parts_add_up_to_the_update()


of_trainer: Judge = trainer_makes_the_plain_updates
of_resume: Judge = resume_goes_on_exactly


class Mutation(NamedTuple):
    module: str
    """Below `trainers`."""
    right: str
    wrong: str
    judge: Judge


MUTATIONS: dict[str, Mutation] = {
    # regions and bounds
    "NA&LP above the bounds": Mutation(
        "losses.base", '"na_lp": below_BT & negative_BT', '"na_lp": above_BT & negative_BT', of_losses("ce_gppo")
    ),
    "PA&LP below the bounds": Mutation(
        "losses.base", '"pa_lp": above_BT & positive_BT', '"pa_lp": below_BT & positive_BT', of_losses("ce_gppo")
    ),
    "ratio on the upper bound is outside": Mutation(
        "losses.base", "ratio_BT > params.high", "ratio_BT >= params.high", of_losses("grpo")
    ),
    "ratio on the lower bound is outside": Mutation(
        "losses.base", "ratio_BT < params.low", "ratio_BT <= params.low", of_losses("grpo")
    ),
    "symmetric epsilon": Mutation(
        "losses.base", "return 1 + self.epsilon_high", "return 1 + self.epsilon_low", of_losses("dapo")
    ),
    # gradient-preserving
    "betas swapped": Mutation(
        "losses.gradient_preserving",
        "params, params.beta1, params.beta2)",
        "params, params.beta2, params.beta1)",
        of_losses("ce_gppo"),
    ),
    "beta1 times the ratio, not the bound": Mutation(
        "losses.gradient_preserving",
        'ratio_BT.masked_fill(masks["na_lp"], beta1 * params.low)',
        'ratio_BT.where(~masks["na_lp"], beta1 * ratio_BT)',
        of_losses("ce_gppo"),
    ),
    "beta2 without its bound": Mutation(
        "losses.gradient_preserving", "beta2 * params.high", "beta2", of_losses("gppo")
    ),
    "ratio differentiated through the bound": Mutation(
        "losses.gradient_preserving",
        "-weight_BT * batch.unit_BT(params.log_ratio_clamp)",
        "-weight_BT * batch.unit_BT(params.log_ratio_clamp) ** 2",
        of_losses("gppo"),
    ),
    # clipping
    "dual clip missing": Mutation("losses.clipped", "if bound is None:", "if True:", of_losses("dapo")),
    "dual clip also where A > 0": Mutation(
        "losses.clipped",
        "(advantages_BT < 0) & (output.ratio_BT > bound)",
        "(output.ratio_BT > bound)",
        of_losses("gppo"),
    ),
    "clipped on the side that PPO keeps": Mutation(
        "losses.clipped",
        'masks["na_lp"] | masks["pa_lp"]',
        'masks["na_lp"] | masks["pa_lp"] | masks["pa_low"]',
        of_losses("grpo"),
    ),
    "no gradient inside the bounds": Mutation(
        "losses.clipped", "-ratio_BT * unit_BT * advantages_BT", "-ratio_BT * advantages_BT", of_losses("grpo")
    ),
    "log-ratio not clamped": Mutation(
        "losses.batch", "log_ratio_BT.clamp(-clamp, clamp)", "log_ratio_BT", of_losses("dapo")
    ),
    "padding not masked": Mutation("losses.batch", "part.masked_fill(~mask_BT, 0)", "part", of_losses("gspo")),
    # cispo, gspo
    "cispo without a lower bound": Mutation(
        "losses.importance_weighted", "clamp(params.low, params.high)", "clamp(max=params.high)", of_losses("cispo")
    ),
    "cispo's weight differentiated": Mutation(
        "losses.importance_weighted",
        "batch.ratio_BT(params.log_ratio_clamp), batch",
        "batch.log_ratio_BT(params.log_ratio_clamp).exp(), batch",
        of_losses("cispo"),
    ),
    "gspo with each token's ratio": Mutation(
        "losses.clipped", "mean_BT = mean_B.unsqueeze(-1) * batch.mask_BT", "mean_BT = log_ratio_BT", of_losses("gspo")
    ),
    "gspo with the sum of log-ratios": Mutation(
        "losses.clipped",
        "log_ratio_BT.sum(-1) / batch.mask_BT.sum(-1).clamp(min=1)",
        "log_ratio_BT.sum(-1)",
        of_losses("gspo"),
    ),
    # covariance
    "kl_cov with k3": Mutation(
        "losses.covariance",
        "batch.log_ratio_BT(params.log_ratio_clamp).abs()",
        "((d := batch.log_ratio_BT(params.log_ratio_clamp)) + (-d).exp() - 1)",
        of_losses("kl_cov"),
    ),
    "kl_cov penalises the lowest covariance": Mutation(
        "losses.covariance", "covariance_N.topk(number)", "(-covariance_N).topk(number)", of_losses("kl_cov")
    ),
    "clip_cov draws among clipped tokens too": Mutation(
        "losses.covariance", " & ~clipped_BT[batch.mask_BT]", "", of_losses("clip_cov")
    ),
    "clip_cov outside its band": Mutation(
        "losses.covariance",
        "covariance_N < params.covariance_high",
        "covariance_N < float('inf')",
        of_losses("clip_cov"),
    ),
    "covariance of uncentred advantages": Mutation(
        "losses.covariance", "(advantages_N - advantages_N.mean())", "advantages_N", of_losses("kl_cov")
    ),
    # erc
    "erc keeps a token on its bound": Mutation(
        "losses.entropy_ratio", "(ratio_BT > erc.low)", "(ratio_BT >= erc.low)", of_losses("erc")
    ),
    "erc zeroes the value": Mutation(
        "losses.entropy_ratio", "where(kept_BT, output.loss_BT.detach())", "where(kept_BT, 0.0)", of_losses("erc")
    ),
    "erc by mean entropies": Mutation(
        "losses.entropy_ratio",
        "_ratio(entropy_BT.detach(), old_entropy_BT)",
        "_ratio(entropy_BT.detach().mean(), old_entropy_BT.mean()).expand_as(entropy_BT)",
        of_losses("erc"),
    ),
    # aggregation and terms
    "mean of the device batch, not of the update": Mutation(
        "losses.objective",
        "total = None if totals is None else totals.denominator(mode, rows)",
        "total = None",
        of_parts,
    ),
    "masked tokens counted": Mutation(
        "losses.aggregation", "values_BT.masked_fill(~mask_BT, 0.0)", "values_BT", of_parts
    ),
    "groups without spread in the denominator": Mutation(
        "losses.objective", '"active": self.active_tokens', '"active": self.tokens', of_parts
    ),
    "likelihood of wrong completions too": Mutation(
        "losses.objective", ' & batch.needed("correct_B", "terms.positive_nll").unsqueeze(-1)', "", of_parts
    ),
    "likelihood divided by all tokens": Mutation(
        "losses.objective", 'totals.denominator(mode, "correct")', "totals.denominator(mode, rows)", of_parts
    ),
    "entropy bonus with the wrong sign": Mutation(
        "losses.objective", "loss - coefficient * entropy", "loss + coefficient * entropy", of_parts
    ),
    "rollout's tokens not shared out over its updates": Mutation(
        "rollouts.rollout", "/ updates_per_rollout / processes", "/ processes", of_parts
    ),
    "gradient averaged over processes and divided again": Mutation(
        "rollouts.rollout", "/ updates_per_rollout / processes", "/ updates_per_rollout", of_parts
    ),
    "B x T in the denominator": Mutation(
        "rollouts.rollout",
        "lengths_B = rollout.completion_mask.sum(1)",
        "lengths_B = torch.ones_like(rollout.completion_mask).sum(1)",
        of_parts,
    ),
    # advantages and rollouts
    "advantages by the biased deviation": Mutation(
        "losses.advantages",
        ".sum(-1, keepdim=True) - 1).clamp",
        ".sum(-1, keepdim=True)).clamp",
        of_trainer,
    ),
    "TRL's advantage epsilon": Mutation("losses.advantages", "std_G1 + params.epsilon", "std_G1 + 1e-4", of_trainer),
    "advantages by the mean of the rollout": Mutation(
        "losses.advantages", "values_GN.nanmean(-1, keepdim=True)", "values_GN.nanmean()", of_trainer
    ),
    "overlong penalty from the first token": Mutation(
        "losses.advantages",
        "room_B = max_tokens - params.cache_tokens - lengths_B",
        "room_B = -lengths_B",
        of_trainer,
    ),
    "prompts padded on the right": Mutation(
        "rollouts.rollout",
        'padded([sample.prompt_ids for sample in samples], pad, "left")',
        'padded([sample.prompt_ids for sample in samples], pad, "right")',
        of_trainer,
    ),
    "end token left out of the mask": Mutation(
        "rollouts.rollout",
        "torch.ones_like(t) for t in tensors",
        "(t != t[-1]).long() for t in tensors",
        of_trainer,
    ),
    "padding in the mask": Mutation(
        "rollouts.rollout",
        "batch_first=True, padding_side=side)",
        "batch_first=True, padding_value=1, padding_side=side)",
        of_trainer,
    ),
    "truncated completions rewarded": Mutation(
        "training.sampling_trainer", "truncated=not ended)", "truncated=False)", of_trainer
    ),
    # the trainer's step
    "old log-probs missing, so the ratio is 1": Mutation(
        "training.policy_trainer", 'inputs["old_logprobs"],', "logprobs_BT.detach(),", of_trainer
    ),
    "old entropies missing, so their ratio is 1": Mutation(
        "training.policy_trainer",
        'old_entropy_BT=inputs["old_entropy"]',
        "old_entropy_BT=entropy_BT",
        of_trainer,
    ),
    "advantages with the wrong sign": Mutation(
        "training.policy_trainer",
        'inputs["advantages"].unsqueeze(1)',
        '-inputs["advantages"].unsqueeze(1)',
        of_trainer,
    ),
    "mask dropped": Mutation(
        "training.policy_trainer",
        'inputs["completion_mask"],\n',
        "torch.ones_like(logprobs_BT),\n",
        of_trainer,
    ),
    "padding attended to": Mutation(
        "training.sampling_trainer",
        'torch.cat([rows["prompt_mask"], mask_BT], dim=1)',
        'torch.cat([torch.ones_like(rows["prompt_mask"]), mask_BT], dim=1)',
        of_trainer,
    ),
    "device batches divided by their number again": Mutation(
        "training.policy_trainer", "return result.loss\n", "return result.loss / 2\n", of_trainer
    ),
    "betas of the update after": Mutation(
        "training.policy_trainer",
        "loss.at(self.state.global_step)",
        "loss.at(self.state.global_step + 1)",
        of_trainer,
    ),
    "log-probs at temperature 1": Mutation(
        "training.training_arguments", "temperature=rollout.temperature", "temperature=1.0", of_trainer
    ),
    "gradient not clipped": Mutation(
        "training.training_arguments",
        "max_grad_norm=optimizer.max_grad_norm",
        "max_grad_norm=1e9",
        of_trainer,
    ),
    "no warm-up": Mutation(
        "training.training_arguments", "warmup_steps=optimizer.warmup_steps", "warmup_steps=0", of_trainer
    ),
    "no weight decay": Mutation(
        "training.training_arguments", "weight_decay=optimizer.weight_decay", "weight_decay=0.0", of_trainer
    ),
    # resume
    "prompts start over after a resume": Mutation(
        "training.policy_trainer", 'state.get("prompts_read", 0)', "0", of_resume
    ),
    "place in the run forgotten after a resume": Mutation(
        "training.policy_trainer",
        'self._buffered_inputs = rollout["step"],',
        "self._buffered_inputs = 0,",
        of_resume,
    ),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_planted_mistake_is_seen(name: str, cache: Path) -> None:
    mutation = MUTATIONS[name]
    with (
        planted(import_module(f"trainers.{mutation.module}"), mutation.right, mutation.wrong),
        pytest.raises((AssertionError, ConfigError)),  # a judge sees it, or the trainer itself at its start
    ):
        mutation.judge(cache)


@pytest.mark.parametrize(
    "judge",
    [of_losses(), of_parts, of_trainer, of_resume],
    ids=["losses", "parts", "trainer", "resume"],
)
def test_nothing_is_seen_where_nothing_was_planted(judge: Judge, cache: Path) -> None:
    judge(cache)
