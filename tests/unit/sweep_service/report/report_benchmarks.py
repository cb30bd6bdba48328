"""Benchmarks measured in the made-up sweeps: right samples drawn problem by problem, scores by the real estimates."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.sweep.evaluations import missing_evaluations
from sweep_service.sweep.records import BenchmarkResult, Config, Evaluation, Role, Trial, TrialState
from tests.unit.sweep_service.report.report_sweeps import sweep_inputs
from trainers.evaluation.estimates import Counts, Estimate, average, average_pass_at_k

NAMES = ("aime24", "aime25")
SAMPLES = 16

Gain = Callable[[Config, Evaluation], float]
"""What a model's chance of a right sample is above the initial model's."""


def no_gain(config: Config, evaluation: Evaluation) -> float:
    """No training changes anything."""
    return 0.0


def better_than_baseline(config: Config, evaluation: Evaluation) -> float:
    """Training gains nothing with the baseline, and 0.15 with every other config."""
    return 0.0 if evaluation.trial_id is None or Role.BASELINE in config.roles else 0.15


def measured_inputs(
    gain: Gain = better_than_baseline,
    *,
    spec: dict[str, Any] | None = None,
    problems: int = 30,
    names: Sequence[str] = NAMES,
    fails: Callable[[Evaluation], bool] = lambda evaluation: False,
    draw: int = 0,
    **sweep: Any,
) -> ReportInputs:
    """Run a made-up sweep and measure its models.

    Args:
        spec: what differs from `report_sweeps.SPEC`, besides the names of the benchmarks.
        problems: number of problems of each benchmark; some are harder than others.
        fails: which evaluations fail.
        draw: names the random samples.
        sweep: what `sweep_inputs` takes.
    """
    inputs = sweep_inputs({"benchmarks": {"names": list(names)}} | (spec or {}), **sweep)
    return _measure(inputs, gain, problems, fails, draw)


def without_result(inputs: ReportInputs, seed: int = 12, name: str = NAMES[1]) -> tuple[ReportInputs, Trial]:
    """The same sweep without one benchmark's result of the first trial of a seed, and that trial."""
    trial = next(trial for trial in inputs.trials if trial.seed == seed)
    (lost,) = (one.id for one in inputs.evaluations if one.trial_id == trial.id)
    left = [one for one in inputs.benchmark_results if (one.evaluation_id, one.benchmark) != (lost, name)]
    return replace(inputs, benchmark_results=tuple(left)), trial


def evaluated(inputs: ReportInputs, seed: int, **changes: Any) -> ReportInputs:
    """The same sweep, in which the evaluations of one seed of β1=0 β2=1 ended otherwise, or for seed 0 that of the
    initial model."""
    configs = {config.id: config for config in inputs.configs}

    def is_meant(one: Evaluation) -> bool:
        own = configs[one.config_id]
        in_space = own.params.get("loss.beta1") == 0.0 and Role.BASELINE not in own.roles
        return one.seed == seed and (one.trial_id is None or in_space)

    evaluations = [one.model_copy(update=changes) if is_meant(one) else one for one in inputs.evaluations]
    assert evaluations != list(inputs.evaluations)
    lost = {one.id for one in evaluations if one.state is not TrialState.SUCCEEDED}
    results = [result for result in inputs.benchmark_results if result.evaluation_id not in lost]
    return replace(inputs, evaluations=tuple(evaluations), benchmark_results=tuple(results))


def _measure(
    inputs: ReportInputs, gain: Gain, problems: int, fails: Callable[[Evaluation], bool], draw: int
) -> ReportInputs:
    sweep, configs = inputs.sweep, {config.id: config for config in inputs.configs}
    kept = {(trial.id, trial.total_steps // 2) for trial in inputs.trials}
    made = missing_evaluations(sweep, inputs.configs, inputs.trials, [], kept)
    evaluations, results = list[Evaluation](), list[BenchmarkResult]()
    for number, evaluation in enumerate(made):
        state = TrialState.FAILED if fails(evaluation) else TrialState.SUCCEEDED
        ended = evaluation.model_copy(
            update={"id": f"evl_{number:04}", "state": state, "attempts": 1, "held_s": 1800.0}
        )
        evaluations.append(ended)
        for place, name in enumerate(sweep.benchmarks if state is TrialState.SUCCEEDED else ()):
            chance = gain(configs[evaluation.config_id], evaluation)
            content = _content(np.random.default_rng([draw, number, place]), _difficulties(place, problems) + chance)
            results.append(
                BenchmarkResult(
                    evaluation_id=ended.id, benchmark=name, time=2e9, model_sha256="ab" * 32, content=content
                )
            )
    return replace(inputs, evaluations=tuple(evaluations), benchmark_results=tuple(results))


def _difficulties(place: int, problems: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return each problem's chance of a right sample, the same for every model."""
    return np.random.default_rng(1000 + place).uniform(0.1, 0.8, problems)


def _content(rng: np.random.Generator, chances: Sequence[float] | Any) -> dict[str, Any]:
    """Return a result as `trainers.benchmarks` writes it, as far as reports read it."""
    right = rng.binomial(SAMPLES, np.clip(chances, 0, 1)).tolist()
    counts = [Counts(SAMPLES, one) for one in right]
    sizes = [2**power for power in range(SAMPLES.bit_length())]
    scores = {
        "avg_at_k": _row(SAMPLES, average([[True] * one + [False] * (SAMPLES - one) for one in right])),
        "pass_at_k": [_row(k, average_pass_at_k(counts, k)) for k in sizes],
        "majority_at_k": {"mean": None},
    }
    return {
        "scores": scores,
        "samples": {"tokens_mean": 900.0, "truncated_share": 0.0, "failed_share": 0.0},
        "problems": [{"id": f"problem-{n}", "judged": SAMPLES, "right": one} for n, one in enumerate(right)],
    }


def _row(k: int, estimate: Estimate) -> dict[str, Any]:
    return {"k": k, "mean": estimate.mean, "sampling_se": estimate.sampling_se, "problem_se": estimate.problem_se}
