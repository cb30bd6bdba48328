"""What the report says that its interval counts."""

from typing import Any

import pytest

from sweep_service.report.build import build
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.model import Comparison, Outcome
from sweep_service.report.verdict.interval_basis import held_back, interval_basis
from sweep_service.sweep.objective import how_to_count
from sweep_service.sweep.spec import SweepSpec
from tests.unit.sweep_service.report.report_sweeps import SPEC, sweep_inputs
from tests.unit.sweep_service.report.report_worlds import NAMES, counted, without_luck


def compared(inputs: ReportInputs, num_groups: int | None) -> Comparison:
    comparison = build(inputs).verdict.comparison
    assert comparison is not None
    return comparison.model_copy(update={"num_groups": num_groups})


@pytest.mark.parametrize(
    ("groups", "said"),
    [(13, "20 validation problems, 13 of them independent, which"), (20, "20 validation problems, which")],
)
def test_problems_that_are_alike_are_told(groups: int, said: str) -> None:
    inputs = counted(sweep_inputs())
    assert said in interval_basis(compared(inputs, groups), inputs)


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ([*NAMES[:15], NAMES[0]], ", because there are fewer than 16 independent ones; its"),
        (NAMES[:15], ", because there are fewer than 16; its"),
        ([*NAMES[:16], NAMES[0]], "which also chose the configs; its"),
    ],
)
def test_fewer_groups_than_halves_need_are_the_reason_why_all_problems_chose(names: list[str], why: str) -> None:
    inputs = counted(sweep_inputs(), tuple(names))
    assert why in interval_basis(compared(inputs, None), inputs)


def test_a_word_on_these_problems_says_why_and_what_would_count_others() -> None:
    inputs = sweep_inputs(advantage=0.3)
    verdict = build(inputs).verdict
    assert verdict.outcome is Outcome.AHEAD_HERE
    assert verdict.sentence.startswith("AHEAD ON THESE PROBLEMS: in sound runs on these problems β1=0 β2=1 is ahead of")
    assert verdict.sentence.endswith(
        " Nothing is shown for other problems, because not all trials have recorded which problems they solved; to "
        "include others, evaluate all trials on the same 16 problems or more."
    )
    assert "bets" not in verdict.sentence
    assert ", not the choice of validation problems. The" in verdict.basis  # the sentence has the reason
    assert verdict.next is not None
    assert (verdict.next.more_seeds, verdict.next.power) == (0, None)
    assert verdict.next.text.startswith("More seeds would say nothing about other problems; to include others, eval")
    ahead = build(inputs).best
    assert ahead is not None
    assert "it is ahead of baseline β1=0 β2=0 on these problems; on others that is open." in ahead.why


def test_the_same_results_with_counted_problems_have_the_word_on_sound_runs() -> None:
    verdict = build(without_luck(sweep_inputs(advantage=0.3))).verdict
    assert (verdict.outcome, "Nothing is shown" in verdict.sentence) == (Outcome.AHEAD, False)


def test_a_config_that_is_behind_on_these_problems_is_told_so() -> None:
    report = build(sweep_inputs(advantage=-0.3))
    assert report.verdict.outcome is Outcome.BEHIND_HERE
    assert report.best is not None
    assert "where no run is ruined, on these problems; prefer that." in report.best.why


def test_problems_of_one_group_say_nothing_of_others() -> None:
    inputs = counted(sweep_inputs(advantage=0.3), (NAMES[0],) * 20)
    comparison = compared(inputs, 1).model_copy(update={"num_problems": None, "outcome": Outcome.AHEAD_HERE})
    assert "for other problems, because no two problems are independent;" in held_back(comparison, inputs)


def test_an_undecided_word_gives_the_reason_unless_the_averages_alone_decide() -> None:
    open_ = build(sweep_inputs({"objective": {"relevant": 0.001}})).verdict
    assert open_.outcome is Outcome.UNDECIDED
    assert "Nothing is shown" not in open_.sentence
    assert "not the choice of validation problems, because not all trials have recorded" in open_.basis
    comparison = open_.comparison
    assert comparison is not None
    decided = comparison.model_copy(update={"average_low": 0.1, "average_high": 0.2})
    assert held_back(decided, sweep_inputs()).startswith(" Nothing is shown for other problems, because")
    assert held_back(decided.model_copy(update={"num_problems": 20}), sweep_inputs()) == ""


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        (
            {"objective": {"metric": "eval/pass_at_k"}},
            "to include others, set objective.metric to eval/avg_at_k,",
        ),
        ({}, "to include others, evaluate all trials on the same 16 problems or more"),
    ],
)
def test_what_would_count_problems_follows_from_the_spec(spec: dict[str, Any], said: str) -> None:
    assert how_to_count(SweepSpec.model_validate(SPEC | spec)).startswith(said)
