from pathlib import Path

from trainers.config import ExpressionsTask
from trainers.tasks import make_task
from trainers.tasks.base import prompt_at
from trainers.tasks.expressions import Expressions


def test_a_configuration_names_its_task(tmp_path: Path) -> None:
    assert isinstance(make_task(ExpressionsTask(), tmp_path), Expressions)


def test_the_stream_of_prompts_is_one_permutation_after_another() -> None:
    order = [prompt_at(position, 7, seed=3) for position in range(21)]
    assert [sorted(order[start : start + 7]) for start in (0, 7, 14)] == [list(range(7))] * 3
    assert order[:7] != order[7:14]
    assert order != [prompt_at(position, 7, seed=4) for position in range(21)]


def test_a_prompt_does_not_depend_on_which_were_asked_for_before() -> None:
    positions = list(range(70))
    assert [prompt_at(p, 7, 3) for p in reversed(positions)] == [prompt_at(p, 7, 3) for p in positions][::-1]
