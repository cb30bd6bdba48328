"""Finds the earlier sweeps of a store that asked what a sweep asks, with their answers."""

import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from sweep_service.store import Store
from sweep_service.sweep.evaluations import initial_model
from sweep_service.sweep.objective import objective_metrics, trial_objective, used_measures
from sweep_service.sweep.records import AskedBefore, Stage, Sweep
from trainers.config import TrainingConfig


def asked_before(store: Store, sweep: Sweep, config_ids: Collection[str]) -> tuple[AskedBefore, ...]:
    """Return the sweeps with a final report that were submitted before one and ask the same question, oldest first.

    Args:
        config_ids: the sweep's configs; of those that an earlier sweep has confirmed, too, the results are returned.
    """
    if sweep.spec.trainer is not None:  # what its settings mean, and on which problems it evaluates, is not known
        return ()
    own, same = sweep.spec.base, list[AskedBefore]()
    for id_, raw in store.answered(sweep.id):
        if not _may_be_same(raw, own):
            continue
        with suppress(ValidationError):  # refused today: its loss's package may be gone
            if _question(TrainingConfig.model_validate(raw)) == _question(own):
                same.append(_asked(store, store.get_sweep(id_), sweep, config_ids))
    return tuple(same)


def _may_be_same(raw: Mapping[str, Any], own: TrainingConfig) -> bool:
    """True if a base as it was submitted names the same task and kind of model, or leaves them to the defaults."""
    pairs = ((raw.get("task"), own.task.name), (raw.get("model"), own.model.name))
    return all(not isinstance(part, dict) or part.get("name", name) == name for part, name in pairs)


def _question(base: TrainingConfig) -> str:
    """Return the model that a sweep starts from and its problems: with the same ones, two sweeps ask the same."""
    training = base.model_dump(mode="json")
    return json.dumps([initial_model(training), training["task"]], sort_keys=True)


def _asked(store: Store, earlier: Sweep, sweep: Sweep, config_ids: Collection[str]) -> AskedBefore:
    report = store.find_report(earlier.id, "verdict")
    outcome = from_json(report.content)["outcome"] if report else ""
    asked = AskedBefore(sweep_id=earlier.id, name=earlier.name, outcome=outcome)
    kinds = [one.spec.objective.model_dump(exclude={"relevant"}) for one in (earlier, sweep)]
    if kinds[0] != kinds[1]:
        return asked
    trials, values = store.list_trials(earlier.id), dict[tuple[str, str], list[float]]()
    for curve in store.curves(earlier.id, objective_metrics(earlier.spec)):
        values[curve.trial_id, curve.key] = [value for value in curve.values if value is not None]
    used = used_measures(trials, lambda id_, metric: values.get((id_, metric), ()), earlier.spec)
    measure, confirmed = used[Stage.CONFIRM], dict[str, dict[int, float]]()
    for trial in trials:
        if trial.stage is Stage.CONFIRM and trial.config_id in config_ids:
            value = trial_objective(trial, values.get((trial.id, measure), ()), earlier.spec.objective)
            if value is not None:
                confirmed.setdefault(trial.config_id, {})[trial.seed] = value
    return asked.model_copy(update={"confirmed": confirmed, "measured_by": measure})
