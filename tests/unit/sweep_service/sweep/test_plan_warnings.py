"""A plan says where no number of seeds can show that two configs are alike, for want of validation problems."""

import math
from typing import Any

import pytest

from sweep_service.intake.spec_check import parse_spec
from sweep_service.sweep.cost import Measured
from sweep_service.sweep.plan import make_plan
from sweep_service.sweep.plan_warnings import groups_warning, plan_warnings, problems_warning
from sweep_service.sweep.spec import SweepSpec
from tests.unit.sweep_service.sweep.test_cost import FIGURES, SPEC
from trainers.tasks.data_record import DataRecord, Groups, Problems

SEEDS = {"tune": [0, 1], "confirm": {"seeds": [10, 11, 12]}}


def spec(relevant: float = 0.02, confirm: dict[str, Any] | None = None, **changes: Any) -> SweepSpec:
    seeds = {"tune": [0, 1], "confirm": {"seeds": [10, 11, 12]} | (confirm or {})}
    return parse_spec(SPEC | {"seeds": seeds, "objective": {"relevant": relevant}} | changes)


def test_192_problems_show_a_difference_of_two_hundredths_and_191_do_not() -> None:
    # two configs with an sd of 0.1 each: 1.96 * 0.1 * sqrt(2 / n) is 0.02 at n = 192.1
    same = spec(confirm={"problems": "same"})
    assert problems_warning(same, 193) is None
    said = problems_warning(same, 192) or ""
    assert "confirm stage counts all of them" in said
    assert said.endswith("that two are alike within objective.relevant 0.02 takes about 193")


def test_half_of_the_problems_measure_the_confirm_stage() -> None:
    assert problems_warning(spec(), 2 * 193) is None
    said = problems_warning(spec(), 20) or ""
    assert "20 independent validation problems, of which the confirm stage counts half of them" in said
    assert f"below ±{1.96 * 0.1 * math.sqrt(2 / 10):.2g};" in said
    assert said.endswith("takes about 193 in that half")
    assert "all of them" in (problems_warning(spec(), 15) or "")  # too few for halves


def test_a_larger_relevant_difference_takes_fewer_problems() -> None:
    assert "takes about 31" in (problems_warning(spec(relevant=0.05), 20) or "")


HERE = "the report says at most AHEAD, BEHIND or ALIKE ON THESE PROBLEMS; to include others, "


def test_a_plan_says_where_the_words_will_be_about_these_problems_alone() -> None:
    def words(spec: SweepSpec) -> list[str]:
        return [text for text in plan_warnings(spec, None, guessed=False) if "ON THESE PROBLEMS" in text]

    assert words(spec()) == []
    passed = spec(objective={"metric": "eval/pass_at_k"})
    assert words(passed) == [
        f"objective.metric eval/pass_at_k: other validation problems are not counted, so {HERE}set objective.metric to "
        "eval/avg_at_k, a mean over problems, with 16 or more"
    ]
    assert not any("BETTER" in text for text in plan_warnings(passed, None, guessed=False))
    assert any("BETTER" in text for text in plan_warnings(spec(), None, guessed=False))
    assert words(spec(seeds={"tune": [0, 1]}, objective={"metric": "eval/pass_at_k"})) == []
    own = parse_spec(
        {"name": "own", "trainer": {"command": ["python3"], "steps": 9}, "space": {"lr": [1, 2]}, "seeds": SEEDS}
    )
    assert words(own) == [
        f"trainer: unless its evaluations have `problems`, other validation problems are not counted, and {HERE}give "
        "`problems`, 16 or more, in every evaluation (docs/own_trainer.md)"
    ]


def record(problems: int, groups: int) -> DataRecord:
    counted = Problems(problems=problems, sha256="")
    return DataRecord(training=counted, validation=counted, validation_groups=Groups(groups=groups, largest=5))


def test_problems_that_are_alike_are_told() -> None:
    said = groups_warning(spec(), record(80, 61)) or ""
    assert said.startswith("80 validation problems, 61 of them independent (up to 5 are alike)")
    assert "halves" not in said
    assert groups_warning(spec(), record(80, 80)) is None
    unknown = record(80, 61).model_copy(update={"validation_groups": None})
    assert groups_warning(spec(), unknown) is None
    assert "halves need 16, so" in (groups_warning(spec(), record(16, 15)) or "")
    assert "halves" not in (groups_warning(spec(), record(16, 16)) or "")
    assert "halves" not in (groups_warning(spec(confirm={"problems": "same"}), record(16, 15)) or "")


@pytest.mark.parametrize("changes", [{"seeds": {"tune": [0]}}, {"objective": {"metric": "eval/reward_mean"}}])
def test_without_a_confirm_stage_or_right_answers_nothing_is_said(changes: Any) -> None:
    assert problems_warning(spec(**changes), 4) is None


@pytest.mark.parametrize(
    ("values", "told"),
    [([0], "has one point, which is all"), ([0, 1], "has 2 points, which are all"), ([0, 0.5, 1], "")],
)
def test_a_search_for_more_configs_than_there_are_is_told_so(values: list[float], told: str) -> None:
    drawn = spec(space={"loss.beta1": values}, search={"strategy": "random", "num_configs": 3}, seeds={"tune": [0, 1]})
    plan = make_plan(drawn, None)
    assert (f"search.num_configs 3: the space {told}" in " ".join(plan.warnings)) == bool(told)
    assert plan.configs == len(values) + len(plan.baselines)


def test_a_plan_with_a_probe_knows_the_number_of_problems() -> None:
    assert problems_warning(spec(), 10) in make_plan(spec(), None, Measured(FIGURES, 0.0)).warnings
    alike = FIGURES.model_copy(update={"validation_groups": 4})
    assert problems_warning(spec(), 4) in make_plan(spec(), None, Measured(alike, 0.0)).warnings
    assert not any("EQUIVALENT" in text for text in make_plan(spec(), None).warnings)
