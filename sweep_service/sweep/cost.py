"""The cost of a sweep, from the figures that a probe has measured. Pure.

A probe's prompts and completions are as long as they can be, so all of this is an upper bound: completions rarely all
have full length. Time per token is taken to be the same for shorter texts and other batches of the same sweep.
"""

import hashlib
import json
import math
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from pydantic import Field

from sweep_service.sweep.budget import StageCounts
from sweep_service.sweep.evaluations import most_kept_models
from sweep_service.sweep.own_trainer import Trained
from sweep_service.sweep.records import CostProbe, Record
from sweep_service.sweep.spec import Resources, SweepSpec
from trainers.config import TrainingConfig
from trainers.cost.cost_figures import CostFigures
from trainers.policy.checkpoints import kept_folders

_HOUR_S: Final = 3600.0
_GIB: Final = 2.0**30


class PhaseCost(Record):
    """Cost of one phase of the longest trial."""

    phase: str
    seconds: float
    share: float = Field(description="Of the trial.")


class SweepCost(Record):
    """Cost of a sweep at full length, in hours of GPUs, or of CPUs where trials have none."""

    basis: str
    figures: CostFigures
    phases: list[PhaseCost]
    trial_hours: float = Field(description="Of the longest trial.")
    hours: float = Field(description="Of all trials, times what each has of GPUs or CPUs.")
    hours_within_limit: float = Field(description="The same, if no trial goes on beyond budget.max_trial_hours.")
    wall_hours: float | None = Field(description="At max_parallel trials at a time, if that is given.")
    disk_gib: float = Field(
        description="Checkpoints of all trials in the end and of those that run; models that wait to be measured."
    )


class Measured(NamedTuple):
    """A probe's figures and when they were taken."""

    figures: CostFigures
    at: float

    @property
    def basis(self) -> str:
        """Name the measurement on which an estimate rests."""
        day = time.strftime("%Y-%m-%d", time.localtime(self.at))
        figures = self.figures
        devices = f"{figures.processes} x {figures.device}" if figures.processes > 1 else figures.device
        return f"probe of {day} on {devices}: {figures.updates} updates at full length"


def costliest(spec: SweepSpec) -> TrainingConfig:
    """Return the point of the space that needs most memory and time.

    It has the longest texts; among equals the largest batches, then all weights trained and a reference model.
    """
    base = [spec.base] if spec.baselines.ppo_clip or spec.baselines.dapo else []
    return max([*base, *(spec.bind(point) for point in spec.space.corners())], key=_expense)


def _expense(training: TrainingConfig) -> tuple[float, ...]:
    rollout, length = training.rollout, training.longest_completion
    sampled = rollout.sampling_batch or rollout.completions_per_rollout
    models = (training.model.lora is None, training.terms.kl.coefficient > 0)
    tokens_per_update = rollout.minibatch * rollout.max_completion_tokens
    return length, training.device_batch, sampled, *models, length * tokens_per_update


def shapes(spec: SweepSpec) -> int:
    """Return how many different shapes the points at the edges of the space have."""
    return len({probe_shape(spec.bind(point), spec.resources) for point in spec.space.corners()})


def probe_shape(training: TrainingConfig, resources: Resources) -> str:
    """Return a digest of all that a probe's figures depend on but the machine; betas, seeds and steps are left out."""
    parts = {"task", "model", "rollout", "compute", "device_batch"}
    content = training.model_dump(mode="json", include=parts)
    content["rollout"] = {
        name: value for name, value in content["rollout"].items() if name not in ("temperature", "top_p", "overlong")
    }
    content["evaluation"] = [training.evaluation.max_completion_tokens, training.evaluation.sampling_batch]
    if training.terms.kl.coefficient > 0:  # rollouts are scored by the reference, too, which may be a second model
        content["reference"] = True
    content["resources"] = [float(resources.cpus), float(resources.gpus), resources.processes_for(training)]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def measured(probe: CostProbe | None) -> Measured | None:
    """Return a probe's figures; None if it has none."""
    if probe is None or probe.figures is None:
        return None
    return Measured(probe.figures, probe.ended_at or probe.started_at)


