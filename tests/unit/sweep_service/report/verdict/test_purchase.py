"""What the advice to train more seeds rests on: which runs, which problems, and of which stage."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from bench.simulated_sweeps import Row, run_sweep
from bench.validate_looks import with_seeds
from bench.validate_purchases import RELEVANT, Gaining
from bench.worlds import Lucky
from sweep_service.report import sweep_facts
from sweep_service.report.build import build
from sweep_service.report.facts.problem_rates import problem_rates
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.model import Comparison, Outcome
from sweep_service.report.statistics.differences import Arm
from sweep_service.report.statistics.further_seeds import ResultsSoFar
from sweep_service.sweep.records import Stage
from tests.unit.sweep_service.report.report_sweeps import sweep_inputs
from tests.unit.sweep_service.report.report_worlds import CONFIRM, collapsing, confirms

FIRST = 3


def lucky(seed: int) -> ReportInputs:
    world = Gaining(Lucky(600, 0.05))
    return with_seeds(run_sweep(Row("", world, FIRST, differ=True), np.random.default_rng(seed))[0], FIRST)


def part_of_problems(inputs: ReportInputs, found: Comparison, stage: Stage) -> tuple[float, float, int]:
    """Return variance, what was subtracted to get it, and degrees of freedom, by the model's mean squares."""
    rates = problem_rates(inputs, stage)
    trials = {(t.config_id, t.seed): rates[t.id] for t in inputs.trials if t.stage is stage}
    seeds = sorted({seed for _, seed in trials})
    names = sorted(next(iter(rates.values())))
    one, other = (
        np.array([[trials[id_, seed][name] for name in names] for seed in seeds])
        for id_ in (found.config_id, found.comparator_id)
    )
    deltas_SP: npt.NDArray[np.float64] = one - other
    S, P = deltas_SP.shape
    of_problems_P = deltas_SP.mean(axis=0) - deltas_SP.mean()
    rest_SP = deltas_SP - deltas_SP.mean(axis=1, keepdims=True) - of_problems_P
    ms_problems = S * float((of_problems_P**2).sum()) / (P - 1)
    ms_rest = float((rest_SP**2).sum()) / ((S - 1) * (P - 1))
    return max(0.0, (ms_problems - ms_rest) / (S * P)), ms_rest / (S * P), P - 1


def test_the_problems_part_is_the_larger_of_both_stages() -> None:
    larger = set[Stage]()
    for seed in range(12):
        inputs = lucky(seed)
        report = build(inputs)
        found, advice = report.verdict.comparison, report.verdict.next
        if report.verdict.outcome is not Outcome.UNDECIDED or not (advice and advice.more_seeds):
            continue
        parts = {stage: part_of_problems(inputs, found, stage) for stage in Stage}
        stage = max(parts, key=lambda one: parts[one][0])
        variance, noise, df = parts[stage]
        results = ResultsSoFar(
            found.seed_error**2 * FIRST / 2,
            found.df,
            found.family,
            FIRST,
            found.difference,
            found.df,
            problem_error=variance**0.5,
            problem_df=df,
            problem_noise=noise,
        )
        assert advice.power == pytest.approx(results.chance(advice.more_seeds, RELEVANT, 0.975), abs=1e-6)
        larger.add(stage)
    assert larger == {*Stage}


def test_a_sweep_without_a_confirm_stage_is_judged_by_as_many_problems_as_would_measure_one() -> None:
    inputs = lucky(0)
    sweep = inputs.sweep
    seeds = sweep.spec.seeds.model_copy(update={"confirm": None})
    plan = sweep.model_copy(update={"spec": sweep.spec.model_copy(update={"seeds": seeds})})
    tuned = tuple(trial for trial in inputs.trials if trial.stage is Stage.TUNE)
    rates = problem_rates(replace(inputs, sweep=plan, trials=tuned), Stage.TUNE)
    assert {len(of_trial) for of_trial in rates.values()} == {300}
    assert len(rates) == len(tuned)


def test_advice_knows_no_collapsed_run(monkeypatch: pytest.MonkeyPatch) -> None:
    confirmed: list[Arm] = []
    monkeypatch.setattr(sweep_facts, "next_purchase", lambda _, tables: confirmed.extend(tables.sound_arms))
    report = build(collapsing(sweep_inputs(CONFIRM, advantage=0.12), lambda c, t: confirms(c, t, {10})))
    best = next(arm for arm in confirmed if arm.config_id == report.verdict.comparison.config_id)
    assert sorted(best.values) == [11, 12, 13, 14, 15]
