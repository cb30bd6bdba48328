"""Positions of models that look each one up: counted from a sequence's first token."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from trainers.policy.load_policy import give_positions

MASK = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])


class Model(torch.nn.Module):
    """Returns the keyword arguments of its call; `rope` is what its configuration says of rotary positions."""

    def __init__(self, rope: Any) -> None:
        super().__init__()
        self.config = SimpleNamespace(get_text_config=lambda: SimpleNamespace(rope_parameters=rope))

    def forward(
        self, input_ids: Tensor | None = None, attention_mask: Any = None, position_ids: Tensor | None = None
    ) -> dict[str, Any]:
        return {"input_ids": input_ids, "attention_mask": attention_mask, "position_ids": position_ids}


class Without(torch.nn.Module):
    """Takes no positions."""

    config = SimpleNamespace(get_text_config=SimpleNamespace)

    def forward(self, attention_mask: Tensor) -> str:
        return "called"


def positions(**given: Any) -> list[list[int]] | None:
    model = Model(None)
    give_positions(model)
    answer = model(**given)
    for name, value in given.items():
        assert answer[name] is value
    return None if answer["position_ids"] is None else answer["position_ids"].tolist()


def test_they_begin_behind_padding() -> None:
    assert positions(attention_mask=MASK) == [[0, 0, 0, 1], [0, 1, 2, 3]]
    assert positions(attention_mask=MASK, input_ids=MASK) == [[0, 0, 0, 1], [0, 1, 2, 3]]


def test_they_are_those_of_the_tokens_that_are_new() -> None:
    assert positions(attention_mask=MASK, input_ids=MASK[:, :1]) == [[1], [3]]


@pytest.mark.parametrize("mask", [None, torch.ones(1, 1, 2, 2), {"full_attention": MASK}])
def test_without_a_mask_of_sequences_the_model_counts_itself(mask: Any) -> None:
    assert positions(attention_mask=mask) is None


def test_positions_that_are_given_stay() -> None:
    assert positions(attention_mask=MASK, position_ids=MASK + 5) == (MASK + 5).tolist()


def test_rotary_models_and_those_without_positions_are_left_alone() -> None:
    rotary, without = Model({"rope_theta": 1e4}), Without()
    give_positions(rotary)
    give_positions(without)
    assert rotary(attention_mask=MASK)["position_ids"] is None
    assert without(attention_mask=MASK) == "called"
