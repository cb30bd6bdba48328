"""The evaluations on benchmarks that follow from a sweep's spec and its trials. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sweep_service.sweep.records import Config, Evaluation, Stage, Trial, TrialState, new_id
from sweep_service.sweep.spec import SweepSpec

_FIRST_NUMBER: Final = 1_000_000
"""Number of a sweep's first evaluation: above those of its trials, which are made later than some evaluations."""


def missing_evaluations(
    spec: SweepSpec, configs: Sequence[Config], trials: Sequence[Trial], evaluations: Sequence[Evaluation]
) -> list[Evaluation]:
    """Return the evaluations that a sweep needs by now and does not have: of initial models, and of trained ones.

    Args:
        configs, trials, evaluations: all rows of the sweep.
    """
    if spec.benchmarks is None:
        return []
    measured = [trial for trial in trials if trial.stage is Stage.CONFIRM or spec.benchmarks.of == "all"]
    by_id = {config.id: config for config in configs}
    wanted = dict[tuple[str, int, int], str | None]()
    for config in _initial_models([by_id[trial.config_id] for trial in measured]):
        wanted[config.id, 0, 0] = None
    for trial in measured:
        if trial.state is TrialState.SUCCEEDED:
            wanted[trial.config_id, trial.seed, trial.total_steps] = trial.id
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
        first.setdefault(json.dumps(_initial_model(config.training), sort_keys=True), config)
    return list(first.values())


def _initial_model(training: Mapping[str, Any]) -> list[Any]:
    """Return all that a config's initial model follows from: adapters change nothing before the first update."""
    model = {name: value for name, value in training["model"].items() if name != "lora"}
    return [model] if model["name"] == "pretrained" else [model, training["task"]]


def most_evaluations(spec: SweepSpec, tune: int, confirm: int) -> int:
    """Return how many evaluations a sweep has at most.

    Args:
        tune, confirm: largest number of trials of each stage.
    """
    if spec.benchmarks is None:
        return 0
    trials = confirm + (tune if spec.benchmarks.of == "all" else 0)
    vary = any(name.partition(".")[0] in ("model", "task") for name in spec.space.names)
    return trials + (trials if vary else min(1, trials))


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
