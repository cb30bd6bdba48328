"""Fast comparisons with the plain formulas and loops, each of which raises AssertionError where the code is wrong."""

import math
import tempfile
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from tests.losses.all_cases import CASES
from tests.losses.loss_case import DUAL, HIGH, LOW
from tests.proof import plain_loop
from tests.proof.float64 import in_float64
from tests.proof.plain_entropy_rewards import entropy_rewarded
from tests.proof.plain_loop import Denominators, DeviceBatch
from tests.proof.plain_losses import Rule, Values, all_valid, assert_selection, batch_losses, searched_bounds
from tests.proof.plain_rollout import assert_rollout_is_right
from tests.proof.runs import (
    Memory,
    RecordingTrainer,
    Weights,
    largest_gap,
    optimization,
    policy_folder,
    recorded,
    tiny_config,
    weights_of,
)
from trainers import losses
from trainers.config import TrainingConfig
from trainers.losses import (
    AggregationParams,
    EntropyAdvantageParams,
    EntropyRewardParams,
    LossConfig,
    TermsParams,
    TokenBatch,
)
from trainers.policy.checkpoints import read_state
from trainers.record.recorder import Recorder
from trainers.rollouts import rollout
from trainers.tasks import make_task
from trainers.training.sampling_trainer import Folders

TOLERANCE: Final = 1e-10
BOUNDS: Final = {"epsilon_low": 1 - LOW, "epsilon_high": HIGH - 1}
_CLIPPED = Rule("", low=LOW, high=HIGH, largest_delta=20.0)

RULES: Final[dict[str, tuple[dict[str, Any], Rule]]] = {
    **{
        name: ({"name": name, **case.formula.settings}, replace(_CLIPPED, name=name, **case.formula.rule))
        for name, case in CASES.items()
    },
    "erc": (
        {"name": "dapo", "dual_clip": DUAL, "erc": {"mode": "mask", "low": 0.5, "high": 1.5}},
        replace(_CLIPPED, name="dapo", dual_clip=DUAL, entropy_band=(0.5, 1.5)),
    ),
}
"""Each loss in our configuration and as a plain rule; all but dcpo with the same bounds."""


class Rows:
    """Tokens on both sides of every bound and on it, with advantages of both signs; padding is full of NaN."""

    def __init__(self, rows: int = 20, width: int = 9) -> None:
        numbers = torch.Generator().manual_seed(1)

        def uniform(low: float, high: float, *shape: int) -> Tensor:
            return low + (high - low) * torch.rand(*shape, generator=numbers, dtype=torch.float64)

        self.mask_BT = torch.arange(width).expand(rows, width) < torch.randint(
            2, width + 1, (rows, 1), generator=numbers
        )
        self.logprobs_BT = uniform(-3, 0, rows, width)
        deltas_BT = uniform(-1.5, 1.5, rows, width) + uniform(-1.2, 1.2, rows, 1)
        deltas_BT[0, :2] = torch.tensor([math.log(LOW), math.log(HIGH)], dtype=torch.float64)
        deltas_BT[1, :2] = torch.tensor([math.log(HIGH), 0.0], dtype=torch.float64)
        deltas_BT[2, :2] = torch.tensor([-25.0, 5.0])
        deltas_BT[3, :2] = torch.tensor([21.0, -5.0])
        deltas_BT[5, 0] = 0.1
        self.logprobs_BT[:4, :2] = 0.0  # so that the log-ratio is exact
        self.old_logprobs_BT = self.logprobs_BT - deltas_BT
        assert deltas_BT[0, :2].exp().tolist() == [LOW, HIGH]
        self.advantages_B = uniform(-1, 1, rows)
        self.advantages_B[:6] = torch.tensor([-1.0, 1.0, 1.0, -1.0, 0.0, 0.5])
        self.entropy_BT, self.old_entropy_BT = uniform(0.2, 2, rows, width), uniform(0.2, 2, rows, width)
        self.entropy_BT[5, 0], self.old_entropy_BT[5, 0] = 0.0, 1e-8  # their ratio is 0.5 exactly
        self.correct_B = torch.arange(rows) % 3 == 0
        self.active_B = torch.arange(rows) % 4 != 1
        self.reference_logprobs_BT = uniform(-3, 0, rows, width)
        for name, values_BT in vars(self).items():
            if name.endswith("_BT") and name != "mask_BT":
                values_BT[~self.mask_BT] = math.nan

    def batch(self, rows: slice, **changed: Any) -> TokenBatch:
        parts = {name: value[rows] for name, value in vars(self).items() if name != "advantages_B"}
        advantages_BT = self.advantages_B[rows].unsqueeze(1).expand_as(parts["mask_BT"])
        return TokenBatch(**{**parts, "advantages_BT": advantages_BT, **changed})

    def device_batch(self, rows: slice) -> DeviceBatch:
        nothing = torch.zeros(0)
        olds = [values_BT.nan_to_num(0.0)[rows] for values_BT in (self.old_logprobs_BT, self.old_entropy_BT)]
        advantages_BT = self.advantages_B[rows].unsqueeze(1).expand_as(self.mask_BT[rows])
        own = (advantages_BT, self.correct_B[rows], self.active_B[rows])
        reference_BT = self.reference_logprobs_BT.nan_to_num(0.0)[rows]
        return DeviceBatch(nothing, nothing, nothing, self.mask_BT[rows], *olds, *own, None, reference_BT)


