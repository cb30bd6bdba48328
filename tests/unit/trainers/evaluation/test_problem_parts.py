from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainers.evaluation.problem_counts import problem_name
from trainers.evaluation.problem_parts import MIN_PROBLEMS, split_problems
from trainers.tasks.base import Problem

NAMES = [problem_name(Problem(f"{number}=", str(number))) for number in range(200)]


@given(st.lists(st.sampled_from(NAMES), min_size=2 * MIN_PROBLEMS, unique=True), st.randoms())
def test_halves_depend_on_the_problems_alone_and_differ_by_at_most_one(names: list[str], shuffled: Random) -> None:
    parts = split_problems(names)
    halves = {part: {names[index] for index in indices} for part, indices in parts.items()}
    assert sorted(parts["tune_part"] + parts["confirm_part"]) == list(range(len(names)))
    assert 0 <= len(halves["tune_part"]) - len(halves["confirm_part"]) <= 1
    shuffled.shuffle(names)
    assert {part: {names[index] for index in indices} for part, indices in split_problems(names).items()} == halves


def test_too_few_problems_have_no_halves() -> None:
    assert split_problems(NAMES[: 2 * MIN_PROBLEMS - 1]) == split_problems([]) == {}
    assert len(split_problems(NAMES[: 2 * MIN_PROBLEMS])["confirm_part"]) == MIN_PROBLEMS
    assert split_problems([NAMES[0]] * 100) == {}


@pytest.mark.parametrize("repeated", range(0, 20, 3))
def test_repetitions_of_a_problem_stay_together(repeated: int) -> None:
    names = [*NAMES[:20], NAMES[repeated]]
    assert any({repeated, 20} <= set(indices) for indices in split_problems(names).values())
