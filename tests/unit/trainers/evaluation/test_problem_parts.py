from hashlib import sha256
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainers.evaluation.problem_counts import problem_name
from trainers.evaluation.problem_parts import MIN_PROBLEMS, problem_group, split_problems
from trainers.tasks.base import Problem

NAMES = [problem_name(Problem(f"{number}=", str(number))) for number in range(200)]
STORED_NAMES = ["9b902aaca92d5fec", "950484816f046b86"]
STORED_HALF = [0, 1, 6, 7, 9, 11, 13, 14]  # of the first 16


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


def test_problems_without_a_group_keep_the_names_and_halves_that_stored_sweeps_have() -> None:
    assert NAMES[:2] == STORED_NAMES
    assert split_problems(NAMES[:16])["confirm_part"] == STORED_HALF


def test_a_group_of_problems_lies_in_one_half_and_counts_as_one() -> None:
    family = [problem_name(Problem(f"{n} apples", "7", group="apples")) for n in range(30)]
    assert {problem_group(name) for name in family} == {sha256(b"apples").hexdigest()[:12]}
    assert len(set(family)) == 30
    assert split_problems([*family, *NAMES[: 2 * MIN_PROBLEMS - 2]]) == {}
    names = [*NAMES[: 2 * MIN_PROBLEMS - 1], *family]
    halves = [[names[index] for index in half] for half in split_problems(names).values()]
    assert sorted(len(set(family) & set(half)) for half in halves) == [0, 30]
    assert [len({*map(problem_group, half)}) for half in halves] == [MIN_PROBLEMS, MIN_PROBLEMS]


def test_one_prompt_is_one_group_whatever_the_answer() -> None:
    one, other = (problem_name(Problem("1+1=", answer)) for answer in ("2", "3"))
    assert one != other
    assert problem_group(one) == problem_group(other) == problem_group(f"{one}#1")
