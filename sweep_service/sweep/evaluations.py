"""The evaluations on benchmarks that follow from a sweep's spec and its trials. Pure."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sweep_service.sweep.records import Config, Evaluation, Stage, Trial, TrialState, new_id
from sweep_service.sweep.spec import SweepSpec

_FIRST_NUMBER: Final = 1_000_000
"""Number of a sweep's first evaluation: above those of its trials, which are made later than some evaluations."""


def is_measured(spec: SweepSpec, trial: Trial) -> bool:
    """Whether the models of a trial are measured on benchmarks."""
    return spec.benchmarks is not None and (trial.stage is Stage.CONFIRM or spec.benchmarks.of == "all")


def steps_to_keep(spec: SweepSpec, trial: Trial) -> tuple[int, ...]:
    """Return the optimizer steps before its last one after which a trial must keep its model to be measured."""
    if spec.benchmarks is None or spec.benchmarks.at == "end" or not is_measured(spec, trial):
        return ()
    return tuple(sorted(step for step in spec.benchmarks.at if step < trial.total_steps))


def missing_evaluations(
    spec: SweepSpec,
    configs: Sequence[Config],
    trials: Sequence[Trial],
    evaluations: Sequence[Evaluation],
    kept_models: Collection[tuple[str, int]] = (),
) -> list[Evaluation]:
    """Return the evaluations that a sweep needs by now and does not have: of initial models, and of trained ones.

    Args:
        configs, trials, evaluations: all rows of the sweep.
        kept_models: trials and steps whose models have been kept beside the last ones.
    """
    if spec.benchmarks is None:
        return []
    at = spec.benchmarks.at
    measured = [trial for trial in trials if is_measured(spec, trial)]
    by_id = {config.id: config for config in configs}
    wanted = dict[tuple[str, int, int], str | None]()
    for config in _initial_models([by_id[trial.config_id] for trial in measured]):
        wanted[config.id, 0, 0] = None
    for trial in measured:
        steps = [step for step in steps_to_keep(spec, trial) if (trial.id, step) in kept_models]
        if trial.state is TrialState.SUCCEEDED and (at == "end" or trial.total_steps in at):
            steps.append(trial.total_steps)
        for step in steps:
            wanted[trial.config_id, trial.seed, step] = trial.id
    present = {(made.config_id, made.seed, made.model_step) for made in evaluations}
    new = [(key, trial_id) for key, trial_id in wanted.items() if key not in present]
    return [
        Evaluation(
            id=new_id("evl"),
            sweep_id=by_id[config_id].sweep_id,
            config_id=config_id,
            seed=seed,
            number=_FIRST_NUMBER + number,
            state=TrialState.PENDING,
            threads=max(1, int(spec.evaluation_resources.cpus)),
            total_steps=len(spec.benchmarks.names),
            trial_id=trial_id,
            model_step=model_step,
        )
        for number, ((config_id, seed, model_step), trial_id) in enumerate(new, len(evaluations))
    ]


def _initial_models(configs: Sequence[Config]) -> list[Config]:
    """Return, for each different model from which these configs start, the first config that starts from it."""
    first = dict[str, Config]()
    for config in sorted(configs, key=lambda config: config.number):
        first.setdefault(_initial_model(config.training), config)
    return list(first.values())


def _initial_model(training: Mapping[str, Any]) -> str:
    """Return all that a config's initial model follows from: adapters change nothing before the first update."""
    model = {name: value for name, value in training["model"].items() if name != "lora"}
    return json.dumps([model] if model["name"] == "pretrained" else [model, training["task"]], sort_keys=True)


def models_of_trials(configs: Sequence[Config], evaluations: Sequence[Evaluation]) -> dict[str, list[Evaluation]]:
    """Return by trial id the evaluations of a trial's models: of the one from which it starts, then of trained ones.

    Args:
        configs: all of the sweep.
        evaluations: all of the sweep; a trial without one of its own is left out.
    """
    starts = {config.id: _initial_model(config.training) for config in configs}
    initial = {starts[one.config_id]: one for one in evaluations if one.trial_id is None}
    models = dict[str, list[Evaluation]]()
    for one in sorted(evaluations, key=lambda one: one.model_step):
        if one.trial_id is not None:
            start = initial.get(starts[one.config_id])
            models.setdefault(one.trial_id, [] if start is None else [start]).append(one)
    return models


def most_evaluations(spec: SweepSpec, tune: int, confirm: int) -> int:
    """Return how many evaluations a sweep has at most.

    Args:
        tune, confirm: largest number of trials of each stage.
    """
    if spec.benchmarks is None:
        return 0
    trials = confirm + (tune if spec.benchmarks.of == "all" else 0)
    vary = any(name.partition(".")[0] in ("model", "task") for name in spec.space.names)
    models = 1 if spec.benchmarks.at == "end" else len(spec.benchmarks.at)
    return trials * models + (trials if vary else min(1, trials))


def measuring_request(spec: SweepSpec, model: str | None, results: str | None) -> dict[str, Any]:
    """Return what `python -m trainers --measure` is asked.

    Args:
        model: folder of a checkpoint; None for the initial model.
        results: folder that keeps the samples over attempts; None to share them with other sweeps.
    """
    assert spec.benchmarks is not None
    settings = spec.benchmarks.model_dump(mode="json", include={"samples", "longest", "temperature", "top_p"})
    return {
        "model": model,
        "results": results,
        "benchmarks": [{"name": name, **settings} for name in spec.benchmarks.names],
    }
