"""Mistakes planted one at a time in the modules that training runs; each must be seen by a comparison of the suite."""

import inspect
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.losses.all_cases import CASES, MODULES
from tests.proof.judges import (
    advantages_are_their_formulas,
    critic_makes_the_plain_updates,
    losses_are_their_formulas,
    parts_add_up_to_the_update,
    resume_goes_on_exactly,
    trainer_makes_the_plain_updates,
)
from tests.proof.planting import planted
from trainers.errors import ConfigError

Judge = Callable[[Path], None]


def of_losses(*names: str) -> Judge:
    return lambda _: losses_are_their_formulas(*names)


def of_parts(_: Path) -> None:
    parts_add_up_to_the_update()


def of_advantages(_: Path) -> None:
    advantages_are_their_formulas()


of_trainer: Judge = trainer_makes_the_plain_updates
of_critic: Judge = critic_makes_the_plain_updates
of_resume: Judge = resume_goes_on_exactly


class Mutation(NamedTuple):
    module: str
    """Below `trainers`."""
    right: str
    wrong: str
    judge: Judge


MUTATIONS: dict[str, Mutation] = {
    **{
        description: Mutation(f"losses.{MODULES[name]}", right, wrong, of_losses(name))
        for name, case in CASES.items()
        for description, (right, wrong) in case.mistakes.items()
    },
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
    # the batch
    "log-ratio not clamped": Mutation(
        "losses.batch", "log_ratio_BT.clamp(-clamp, clamp)", "log_ratio_BT", of_losses("dapo")
    ),
    "padding not masked": Mutation("losses.batch", "part.masked_fill(~mask_BT, 0)", "part", of_losses("gspo")),
    # bounds found from the tokens
    "dcpo's regions by the bounds at probability 1": Mutation(
        "losses.base",
        "ratio_BT < params.low, ratio_BT > params.high",
        "ratio_BT < (params.low * 0 + 0.98), ratio_BT > params.high",
        of_losses("dcpo"),
    ),
    # advantages steered by entropy
    "entropy's part without its limit": Mutation(
        "losses.entropy_advantages", ".minimum(advantages_BT.abs() / params.kappa)", "", of_advantages
    ),
    "entropy's part with the advantage's sign": Mutation(
        "losses.entropy_advantages",
        "return advantages_BT + rise_BT.to(advantages_BT.dtype)",
        "return advantages_BT + advantages_BT.sign() * rise_BT",
        of_advantages,
    ),
    "positive weight on negative tokens": Mutation(
        "losses.positive_weight", "advantages_BT <= 0", "advantages_BT >= 0", of_advantages
    ),
    "wrong tokens share by entropy, not by its inverse": Mutation(
        "losses.entropy_advantages",
        "_shares(entropy_GNT.reciprocal(), wrong_GNT)",
        "_shares(entropy_GNT, wrong_GNT)",
        of_advantages,
    ),
    "shares of the sequence, not of the position": Mutation(
        "losses.entropy_advantages",
        "count_G1T / weights_GNT.sum(1, keepdim=True)",
        "count_G1T / weights_GNT.sum(2, keepdim=True)",
        of_advantages,
    ),
    "entropy of a sequence with its padding": Mutation(
        "losses.entropy_advantages", "mask_GNT.sum(-1).clamp(min=1)", "mask_GNT.shape[-1]", of_advantages
    ),
    "rewards shared out without a baseline": Mutation(
        "losses.entropy_advantages", "(values_GNT - mean_G11)", "values_GNT", of_advantages
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
    "KL with the wrong sign": Mutation(
        "losses.objective", "loss + terms.kl.coefficient * kl", "loss - terms.kl.coefficient * kl", of_parts
    ),
    "KL with the ratio upside down": Mutation(
        "losses.terms", "logprobs_BT - reference_logprobs_BT", "reference_logprobs_BT - logprobs_BT", of_parts
    ),
    "KL with k2's gradient": Mutation("losses.terms", 'if params.estimator == "k3":', "if False:", of_parts),
    "KL averaged over the device batch": Mutation(
        "losses.objective", "terms.kl), batch.mask_BT, total)", "terms.kl), batch.mask_BT)", of_parts
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
    "reference that is the rollout's policy": Mutation(
        "training.policy_trainer",
        "self._logprobs(self._reference, rows)",
        "self._logprobs(self.model, rows)",
        of_trainer,
    ),
    "reference at temperature 1": Mutation(
        "policy.load_policy", "temperature=config.rollout.temperature", "temperature=1.0", of_trainer
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
    # the critic
    "advantage without the value of the next token": Mutation(
        "losses.critic", "params.gamma * pad(before_BT[:, 1:], (0, 1)) - before_BT", "0.0 - before_BT", of_critic
    ),
    "reward at every token": Mutation("losses.critic", "torch.where(last_BT,", "torch.where(mask_BT,", of_critic),
    "advantages that do not fade by lambda": Mutation(
        "losses.critic",
        "decay, advantages_BT = params.gamma * params.gae_lambda,",
        "decay, advantages_BT = 1.0,",
        of_critic,
    ),
    "values not clipped": Mutation("losses.critic", "if params.value_clip is not None:", "if False:", of_critic),
    "smaller of the two value losses": Mutation("losses.critic", "torch.maximum", "torch.minimum", of_critic),
    "value loss without its half": Mutation("losses.critic", "(errors_BT / 2)", "errors_BT", of_critic),
    "advantages by the biased variance": Mutation("losses.critic", "(number - 1).clamp", "number.clamp", of_critic),
    "value loss without its factor": Mutation("losses.objective", "critic.value_coeff * value", "value", of_critic),
    "values after the token": Mutation("training.value_head", "[:, -width - 1 : -1]", "[:, -width:]", of_critic),
    "advantages not normalised": Mutation(
        "training.value_head",
        "normalized(raw_BT, judged_BT, sums[0]) if self._params.normalize else raw_BT",
        "raw_BT",
        of_critic,
    ),
    "values that train nothing below the head": Mutation(
        "training.value_head", "self.head(hidden_BSH.to(", "self.head(hidden_BSH.detach().to(", of_critic
    ),
    "head's gradient kept for the next update": Mutation(
        "training.value_head", "lambda *_: self.head.zero_grad()", "lambda *_: None", of_critic
    ),
    "head's gradient not clipped": Mutation(
        "training.value_head",
        "return clip_grad_norm_(self.head.parameters(), self._optimizer_config.max_grad_norm)",
        "return torch.zeros(())",
        of_critic,
    ),
    "head with the policy's learning rate": Mutation(
        "training.value_head", "self._params.learning_rate or ", "", of_critic
    ),
    # resume
    "value head forgotten after a resume": Mutation(
        "training.policy_trainer", "self._critic.load(folder)", "pass", of_resume
    ),
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


def test_each_line_in_which_a_mistake_is_planted_is_there_once() -> None:
    """The proof that each mistake is seen takes longer: `make hunts` gives it."""
    sources = {name: inspect.getsource(import_module(f"trainers.{m.module}")) for name, m in MUTATIONS.items()}
    assert [name for name, mutation in MUTATIONS.items() if sources[name].count(mutation.right) != 1] == []


@pytest.mark.hunt
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_planted_mistake_is_seen(name: str, cache: Path) -> None:
    mutation = MUTATIONS[name]
    with (
        planted(import_module(f"trainers.{mutation.module}"), mutation.right, mutation.wrong),
        pytest.raises((AssertionError, ConfigError)),  # a judge sees it, or the trainer itself at its start
    ):
        mutation.judge(cache)


@pytest.mark.long
@pytest.mark.parametrize(
    "judge",
    [of_losses(), of_advantages, of_parts, of_trainer, of_critic, of_resume],
    ids=["losses", "advantages", "parts", "trainer", "critic", "resume"],
)
def test_nothing_is_seen_where_nothing_was_planted(judge: Judge, cache: Path) -> None:
    judge(cache)
