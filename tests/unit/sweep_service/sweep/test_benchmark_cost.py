"""What benchmarks cost beside training: sums on paper."""

from typing import Any

import pytest

from sweep_service.intake.spec_check import parse_spec
from sweep_service.sweep.benchmark_cost import BenchmarksPlan
from sweep_service.sweep.cost import Measured
from sweep_service.sweep.plan import make_plan
from tests.unit.sweep_service.sweep.test_cost import FIGURES

RAW: dict[str, Any] = {
    "name": "measured",
    "space": {"loss.beta1": [0, 0.5, 1]},
    "seeds": {"tune": [0, 1], "confirm": {"top_k": 2, "seeds": [5, 6, 7]}},
    "baselines": {"dapo": False, "matched": False},
}
"""At most 9 confirm trials: two chosen configs and the baseline."""
PROBLEMS = {"aime24": 30, "math500": 500, "arithmetic": 40}


def planned(benchmarks: Any, measured: Measured | None = None, **changes: Any) -> BenchmarksPlan:
    spec = parse_spec(RAW | {"benchmarks": benchmarks} | changes)
    plan = make_plan(spec, None, measured, PROBLEMS).benchmarks
    assert plan is not None
    return plan


def test_a_sweep_without_benchmarks_plans_none() -> None:
    assert make_plan(parse_spec(RAW), None, None, PROBLEMS).benchmarks is None


def test_models_completions_tokens_and_errors_are_counted() -> None:
    plan = planned(["aime24", "math500"])
    assert (plan.models, plan.samples, plan.problems) == (
        10,
        {"aime24": 32, "math500": 4},
        {"aime24": 30, "math500": 500},
    )
    assert plan.planned.completions == 10 * (30 * 32 + 500 * 4)
    assert plan.planned.tokens == 10 * (30 * 32 * 32768 + 500 * 4 * 16384)
    assert plan.planned.error == pytest.approx(((0.25 / 960 + 0.25 / 2000) / 4) ** 0.5)
    assert plan.planned.hours is None


def test_fewer_samples_are_offered_with_what_they_save_and_lose() -> None:
    plan = planned(["aime24", "math500"])
    assert plan.fewer is not None
    assert plan.fewer_samples == 8
    assert plan.fewer.completions == 10 * (30 * 8 + 500 * 4)
    assert plan.fewer.error == pytest.approx(((0.25 / 240 + 0.25 / 2000) / 4) ** 0.5)
    least = planned({"names": ["arithmetic"], "samples": 1})
    assert (least.fewer_samples, least.fewer) == (None, None)


def test_a_probe_says_the_hours_at_full_length() -> None:
    measured = Measured(FIGURES, 0.0)
    resources = {"cpus": 2}
    plan = planned({"names": ["arithmetic"], "samples": 2, "longest": 100}, measured, resources=resources)
    tokens = 10 * 40 * 2 * 100
    assert plan.planned.tokens == tokens
    assert plan.planned.hours == pytest.approx(2 * tokens / FIGURES.sampled_tokens_per_second / 3600)
    own = {"names": ["arithmetic"], "samples": 2, "longest": 100, "resources": {"cpus": 3}}
    on_more = planned(own, measured, resources=resources)
    assert on_more.planned.hours == pytest.approx(1.5 * plan.planned.hours)


def test_steps_and_all_trials_are_more_models() -> None:
    every = planned({"names": ["arithmetic"], "of": "all", "at": [100, 200]})
    assert every.models == 1 + 2 * (9 + 8)  # 4 configs on 2 tune seeds