ALL: Final = slice(None)


def params_of(name: str) -> LossConfig:
    params, _ = RULES[name]
    return losses.LOSSES[params["name"]].params.model_validate({**BOUNDS, **params})


def losses_are_their_formulas(*names: str) -> None:
    """Value and gradient of every token of each loss, and the tokens it singles out."""
    for name in names or RULES:
        rule, rows = RULES[name][1], Rows()
        logprobs_BT = rows.logprobs_BT.clone().requires_grad_()
        numbers = torch.Generator().manual_seed(2)
        batch = rows.batch(ALL, logprobs_BT=logprobs_BT, generator=numbers)
        output = losses.policy_loss(batch, params_of(name))
        tracked = output.loss_BT[rows.mask_BT].sum() + 0.0 * logprobs_BT[rows.mask_BT].sum()  # also where it has none
        (gradient_BT,) = torch.autograd.grad(tracked, logprobs_BT)
        tokens = (
            rows.logprobs_BT.nan_to_num(),
            rows.old_logprobs_BT.nan_to_num(),
            batch.advantages_BT,
            rows.mask_BT,
        )
        selected_BT = output.selected_BT if rule.share else None
        if selected_BT is not None:
            assert_selection(rule, *tokens, selected_BT)
        plain = batch_losses(rule, *tokens, rows.entropy_BT, rows.old_entropy_BT, selected_BT)
        if output.bounds is not None and name == "bapo":
            found = searched_bounds(rule, _ratios_and_advantages(rows))
            assert (rule.low, rule.high) != (found.low, found.high) != rule.ends, "the search must end on its way"
        met = [plain.outside[f"{side}, A {sign} 0"] for side in ("above", "below") for sign in "<>"]
        assert min(met) >= 2, plain.outside
        _assert_close(output.loss_BT.detach()[rows.mask_BT], plain.values_BT[rows.mask_BT], name)
        _assert_close(gradient_BT, plain.gradients_BT, name)


def _ratios_and_advantages(rows: Rows) -> list[tuple[float, float]]:
    """Return ratio and advantage of each valid token, its log-ratio cut at 20 nats."""
    deltas_BT = (rows.logprobs_BT - rows.old_logprobs_BT).clamp(-20, 20)
    return [(math.exp(deltas_BT[at].item()), rows.advantages_B[at[0]].item()) for at in all_valid(rows.mask_BT)]


def advantages_are_their_formulas() -> None:
    """Options that steer entropy by advantages: raised by entropy, weighed where positive, rewards shared out."""
    rows, rule = Rows(), RULES["ce_gppo"][1]
    rule = replace(rule, entropy_advantage=(0.4, 2.0), positive_weight=0.3)
    logprobs_BT = rows.logprobs_BT.clone().requires_grad_()
    batch = rows.batch(ALL, logprobs_BT=logprobs_BT)
    assert batch.entropy_BT is not None
    shaped_BT = losses.entropy_advantages(batch.advantages_BT, batch.entropy_BT, EntropyAdvantageParams())
    kept = (AggregationParams(), TermsParams())
    result = losses.objective(replace(batch, advantages_BT=shaped_BT), params_of("ce_gppo"), *kept, positive_weight=0.3)
    (gradient_BT,) = torch.autograd.grad(result.output.loss_BT.sum(), logprobs_BT)
    tokens = (rows.logprobs_BT.nan_to_num(), rows.old_logprobs_BT.nan_to_num(), batch.advantages_BT, rows.mask_BT)
    plain = batch_losses(rule, *tokens, rows.entropy_BT, rows.old_entropy_BT)
    _assert_close(result.output.loss_BT.detach()[rows.mask_BT], plain.values_BT[rows.mask_BT], "entropy advantages")
    _assert_close(gradient_BT, plain.gradients_BT, "entropy advantages")
    for level in ("token", "sequence"):
        for compared in ("group", "set"):
            for offset in (1e-6, None):
                _shares_are_their_formulas(
                    rows, EntropyRewardParams(level=level, compared=compared, base=0.9, share=0.2), offset
                )


