"""What the store keeps of the validation problems: how often each trial was right on each."""

from typing import Any

import pytest

from sweep_service.store import Fence, Store
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.records import ProblemCounts
from tests import stored_sweeps as sweeps

NAMES = {"type": "problems", "time": sweeps.START, "digest": "two", "names": ["a", "b"]}


def evaluation(step: int, right: list[int], judged: int | list[int] = 4) -> dict[str, Any]:
    event = {"type": "evaluation", "step": step, "time": sweeps.START, "metrics": {"eval/avg_at_k": 0.5}}
    return event | {"problems": {"digest": "two", "judged": judged, "right": right}}


def ingested(store: Store, fence: Fence, trial: int, *events: dict[str, Any]) -> str:
    """Run a new attempt of one trial that records these events; return the trial's id."""
    trial_id = store.list_trials(fence.sweep_id)[trial].id
    sweeps.one_attempt(store, fence, trial_id, Ending.LOST, [NAMES, *events])
    return trial_id


def counted(trial_id: str, step: int, judged: tuple[int, ...], right: tuple[int, ...]) -> ProblemCounts:
    return ProblemCounts(trial_id=trial_id, step=step, names=("a", "b"), judged=judged, right=right)


@pytest.mark.both_databases
def test_the_last_evaluations_of_each_trial_come_by_trial_and_step(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    second = ingested(store, fence, 1, evaluation(0, [0, 0]), evaluation(4, [1, 2]), evaluation(8, [3, 4], [3, 4]))
    first = ingested(store, fence, 0, evaluation(0, [4, 0]))
    assert list(store.problem_counts(sweep.id, last=2)) == [
        counted(first, 0, (4, 4), (4, 0)),
        counted(second, 4, (4, 4), (1, 2)),
        counted(second, 8, (3, 4), (3, 4)),
    ]


def test_of_a_step_that_comes_again_the_later_counts_stand(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    ingested(store, fence, 0, evaluation(4, [1, 2]), evaluation(8, [1, 1]))
    trial_id = ingested(store, fence, 0, evaluation(8, [2, 0]))
    assert list(store.problem_counts(sweep.id, last=9)) == [
        counted(trial_id, 4, (4, 4), (1, 2)),
        counted(trial_id, 8, (4, 4), (2, 0)),
    ]


@pytest.mark.parametrize("judged", [0, [0, 0]])
def test_an_evaluation_on_which_the_judge_always_failed_is_not_among_the_last(store: Store, judged: Any) -> None:
    sweep, fence = sweeps.start(store)
    trial_id = ingested(store, fence, 0, evaluation(4, [1, 2]), evaluation(8, [0, 0], judged))
    assert list(store.problem_counts(sweep.id, last=1)) == [counted(trial_id, 4, (4, 4), (1, 2))]


def test_trainers_that_did_not_count_leave_nothing(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    sweeps.run_trial(store, fence, store.list_trials(sweep.id)[0])
    assert list(store.problem_counts(sweep.id, last=3)) == []
