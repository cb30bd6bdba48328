"""Which recorded runs a plan's forecast of early stopping rests on, and when it makes none."""

from pathlib import Path
from typing import Any

import pytest

from sweep_service.intake.spec_check import parse_spec
from sweep_service.service import SweepService
from sweep_service.service.stopping_forecast import stopping_forecasts
from sweep_service.settings import Settings
from sweep_service.store import Store
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.plan import StoppingForecasts, make_plan
from sweep_service.sweep.records import SweepState, Trial
from tests.stored_sweeps import SPEC, START, one_attempt, start

BETAS = [0.2, 0.4, 0.6, 0.8]
KEPT = "replays of runs of the tiny policy that come with this version, 12 configs x 8 seeds"


@pytest.fixture(autouse=True)
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each rule replayed once."""
    monkeypatch.setattr("sweep_service.stopping.forecast.REPLAYS", 1)


def told(store: Store, **changes: Any) -> StoppingForecasts:
    spec = parse_spec(
        SPEC | {"space": {"loss.beta1": BETAS, "loss.beta2": 1}, "seeds": {"tune": [*range(6)]}} | changes
    )
    return stopping_forecasts(store, spec, make_plan(spec, 1.0))


def evaluations(trial: Trial, number: int = 8, every: int = 2) -> list[dict[str, Any]]:
    value = 0.5 + 0.01 * trial.number
    return [
        {"type": "evaluation", "step": every * place, "time": START, "metrics": {"eval/avg_at_k": value}}
        for place in range(number + 1)
    ]


def earlier(store: Store, evaluate: Any = evaluations, failed: int = 0, **changes: Any) -> None:
    """Store a sweep that has ended, its first trials failed."""
    fields = {"name": "earlier", "space": {"loss.beta1": BETAS, "loss.beta2": 1}, "seeds": {"tune": [*range(4)]}}
    sweep, fence = start(store, **fields | changes)
    for trial in store.list_trials(sweep.id):
        ending = Ending.FAILED if trial.number < failed else Ending.SUCCEEDED
        one_attempt(store, fence, trial.id, ending, evaluate(trial))
    store.set_sweep_state(fence, SweepState.FINALIZING)
    store.set_sweep_state(fence, SweepState.SUCCEEDED)
    store.release_lease(fence)


def basis(store: Store, **changes: Any) -> str:
    return told(store, **changes).basis


def test_a_sweep_of_the_same_kind_tells_more_than_the_runs_that_come_along(store: Store) -> None:
    assert basis(store) == KEPT
    earlier(store)
    assert basis(store) == "replays of sweep earlier, 4 configs x 4 seeds"


@pytest.mark.parametrize(
    "changes",
    [
        {"early_stopping": "rungs"},
        {"health": {"entropy_collapse": "stop"}},
        {"seeds": {"tune": [0, 1, 2]}},
        {"training": {"steps": 16, "task": {"name": "expressions", "largest": 50}}},
        {"objective": {"metric": "eval/pass_at_k"}},
        {"failed": 20},
        {"evaluate": lambda trial: evaluations(trial, number=3, every=4)},
        {"evaluate": lambda trial: evaluations(trial, number=8 - 2 * (trial.number % 2))},
        {"evaluate": lambda trial: []},
    ],
    ids=["rule", "health", "seeds", "task", "metric", "failed", "evaluations", "unlike", "none"],
)
def test_a_sweep_of_another_kind_tells_nothing(store: Store, changes: dict[str, Any]) -> None:
    earlier(store, **changes)
    assert basis(store) == KEPT


@pytest.mark.parametrize(("rule", "replayed"), [(None, False), ("rungs", True)], ids=str)
def test_plans_without_a_rule_are_not_replayed(
    store: Store, tmp_path: Path, rule: str | None, *, replayed: bool
) -> None:
    raw = SPEC | {"space": {"loss.beta1": BETAS, "loss.beta2": 1}, "seeds": {"tune": [0, 1]}}
    plan = SweepService(store, Settings(home=tmp_path)).plan(raw | {"early_stopping": rule})
    assert (plan.early_stopping is not None) == replayed
    if plan.early_stopping:
        assert [one.rule for one in plan.early_stopping.rules] == ["none", "paired", "rungs"]
        assert plan.early_stopping.rules[0].hours == pytest.approx(plan.hours)


def test_what_cannot_be_foretold_says_why(store: Store) -> None:
    drawn = {"strategy": "random", "num_configs": 12}
    space = {"loss.beta1": {"type": "float", "low": 0, "high": 1}, "loss.beta2": 1}
    assert basis(store, search=drawn, space=space).startswith("cannot be foretold: random draws its points one by one")