def _shares_are_their_formulas(rows: Rows, params: EntropyRewardParams, offset: float | None) -> None:
    """Four groups of five completions; the rewards of right ones differ by penalties."""
    rewards_B = torch.where(rows.correct_B, 1 - torch.arange(20) / 200, -1.0).double()
    parts = [part.view(4, 5, *part.shape[1:]) for part in (rewards_B, rows.correct_B, rows.entropy_BT, rows.mask_BT)]
    found_BT = losses.entropy_rewarded_advantages(*parts, params, offset).flatten(0, 1)
    entropies = [rows.entropy_BT[row][rows.mask_BT[row]].tolist() for row in range(20)]
    for group in (slice(start, start + 5) for start in range(0, 20, 5)):
        plain = entropy_rewarded(
            rewards_B[group].tolist(),
            rows.correct_B[group].tolist(),
            entropies[group],
            per_token=params.level == "token",
            base=params.base,
            share=params.share,
            own_set=params.compared == "set",
            divisor_offset=offset,
        )
        found_N = found_BT[group][rows.mask_BT[group]]
        _assert_close(found_N, torch.tensor([*chain(*plain)], dtype=torch.float64), f"{params.level} {params.compared}")
    assert not found_BT[~rows.mask_BT].any()


def parts_add_up_to_the_update() -> None:
    """Device batches and processes, each divided by the update's totals, against one mean over all rows."""
    rows, params = Rows(), params_of("ce_gppo")
    terms = TermsParams.model_validate(
        {"positive_nll": 0.1, "entropy_bonus": {"coefficient": 0.05}, "kl": {"coefficient": 0.2}}
    )
    halves = [slice(0, 8), slice(8, 20)]
    for mode in ("token_mean", "seq_mean_token_mean"):
        for denominator in ("window", "active"):
            rule = replace(
                RULES["ce_gppo"][1],
                positive_nll=0.1,
                entropy_bonus=0.05,
                kl=0.2,
                per_sequence=mode == "seq_mean_token_mean",
                only_active=denominator == "active",
            )
            aggregation = AggregationParams(mode=mode, denominator=denominator)
            by = plain_loop.denominators(rule, [[rows.device_batch(ALL)]])
            plain, plain_gradient_BT = _plain_objective(rule, rows, by)
            for processes in (1, 2):
                totals = _totals(rows, aggregation, processes)
                found, gradient_BT = 0.0, torch.zeros_like(plain_gradient_BT)
                for half in halves:
                    logprobs_BT = rows.logprobs_BT.clone().requires_grad_()
                    batch = rows.batch(half, logprobs_BT=logprobs_BT[half])
                    result = losses.objective(batch, params, aggregation, terms, totals=totals)
                    gradient_BT += torch.autograd.grad(result.loss, logprobs_BT)[0] / processes
                    found += result.loss.item() / processes
                assert math.isclose(found, plain, rel_tol=TOLERANCE), (mode, denominator, processes)
                _assert_close(gradient_BT, plain_gradient_BT, f"{mode} {denominator}")


def _plain_objective(rule: Rule, rows: Rows, by: Denominators) -> tuple[float, Tensor]:
    logprobs_BT = rows.logprobs_BT.nan_to_num().requires_grad_()
    plain = plain_loop.objective(rule, rows.device_batch(ALL), logprobs_BT, rows.entropy_BT.nan_to_num(), by)
    return plain.loss, torch.autograd.grad(plain.to_differentiate, logprobs_BT)[0]


def _totals(rows: Rows, aggregation: AggregationParams, processes: int) -> losses.Totals:
    """Return the totals that the trainer makes of a rollout that is this update twice."""
    nothing = torch.zeros(0)
    mask_BT, correct_B, active_B = (torch.cat([part, part]) for part in (rows.mask_BT, rows.correct_B, rows.active_B))
    tensors = rollout.RolloutTensors(nothing, nothing, nothing, mask_BT.long(), nothing, correct_B, active_B)
    return rollout.totals(rollout.counts(tensors, aggregation), 2, processes, max_completion_tokens=9)


Run = tuple[dict[str, Any], Callable[[int], Rule]]

