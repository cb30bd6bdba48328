"""Which values of columns and of a chat template a dataset's settings take."""

from typing import Any

import pytest
from pydantic import ValidationError

from trainers.config import DataConfig, HeldOutData, TrainingConfig, WordProblemsTask
from trainers.config.data_config import Range

OUTSIDE = "whole numbers have at most 64 bits: from -9223372036854775808 to 9223372036854775807"


@pytest.mark.parametrize("number", [-(2**63), -(2**62), 2**62, 2**63 - 1])
@pytest.mark.parametrize("settings", ["filter", "template_options"])
def test_whole_numbers_of_64_bits_are_taken(number: int, settings: str) -> None:
    given = DataConfig.model_validate({"template": "chat", settings: {"level": number}})
    assert getattr(given, settings) == {"level": (number,) if settings == "filter" else number}


@pytest.mark.parametrize("number", [-(2**63) - 1, 2**63])
@pytest.mark.parametrize("settings", ["filter", "template_options"])
def test_larger_ones_are_refused_with_the_bounds(number: int, settings: str) -> None:
    with pytest.raises(ValidationError, match=OUTSIDE):
        DataConfig.model_validate({"template": "chat", settings: {"level": number}})


@pytest.mark.parametrize(
    ("value", "values"),
    [(3, (3,)), (0.5, (0.5,)), ("x", ("x",)), (True, (True,)), ([1, "x"], (1, "x")), ([2**62, 1.5], (2**62, 1.5))],
)
def test_one_value_stands_for_the_list_of_it(value: Any, values: tuple[Any, ...]) -> None:
    assert DataConfig(filter={"level": value}).filter == {"level": values}


def test_a_filter_holds_something() -> None:
    for empty in ([], {}, {"min": None}):
        with pytest.raises(ValidationError):
            DataConfig.model_validate({"filter": {"level": empty}})


def test_a_range_has_a_bound_or_two_in_order() -> None:
    assert DataConfig.model_validate({"filter": {"level": {"min": 2}}}).filter == {"level": Range(min=2)}
    assert Range(min=2, max=2).min == 2
    with pytest.raises(ValidationError, match="no number is from 3 to 2; swap min and max"):
        Range(min=3, max=2)
    with pytest.raises(ValidationError, match="a range needs min, max or both"):
        Range()


def test_a_range_is_told_by_its_bounds() -> None:
    assert str(Range(min=1, max=2.5)) == "a number of at least 1 and of at most 2.5"
    assert str(Range(max=2.5)) == "a number of at most 2.5"
    assert str(Range(min=0)) == "a number of at least 0"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"answer_boxed": True, "answer_after": "####"}, "are two ways to find the answer"),
        ({"template_options": {"a": 1}}, "template_options are for the chat template"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        DataConfig.model_validate(settings)
    for name in settings:
        DataConfig.model_validate({name: settings[name], "template": "chat"})


def test_the_name_of_a_dataset_stands_for_its_data() -> None:
    assert WordProblemsTask.model_validate({"data": "sums"}).data == DataConfig(ref="sums")
    assert WordProblemsTask.model_validate({"data": {"ref": "sums", "split": "b"}}).data.split == "b"


@pytest.mark.parametrize("also", [{"ref": "sums"}, {"filter": {"level": 1}}, {"split": "test"}])
def test_a_benchmark_to_validate_on_is_all_there_is_to_say(also: dict[str, Any]) -> None:
    HeldOutData.model_validate({"benchmark": "aime"})
    HeldOutData.model_validate({"benchmark": "aime", "split": "validation", "problems": 3})
    HeldOutData.model_validate(also)
    with pytest.raises(ValidationError, match="benchmark aime has neither ref nor split nor filter"):
        HeldOutData.model_validate({"benchmark": "aime", **also})


def test_a_chat_needs_a_model_that_knows_one() -> None:
    chat = {"name": "word_problems", "data": {"template": "chat"}}
    TrainingConfig.model_validate({"task": chat, "model": {"name": "pretrained", "model": "acme"}})
    TrainingConfig.model_validate({"task": {"name": "word_problems"}})
    with pytest.raises(ValidationError, match=r"model tiny_qwen2 is made from scratch; use raw"):
        TrainingConfig.model_validate({"task": chat})
