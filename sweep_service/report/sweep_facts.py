"""The facts about one sweep that everything in its report starts from, each made once, when it is first asked for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from sweep_service.report.facts.measured_models import MeasuredModel, final_models
from sweep_service.report.facts.problem_rates import problem_rates
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.facts.rollouts import entropy_slope
from sweep_service.report.facts.table_rows import config_row, in_order, trial_row
from sweep_service.report.facts.trial_health import Health, trial_health
from sweep_service.report.model import Comparison, ConfigRow, TrialRow, Verdict
from sweep_service.report.statistics.differences import Arm
from sweep_service.report.verdict.arms import confirmed_arms, tuned_arms
from sweep_service.report.verdict.collapse import tuning_text
from sweep_service.report.verdict.interval_basis import interval_basis
from sweep_service.report.verdict.purchase import next_purchase
from sweep_service.report.verdict.ties import tie_set
from sweep_service.report.verdict.verdict import compare, judge
from sweep_service.sweep.baselines import without_betas
from sweep_service.sweep.labels import config_labels, varied_names
from sweep_service.sweep.objective import choose, leader, selection_objectives, trial_objective
from sweep_service.sweep.records import Config, Role, Stage


@dataclass(frozen=True)
class Facts:
    """The rows of one sweep, summed up: its tables, comparisons and verdict."""

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
    def health(self) -> Mapping[str, Health]:
        """Each trial's health by its curves, by trial id."""
        return {trial.id: trial_health(trial, self.inputs) for trial in self.inputs.trials}

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
                self.health[trial.id],
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
        tune, confirm = selection_objectives(self.inputs.trials, self.objectives), self.inputs.sweep.spec.seeds.confirm
        return [config.id for config in choose(self.inputs.configs, tune, confirm.top_k if confirm else 1)]

    @cached_property
    def unsteady(self) -> frozenset[str]:
        """Ids of configs with a collapsed confirm trial: their spread says nothing about that of the others."""
        return frozenset(self._collapsed.values())

    @cached_property
    def _collapsed(self) -> Mapping[str, str]:
        """Collapsed confirm trials, with their configs."""
        return {row.id: row.config_id for row in self.trials if row.stage is Stage.CONFIRM and row.collapsed}

    @cached_property
    def _rates(self) -> Mapping[str, Mapping[str, float]]:
        return problem_rates(self.inputs)

    @cached_property
    def _arms(self) -> Sequence[Arm]:
        """The confirmed configs, with all their runs."""
        return confirmed_arms(self.rows, self.unsteady, self._rates)

    @cached_property
    def _whole(self) -> Sequence[Arm]:
        """The confirmed configs, without the runs that collapsed."""
        return confirmed_arms(self.rows, frozenset(), self._rates, without=self._collapsed)

    @cached_property
    def comparisons(self) -> Sequence[Comparison]:
        """The candidates against their comparators; first with the verdict's, the best one first."""
        return compare(self._arms, self._whole, self.trials, self.rows, self.candidates, self.inputs)

    @cached_property
    def best(self) -> ConfigRow | None:
        """The config that leads; None if nothing succeeded."""
        inputs = self.inputs
        leading = leader(inputs.configs, inputs.trials, self.objectives, inputs.sweep.spec.seeds.confirm)
        return self.rows[leading.config.id] if leading else None

    @cached_property
    def verdict(self) -> Verdict:
        """The verdict on the best config, with its basis, the configs that may be as good, and what to train next."""
        inputs = self.inputs
        verdict = judge(self.best, self.rows, self.comparisons, inputs)
        basis = interval_basis(verdict.comparison, inputs)
        if self.best is not None and verdict.comparison is not None:
            basis += tuning_text(self.trials, self.rows, self.best.id)
        further = None
        if not inputs.interim:
            tuned = tuned_arms(self.rows, problem_rates(inputs, Stage.TUNE))
            further = next_purchase(verdict, self.rows, self._whole, tuned, inputs.sweep, inputs.looks)
        ties = tie_set(self._arms, self.rows)
        return verdict.model_copy(update={"basis": basis, "ties": ties, "next": further})

    def trials_of(self, config_id: str) -> list[TrialRow]:
        """Return a config's trials, by number."""
        return [trial for trial in self.trials if trial.config_id == config_id]