_SHORT = {"steps": 10, "rollout__max_completion_tokens": 4, "optimizer__learning_rate": 0.01}
_EVERYTHING: Final[Run] = (
    {
        "loss": {
            "name": "ce_gppo",
            "epsilon_low": 0.05,
            "epsilon_high": 0.08,
            "dual_clip": 1.2,
            "beta1": 0.0,
            "schedule": [{"step": 3, "beta1": 0.5, "beta2": 0.25}],
            "erc": {"mode": "mask", "low": 0.8, "high": 1.2},
        },
        "terms": {"positive_nll": 0.1, "entropy_bonus": {"coefficient": 0.01}, "kl": {"coefficient": 0.1}},
    },
    lambda updates: Rule(
        "ce_gppo",
        low=0.95,
        high=1.08,
        dual_clip=1.2,
        beta1=0.0 if updates < 3 else 0.5,
        beta2=1.0 if updates < 3 else 0.25,
        entropy_band=(0.8, 1.2),
        positive_nll=0.1,
        entropy_bonus=0.01,
        kl=0.1,
    ),
)


_CRITIC: Final[Run] = (
    {
        "loss": {"name": "grpo", "epsilon_low": 0.05, "epsilon_high": 0.08},
        "critic": {
            "gae_lambda": 0.9,
            "gamma": 0.98,
            "value_coeff": 0.3,
            "value_clip": 0.05,
            "learning_rate": 0.02,
        },
        "optimizer__max_grad_norm": 0.05,
    },
    lambda _: Rule("grpo", low=0.95, high=1.08, values=Values(0.9, 0.98, 0.3, 0.05, 0.02)),
)


def critic_makes_the_plain_updates(cache: Path) -> None:
    """The same with PPO's critic."""
    trainer_makes_the_plain_updates(cache, _CRITIC)


def trainer_makes_the_plain_updates(cache: Path, run: Run = _EVERYTHING) -> None:
    """Two rollouts of the real trainer: what was sampled, and ten updates of two device batches each."""
    params, rule_after = run
    config = tiny_config(**_SHORT, **params)
    with tempfile.TemporaryDirectory() as folder:
        recording = recorded(config, Path(folder), cache)
    with in_float64():
        for index in range(2):
            assert_rollout_is_right(recording, index, config)
        model = recording.model(recording.initial)
        head = plain_loop.new_head(model.config.hidden_size) if config.critic else None
        updates = list(plain_loop.train(model, rule_after, recording.rollouts, optimization(config), head))
    pairs = zip((update.loss for update in updates), recording.losses, strict=True)
    assert all(math.isclose(plain, ours, rel_tol=TOLERANCE, abs_tol=TOLERANCE) for plain, ours in pairs)
    assert largest_gap(recording.final, weights_of(model)) < TOLERANCE
    if head is not None:
        trained = {"weight": head.weight_1H.detach(), "bias": head.bias_1.detach()}
        assert largest_gap(recording.heads[-1], trained) < TOLERANCE


def resume_goes_on_exactly(cache: Path) -> None:
    """Two rollouts, and the second again from the checkpoint between them."""
    critic = {"value_coeff": 0.5, "learning_rate": 0.02}
    loss = {"name": "clip_cov", "covariance_low": 0.01}
    config = tiny_config(**_SHORT, loss=loss, critic=critic, checkpoint_every_rollouts=1)
    with tempfile.TemporaryDirectory() as folder:
        whole = _trained(config, Path(folder) / "whole", cache, None)
        half = _trained(config, Path(folder) / "half", cache, Path(folder) / "whole" / "step-5")
    assert whole[1] == half[1], "other rows were drawn or other losses made"
    assert largest_gap(half[0], whole[0]) == 0


def _trained(
    config: TrainingConfig, folder: Path, cache: Path, resume_from: Path | None
) -> tuple[Weights, list[float]]:
    """Final weights, of the critic's head, too, and the losses of the last rollout."""
    state = {} if resume_from is None else read_state(resume_from, config)
    folders = Folders(policy_folder(config, cache), folder, cache)
    recorder = Recorder(Memory(), config.steps, 0, state)
    trainer = RecordingTrainer(config, make_task(config.task, cache), folders, recorder, lambda: False, state)
    trainer.begin()
    trainer.run(resume_from)
    return {**weights_of(trainer.model), **trainer.head}, [trainer.losses[update] for update in range(5, 10)]


def _assert_close(found: Tensor, expected: Tensor, name: str) -> None:
    assert torch.allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE), name
