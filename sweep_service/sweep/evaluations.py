"""The evaluations on benchmarks that follow from a sweep's spec, its trials and what was added later. Pure."""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sweep_service.sweep.own_trainer import is_own
from sweep_service.sweep.records import BenchmarkResult, Config, Evaluation, Stage, Sweep, Trial, TrialState, new_id
from sweep_service.sweep.spec import BenchmarkSettings, SweepSpec
from trainers.config import TrainingConfig

_FIRST_NUMBER: Final = 1_000_000
"""Number of a sweep's first evaluation: above those of its trials, which are made later than some evaluations."""


def is_measured(sweep: Sweep, trial: Trial) -> bool:
    """True if the models of a trial are measured on benchmarks."""
    return _spec_measures(sweep.spec, trial) or any(trial.id in added.trials for added in sweep.added_benchmarks)


def _spec_measures(spec: SweepSpec, trial: Trial) -> bool:
    return spec.benchmarks is not None and (trial.stage is Stage.CONFIRM or spec.benchmarks.of == "all")


def benchmarks_of(sweep: Sweep, trial: Trial | None, step: int) -> dict[str, BenchmarkSettings]:
    """Return by name the benchmarks on which a model is measured.

    Args:
        trial: the trial that trained it; None for an initial model, which is measured on all.
        step: optimizer updates that the model has had.
    """
    parts = list[BenchmarkSettings]()
    if (asked := sweep.spec.benchmarks) is not None:
        at = asked.at
        named = trial is not None and step in ((trial.total_steps,) if at == "end" else at)
        if trial is None or (named and _spec_measures(sweep.spec, trial)):
            parts.append(asked)
    for added in sweep.added_benchmarks:
        if trial is None or (step == trial.total_steps and trial.id in added.trials):
            parts.append(added)
    sampled = _by_name([*([asked] if asked else []), *sweep.added_benchmarks])
    return {name: sampled[name] for name in _by_name(parts)}


def _by_name(parts: Sequence[BenchmarkSettings]) -> dict[str, BenchmarkSettings]:
    """Return the first part that names each benchmark: it says how this sweep samples it, whoever asks again."""
    by_name = dict[str, BenchmarkSettings]()
    for part in parts:
        for name in part.names:
            by_name.setdefault(name, part)
    return by_name


def steps_to_keep(spec: SweepSpec, trial: Trial) -> tuple[int, ...]:
    """Return the optimizer steps before its last one after which a trial must keep its model to be measured."""
    return _steps_before_last(spec, trial.total_steps) if _spec_measures(spec, trial) else ()


def _steps_before_last(spec: SweepSpec, total_steps: int) -> tuple[int, ...]:
    """Return the steps before the last one at which models are measured."""
    if spec.benchmarks is None or spec.benchmarks.at == "end":
        return ()
    return tuple(sorted(step for step in spec.benchmarks.at if step < total_steps))


def missing_evaluations(
    sweep: Sweep,
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
    measured = {trial.id: trial for trial in trials if is_measured(sweep, trial)}
    by_id = {config.id: config for config in configs}
    wanted = dict[tuple[str, int, int], str | None]()
    starts = {initial_model(by_id[one.config_id].training) for one in evaluations if one.trial_id is None}
    for config in sorted((by_id[trial.config_id] for trial in measured.values()), key=lambda config: config.number):
        start = initial_model(config.training)
        if start not in starts:  # another config may have asked for it first
            starts.add(start)
            wanted[config.id, 0, 0] = None
    for trial in measured.values():
        steps = [step for step in steps_to_keep(sweep.spec, trial) if (trial.id, step) in kept_models]
        if trial.state is TrialState.SUCCEEDED and benchmarks_of(sweep, trial, trial.total_steps):
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
            threads=max(1, int(sweep.spec.evaluation_resources.cpus)),
            total_steps=len(benchmarks_of(sweep, measured.get(trial_id or ""), model_step)),
            trial_id=trial_id,
            model_step=model_step,
        )
        for number, ((config_id, seed, model_step), trial_id) in enumerate(new, len(evaluations))
    ]


def evaluations_to_reopen(
    sweep: Sweep, trials: Sequence[Trial], evaluations: Sequence[Evaluation], results: Sequence[BenchmarkResult]
) -> dict[str, int]:
    """Return how many benchmarks each present evaluation has, by its id, of those that lack a result.

    Args:
        trials, evaluations, results: all of the sweep.
    """
    by_id, has = {trial.id: trial for trial in trials}, defaultdict[str, set[str]](set)
    for result in results:
        has[result.evaluation_id].add(result.benchmark)
    wanted = {one.id: benchmarks_of(sweep, by_id.get(one.trial_id or ""), one.model_step) for one in evaluations}
    return {id_: len(names) for id_, names in wanted.items() if names.keys() - has[id_]}


def initial_model(training: Mapping[str, Any]) -> str:
    """Return the settings that determine a config's initial model: adapters change nothing before the first update.

    The start of a trainer of one's own may depend on each of its settings.
    """
    if is_own(training):
        return json.dumps(training, sort_keys=True)
    model = {name: value for name, value in training["model"].items() if name != "lora"}
    return json.dumps([model] if model["name"] == "pretrained" else [model, training["task"]], sort_keys=True)


def question(base: TrainingConfig) -> str:
    """Return the model that a sweep starts from and its problems: with the same ones, two sweeps ask the same."""
    training = base.model_dump(mode="json")
    return json.dumps([initial_model(training), training["task"]], sort_keys=True)


def models_of_trials(configs: Sequence[Config], evaluations: Sequence[Evaluation]) -> dict[str, list[Evaluation]]:
    """Return by trial id the evaluations of a trial's models: of the one from which it starts, then of trained ones.

    Args:
        configs: all of the sweep.
        evaluations: all of the sweep; a trial without one of its own is left out.
    """
    starts = {config.id: initial_model(config.training) for config in configs}
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
    trials = _most_measured(spec, tune, confirm)
    vary = any(name.partition(".")[0] in ("model", "task") for name in spec.space.names)
    models = 1 if spec.benchmarks.at == "end" else len(spec.benchmarks.at)
    return trials * models + (trials if vary else min(1, trials))


def most_kept_models(spec: SweepSpec, tune: int, confirm: int, total_steps: int) -> int:
    """Return how many models wait on the disk for their evaluation at most: all, if trials leave evaluations no slot.

    Args:
        tune, confirm: largest number of trials of each stage.
        total_steps: largest number of updates of a trial.
    """
    return _most_measured(spec, tune, confirm) * len(_steps_before_last(spec, total_steps))


def _most_measured(spec: SweepSpec, tune: int, confirm: int) -> int:
    """Return how many trials have models that are measured, at most."""
    if spec.benchmarks is None:
        return 0
    return confirm + (tune if spec.benchmarks.of == "all" else 0)


def measuring_request(
    benchmarks: Mapping[str, BenchmarkSettings], model: str | None, results: str | None
) -> dict[str, Any]:
    """Return the request to `python -m trainers --measure`.

    Args:
        benchmarks: the result of `benchmarks_of` for the model.
        model: folder of a checkpoint; None for the initial model.
        results: folder that keeps the samples over attempts; None to share them with other sweeps.
    """
    return {
        "model": model,
        "results": results,
        "benchmarks": [{"name": name, **part.sampling} for name, part in benchmarks.items()],
    }
