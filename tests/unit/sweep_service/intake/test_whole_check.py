"""Every reason to refuse a spec comes at once, whichever check finds it."""

from pathlib import Path
from typing import Any

import pytest

from sweep_service.errors import InvalidSpec
from sweep_service.intake.whole_check import check_spec
from tests.unit.trainers.tasks.chats import add_dataset


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    rows = [{"problem": f"What is {n} and 1?", "answer": "many"} for n in range(20)]
    add_dataset(tmp_path, "sums", {"train": rows})
    return tmp_path


def refused(cache: Path, **changes: Any) -> dict[str, str]:
    raw = {"name": "a", "space": {"loss.beta1": [0, 1]}} | changes
    with pytest.raises(InvalidSpec) as refusal:
        check_spec(raw, cache)
    assert len(set(refusal.value.errors)) == len(refusal.value.errors)
    return {error.pointer: error.detail for error in refusal.value.errors}


WORDS = {"name": "word_problems", "data": "sums"}


def test_reasons_of_fields_catalog_and_reward_come_together(cache: Path) -> None:
    task = WORDS | {"data": {"ref": "sums", "prompt": "question"}, "apart_from": ["aime99"], "reward": "unheard-of"}
    found = refused(cache, training={"task": task, "steps": -1}, seeds={"tune": [0, 0]})
    places = ["seeds", "training/steps", "training/task/data/prompt", "training/task/apart_from"]
    assert list(found) == [f"/{place}" for place in [*places, "training/task/reward"]]
    assert "there is no reward 'unheard-of' on this machine; known are" in found["/training/task/reward"]


def test_each_reward_that_is_not_here_is_told_at_its_own_place(cache: Path) -> None:
    task = WORDS | {"reward": "exact", "further_rewards": {"nearnes": {}, "number": {}, "unheard-of": {}}}
    found = refused(cache, training={"task": task, "steps": -1})
    places = [f"/training/task/further_rewards/{name}" for name in ("nearnes", "unheard-of")]
    assert list(found) == ["/training/steps", *places]
    assert found[places[0]].startswith("there is no reward 'nearnes' on this machine")


def test_a_task_that_is_wrong_in_itself_is_not_looked_up(cache: Path) -> None:
    model = {"name": "pretrained", "model": "absent"}
    found = refused(cache, training={"task": WORDS | {"validation_every": 0}, "model": model})
    assert list(found) == ["/training/task/validation_every", "/training/model/model"]


def test_what_the_catalog_lacks_is_said_once(cache: Path) -> None:
    assert list(refused(cache, training={"task": WORDS | {"data": "absent"}})) == ["/training/task/data"]


def test_a_reward_that_is_not_installed_here_refuses_no_spec(cache: Path) -> None:
    spec = {"name": "a", "space": {"loss.beta1": [0, 1]}, "training": {"task": WORDS | {"reward": "unheard-of"}}}
    assert check_spec(spec, cache).name == "a"


@pytest.mark.parametrize("raw", [None, [], {"training": 3}, {"training": {"task": 3, "model": [1]}}])
def test_what_is_no_spec_has_no_other_reasons(cache: Path, raw: object) -> None:
    with pytest.raises(InvalidSpec):
        check_spec(raw, cache)
