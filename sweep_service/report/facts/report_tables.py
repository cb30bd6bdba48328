"""The rows of one sweep, summed up for its report: each figure is made once, when it is first asked for."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Final

from sweep_service.health.run_health import RunCurves
from sweep_service.report.facts.batches import Batch, batch_of, batch_text, common_names, home_batches, of_names
from sweep_service.report.facts.measured_models import MeasuredModel, final_models
from sweep_service.report.facts.problem_rates import COUNTED, problem_rates
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.facts.rollouts import entropy_slope
from sweep_service.report.facts.ruin import fallen_trials
from sweep_service.report.facts.table_rows import config_row, evaluation_se, in_order, trial_row
from sweep_service.report.model import ConfigRow, TrialRow
from sweep_service.report.statistics.differences import Arm, Problem
from sweep_service.sweep.baselines import without_betas
from sweep_service.sweep.labels import config_labels, varied_names
from sweep_service.sweep.objective import choose, leader, selection_objectives, trial_objective
from sweep_service.sweep.records import Config, Role, Stage, Trial
from trainers.evaluation.problem_parts import problem_group

_SEEDS: Final = 2**32
"""Number of seeds that there are; beyond them lie those of another batch."""


@dataclass(frozen=True)
class ReportTables:
    """Configs and trials of one sweep as tables, and as the arms that the statistics compare."""

    inputs: ReportInputs

    @cached_property
    def configs(self) -> Mapping[str, Config]:
        """Configs by id."""
        return {config.id: config for config in self.inputs.configs}

    @cached_property
    def varied(self) -> Sequence[str]:
        """Dotted names of the parameters in which configs differ."""
        return varied_names(self.inputs.configs)

    @cached_property
    def objectives(self) -> Mapping[str, float | None]:
        """Each trial's objective by trial id; None without one."""
        inputs, objective = self.inputs, self.inputs.sweep.spec.objective
        return {
            trial.id: trial_objective(
                trial, inputs.present(trial.id, inputs.measures[trial.stage]).values.tolist(), objective
            )
            for trial in inputs.trials
        }

    @cached_property
    def models(self) -> Mapping[str, MeasuredModel]:
        """Models after their trials' last update that were to be measured on benchmarks, by trial id."""
        return final_models(self.inputs)

    @cached_property
    def run_curves(self) -> Mapping[str, RunCurves]:
        """Each trial's curves and its health, by trial id."""
        return {trial.id: self.inputs.run_curves(trial) for trial in self.inputs.trials}

    @cached_property
    def ruined(self) -> frozenset[str]:
        """Ids of trials with a result that is a ruin: they collapsed, diverged, or ended far below the others."""
        inputs, results = self.inputs, self.objectives
        confirmed = {t.config_id for t in inputs.trials if t.stage is Stage.CONFIRM and results[t.id] is not None}
        fallen = fallen_trials(
            inputs.trials,
            results,
            self._sampling_error,
            confirmed or self.configs.keys(),
            inputs.sweep.spec.objective.diverged,
        )
        return fallen | {
            id_ for id_, run in self.run_curves.items() if run.health.collapsed and results[id_] is not None
        }

    def _sampling_error(self, trial_id: str, level: float) -> float:
        """Return the standard error of a trial's objective from sampling, had its policy this share of right answers.

        Where samples were not counted it is the one that the trial's evaluations recorded, 0 without one.
        """
        inputs, trial = self.inputs, self._trials[trial_id]
        if (samples := inputs.judged_samples.get(trial_id)) and inputs.sweep.spec.objective.metric == COUNTED:
            averaged = samples * inputs.sweep.spec.objective.last / (2 if inputs.halves else 1)
            return math.sqrt(max(level * (1 - level), 0.0) / averaged)
        return evaluation_se(trial, inputs) or 0.0

    @cached_property
    def _trials(self) -> Mapping[str, Trial]:
        return {trial.id: trial for trial in self.inputs.trials}

    @cached_property
    def trials(self) -> Sequence[TrialRow]:
        """Trials in the order of their numbers; `objective` is the value that ranks."""
        labels = config_labels(self.inputs.configs, self.varied)
        return [
            trial_row(
                trial,
                labels[trial.config_id],
                self.objectives[trial.id],
                self.inputs,
                self.run_curves[trial.id].health,
                trial.id in self.ruined,
                self.models.get(trial.id),
            )
            for trial in self.inputs.trials
        ]

    @cached_property
    def rows(self) -> Mapping[str, ConfigRow]:
        """Table rows by config id."""
        by_config: dict[str, list[TrialRow]] = {id_: [] for id_ in self.configs}
        for trial in self.trials:
            by_config[trial.config_id].append(trial)
        labels = config_labels(self.inputs.configs, self.varied)
        return {id_: config_row(self.configs[id_], labels[id_], by_config[id_], self.varied) for id_ in by_config}

    @cached_property
    def ordered(self) -> Sequence[ConfigRow]:
        """Table rows: confirmed configs, best first; then the others by tune mean; last those without a result."""
        return in_order(self.rows)

    @property
    def baseline(self) -> ConfigRow | None:
        """The PPO-clip baseline; None if the sweep has none."""
        return next((row for row in self.rows.values() if Role.BASELINE in row.roles), None)

    @cached_property
    def twins(self) -> Mapping[str, ConfigRow]:
        """For each ce_gppo config of the space with a beta above 0, by id, its twin, if the sweep has one.

        The twin has PPO clip's gradient and everything else the same. Best configs first.
        """
        twins: dict[str, ConfigRow] = {}
        for row in self.ordered:
            training = self.configs[row.id].training
            loss = training.get("loss", {})
            keeps = row.loss == "ce_gppo" and (loss.get("beta1", 0) > 0 or loss.get("beta2", 0) > 0)
            if Role.SPACE in row.roles and keeps:
                clipped = {**training, "loss": without_betas(loss)}
                twin = next((other.id for other in self.inputs.configs if other.training == clipped), None)
                twins |= {row.id: self.rows[twin]} if twin else {}
        return twins

    @cached_property
    def entropy_slopes(self) -> Mapping[str, float]:
        """The slope of log entropy over the whole training, by trial id, of whole trials with constant betas."""
        slopes = ((trial.id, entropy_slope(trial, self.configs[trial.config_id], self.inputs)) for trial in self.trials)
        return {id_: slope for id_, slope in slopes if slope is not None}

    @cached_property
    def candidates(self) -> Sequence[str]:
        """Ids of the configs that tuning chose, best first."""
        tune = selection_objectives(self.inputs.trials, self.objectives)
        return [config.id for config in choose(self.inputs.configs, tune, self.inputs.sweep.spec.chosen)]

    @cached_property
    def unsteady(self) -> frozenset[str]:
        """Ids of configs with a ruined confirm trial: their spread says nothing about that of the others."""
        return frozenset(row.config_id for row in self.trials if row.stage is Stage.CONFIRM and row.ruined)

    @cached_property
    def batches(self) -> Mapping[str, Batch]:
        """The batch of each confirm trial, by its id: hardware and versions with which it trained."""
        noted, trials = self.inputs.trained_with, self.inputs.trials
        return {trial.id: batch_of(noted.get(trial.id, ())) for trial in trials if trial.stage is Stage.CONFIRM}

    @cached_property
    def _confirm_runs(self) -> Mapping[str, Mapping[int, Batch]]:
        """The batches of all confirm runs with a result, by config and seed."""
        confirmed = {row.id: row.confirm for row in self.rows.values() if row.confirm is not None}
        return {id_: {run.seed: self.batches[run.trial_id] for run in own.seeds} for id_, own in confirmed.items()}

    @cached_property
    def homes(self) -> Mapping[str, Batch]:
        """The batch in which each confirmed config's runs count, by its id."""
        return home_batches(self._confirm_runs)

    @cached_property
    def common_homes(self) -> Mapping[str, Batch]:
        """The home batch of each confirmed config, by names that all note: those that share one trained alike."""
        names = common_names(self._confirm_runs)
        return {id_: of_names(batch, names) for id_, batch in self.homes.items()}

    def home_text(self, config_id: str) -> str:
        """Name the batch in which a confirmed config's runs count by what sets it apart from all others."""
        names, runs = common_names(self._confirm_runs), self._confirm_runs
        others = {of_names(batch, names) for own in runs.values() for batch in own.values()}
        return batch_text(self.homes[config_id], runs[config_id].values(), others)

    @cached_property
    def elsewhere(self) -> frozenset[str]:
        """Ids of confirm trials that trained in another batch than that in which their config's runs count.

        One that has no result, and died before it noted anything, is not among them.
        """
        return frozenset(
            trial.id
            for trial in self.trials
            if trial.stage is Stage.CONFIRM
            and (trial.objective is not None or self.batches[trial.id])
            and self.batches[trial.id] != self.homes.get(trial.config_id, self.batches[trial.id])
        )

    @cached_property
    def arms(self) -> Sequence[Arm]:
        """The confirmed configs, with all their runs in one batch; those of different batches share no seed."""
        return self._arms(Stage.CONFIRM, unsteady=self.unsteady)

    @cached_property
    def sound_arms(self) -> Sequence[Arm]:
        """The confirmed configs, without their ruined runs."""
        return self._arms(Stage.CONFIRM, without=self.ruined)

    @property
    def tuned_arms(self) -> Sequence[Arm]:
        """The configs with a tune result; of trials that counted right samples, on the problems of that stage."""
        return self._arms(Stage.TUNE)

    def _arms(self, stage: Stage, unsteady: Collection[str] = (), without: Collection[str] = ()) -> list[Arm]:
        """Return each config's results in a stage, without some trials; `unsteady` configs lend nobody their spread."""
        rates, arms, homes = self._rates[stage], list[Arm](), [*dict.fromkeys(self.common_homes.values())]
        for row in self.rows.values():
            if (result := row.stage(stage)) is not None:
                seeds = [seed for seed in result.seeds if seed.trial_id not in without]
                if stage is Stage.CONFIRM:
                    shift = _SEEDS * homes.index(self.common_homes[row.id])
                    own = (seed for seed in seeds if seed.trial_id not in self.elsewhere)
                    seeds = [seed.model_copy(update={"seed": seed.seed + shift}) for seed in own]
                counted = {seed.seed: rates[seed.trial_id] for seed in seeds if rates.get(seed.trial_id)}
                values = {seed.seed: seed.value for seed in seeds}
                if stage is Stage.TUNE:
                    values |= {seed: fmean(shares.values()) for seed, shares in counted.items()}
                arms.append(Arm(row.id, values, row.id not in unsteady, counted))
        return arms

    @cached_property
    def _rates(self) -> Mapping[Stage, Mapping[str, Mapping[Problem, float]]]:
        """The share of right samples by stage, trial and problem."""
        found = {stage: problem_rates(self.inputs, stage) for stage in Stage}
        names = {name for of_stage in found.values() for shares in of_stage.values() for name in shares}
        problems = {name: Problem(name, problem_group(name)) for name in names}
        return {
            stage: {id_: {problems[name]: share for name, share in shares.items()} for id_, shares in of_stage.items()}
            for stage, of_stage in found.items()
        }

    @cached_property
    def best(self) -> ConfigRow | None:
        """The config that leads; None if nothing succeeded."""
        inputs = self.inputs
        leading = leader(inputs.configs, inputs.trials, self.objectives, inputs.sweep.spec)
        return self.rows[leading.config.id] if leading else None

    def trials_of(self, config_id: str) -> list[TrialRow]:
        """Return a config's trials, by number."""
        return [trial for trial in self.trials if trial.config_id == config_id]