def trial_seconds(training: TrainingConfig, figures: CostFigures) -> dict[str, float]:
    """Return the seconds that each phase of a trial takes at full length."""
    rollout, evaluation, f = training.rollout, training.evaluation, figures
    tokens, dynamic = rollout.max_completion_tokens, rollout.dynamic_sampling
    rollouts = training.steps / rollout.updates_per_rollout
    prompts = dynamic.prompts_per_round * dynamic.max_rounds if dynamic else rollout.prompts_per_rollout
    sampled = prompts * rollout.completions_per_prompt * tokens
    longer = (f.prompt_tokens + tokens) / (f.prompt_tokens + f.completion_tokens)
    evaluations = math.ceil(training.steps / evaluation.every_steps) + 1
    completions = evaluations * f.validation_problems * evaluation.samples_per_problem + evaluation.probe_completions
    eval_tokens = completions * (evaluation.max_completion_tokens or tokens)
    return {
        "start": f.start_s,
        "sampling": rollouts * sampled * f.sampling_s / (f.sampled_completions * f.completion_tokens),
        "scoring": rollouts * rollout.completions_per_rollout * longer * f.scoring_s / f.scored_completions,
        "updates": training.steps * rollout.minibatch * longer * f.update_s / f.minibatch_completions,
        "evaluations": eval_tokens * f.evaluation_s / (f.evaluated_completions * f.eval_completion_tokens),
        "checkpoints": math.ceil(rollouts / training.checkpoint_every_rollouts) * f.checkpoint_s,
    }


def sweep_cost(spec: SweepSpec, measured: Measured, trainings: Sequence[Trained], counts: StageCounts) -> SweepCost:
    """Extrapolate a probe to all trials.

    Args:
        trainings: training of each config that the sweep begins with; later ones are taken for the costliest.
        counts: largest number of trials of each stage.
    """
    longest, figures, seeds = costliest(spec), measured.figures, len(spec.seeds.tune)
    phases = trial_seconds(longest, figures)
    longest_s = sum(phases.values())
    first = [training for training in trainings if isinstance(training, TrainingConfig)]  # all: no probe of others
    first_s = [sum(trial_seconds(training, figures).values()) for training in first]
    proposed = counts.tune // seeds - len(first)
    seconds = [*(first_s * seeds), *([longest_s] * (proposed * seeds + counts.confirm))]
    limit_s = (spec.budget.max_trial_hours or math.inf) * _HOUR_S
    slots, parallel = spec.resources.gpus or spec.resources.cpus, spec.resources.max_parallel
    rounds = sum(math.ceil(trials / parallel) for trials in counts) if parallel else None
    waiting = most_kept_models(spec, *counts, max(training.steps for training in (longest, *first)))
    kept = kept_folders(longest, trials=sum(counts), running=parallel or 1)
    return SweepCost(
        basis=measured.basis,
        figures=figures,
        phases=[PhaseCost(phase=phase, seconds=s, share=s / longest_s) for phase, s in phases.items()],
        trial_hours=longest_s / _HOUR_S,
        hours=sum(seconds) * slots / _HOUR_S,
        hours_within_limit=sum(min(s, limit_s) for s in seconds) * slots / _HOUR_S,
        wall_hours=None if rounds is None else rounds * longest_s / _HOUR_S,
        disk_gib=(kept.checkpoints * figures.checkpoint_bytes + (kept.models + waiting) * figures.model_bytes) / _GIB,
    )


def above_budget(spec: SweepSpec, cost: SweepCost, used_gpu_hours: float) -> str | None:
    """Say why a sweep must not begin: at full length it would pass budget.max_gpu_hours. None if it would not."""
    limit = spec.budget.max_gpu_hours
    needed = cost.hours_within_limit + used_gpu_hours
    if limit is None or not spec.resources.gpus or needed <= limit:
        return None
    return (
        f"the sweep may take {needed:.3g} GPU-hours ({cost.basis}), more than budget.max_gpu_hours {limit:g}; use "
        "fewer steps, seeds or configs, a shorter rollout.max_completion_tokens, or more hours; with probe: off it "
        "runs all the same, and begins no trial that could pass the limit"
    )
