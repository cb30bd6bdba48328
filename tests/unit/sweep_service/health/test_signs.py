"""Signs of a run that has got only so far, and those that the report's own tests do not show."""

import numpy as np
import pytest

from sweep_service.health.run_health import RunCurves
from sweep_service.health.signs import ANSWERS_LOST, KEYS, SIGNS
from sweep_service.report.facts.report_inputs import CURVE_KEYS
from sweep_service.sweep.health_actions import HealthActions
from sweep_service.sweep.series import TrialSeries


def run(samples: int | None = 1000, last: int = 3, **values: list[float]) -> RunCurves:
    """A run of 100 steps with these metrics, whose names have __ for /; evaluations are 10 steps apart."""
    metrics = {name.replace("__", "/"): np.array(own) for name, own in values.items()}
    evaluated = max((len(own) for name, own in metrics.items() if name.startswith("eval/")), default=0)
    trained = max((len(own) for name, own in metrics.items() if not name.startswith("eval/")), default=0)
    steps, eval_steps = np.arange(1, trained + 1), 10 * np.arange(evaluated)
    return RunCurves(100, last, TrialSeries("t", steps, eval_steps, np.zeros(evaluated), metrics), samples)


def codes(curves: RunCurves) -> set[str]:
    return {sign.code for sign in SIGNS if sign.look(curves)}


def test_every_sign_has_its_action_and_reads_what_reports_read() -> None:
    assert [sign.code.lower() for sign in SIGNS] == [*HealthActions.model_fields]
    assert set(KEYS) <= set(CURVE_KEYS)


@pytest.mark.parametrize(
    ("accuracy", "step"),
    [
        ([0.5, 0.6, 0.6, 0.6, 0.6, 0.6], None),
        ([0.5, 0.6, 0.6, 0.6, 0.0], None),  # a mean of .4
        ([0.5, 0.6, 0.6, 0.6, 0.0, 0.0], 50),
        ([0.5, 0.6, 0.6, 0.6, 0.0, 0.0, 0.6, 0.6, 0.6], 50),  # and came back
        ([0.5, 0.0], None),
        ([0.5, 0.0, 0.0], 20),
        ([0.04, 0.0, 0.0, 0.0], None),
        ([], None),
    ],
    ids=str,
)
def test_answers_are_lost_at_the_first_evaluation_that_shows_it(accuracy: list[float], step: int | None) -> None:
    curves = run(eval__avg_at_k=accuracy)
    assert curves.lost_at == step
    assert (ANSWERS_LOST in codes(curves)) == (step is not None)


def test_few_samples_lose_no_answers_by_chance() -> None:
    accuracy = [0.5, 0.4, 0.5, 0.2, 0.2, 0.2]
    assert run(samples=1000, eval__avg_at_k=accuracy).lost_at == 50
    assert run(samples=8, eval__avg_at_k=accuracy).lost_at is None
    assert run(samples=4, eval__avg_at_k=[0.9, 0.44, 0.44, 0.44]).lost_at is None, "the first is one evaluation"


def test_lost_answers_are_told_as_they_were_then() -> None:
    sign = next(sign for sign in SIGNS if sign.code == ANSWERS_LOST)
    found = sign.look(run(eval__avg_at_k=[0.5, 0.6, 0.6, 0.6, 0.0, 0.0, 0.9, 0.9, 0.9]))
    assert found is not None
    assert found.words == "at step 50 held-out accuracy was 0.200 in the last evaluations, after 0.600 at its best"


@pytest.mark.parametrize(("far", "shown"), [(5, True), (4, False)], ids=str)
def test_a_run_that_left_the_initial_model_for_a_window(far: int, *, shown: bool) -> None:
    curves = run(probe__kl_from_initial_k3=[0.1] * 20 + [2.1] * far + [0.1] * 20)
    assert ("KL_EXPLOSION" in codes(curves)) == shown


def test_what_has_recorded_nothing_shows_nothing() -> None:
    assert codes(RunCurves(100, 3)) == set()
    assert codes(run()) == set()


def test_a_run_that_begins_is_not_yet_judged_by_its_first_steps() -> None:
    early = run(entropy=[1.0, 0.9], reward__mean=[0.5, 0.1], eval__avg_at_k=[0.5])
    assert codes(early) == set()
