"""The check of log-probabilities against values written down, and what it says of which distance."""

from collections.abc import Mapping
from math import log, nan

import pytest
import torch
from torch import Tensor

from trainers.errors import ConfigError
from trainers.rollouts.logprob_check import (
    REMARKABLE_NATS,
    TOLERANCE_NATS,
    Gap,
    chosen_prompts,
    engine_warning,
    gap,
    generated_logprobs,
    judged,
    padding_gap,
    scored,
    worst,
)

PROMPTS, COMPLETIONS = [[3], [4, 5]], [[6, 7, 8], [9]]


def test_the_shortest_and_the_longest_prompts_are_checked() -> None:
    prompts = [[9 - length] * length for length in (5, 2, 9, 1, 4, 7, 3)]
    assert [len(prompt) for prompt in chosen_prompts(prompts)] == [1, 2, 7, 9]
    assert [len(prompt) for prompt in chosen_prompts(prompts[:4])] == [1, 2, 5, 9]
    assert [len(prompt) for prompt in chosen_prompts(prompts[:3])] == [2, 5, 9]


def test_scores_are_of_a_batch_padded_on_both_sides() -> None:
    seen = dict[str, Tensor]()

    def forward(rows: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        seen.update(rows)
        return -rows["completion_ids"].float(), torch.empty(0)

    scores_BT, mask_BT = scored(PROMPTS, COMPLETIONS, 1, forward)
    assert {name: rows.tolist() for name, rows in seen.items()} == {
        "prompt_ids": [[1, 1, 3], [1, 4, 5]],
        "prompt_mask": [[0, 0, 1], [0, 1, 1]],
        "completion_ids": [[6, 7, 8], [9, 1, 1]],
        "completion_mask": [[1, 1, 1], [1, 0, 0]],
    }
    assert scores_BT.tolist() == [[-6, -7, -8], [-9, -1, -1]]
    assert mask_BT.tolist() == [[True] * 3, [True, False, False]]


def test_the_gap_of_padding_is_to_each_sequence_alone() -> None:
    """Each token of this policy depends on how many tokens stand before the first completion, padding or not."""
    alone = list[dict[str, list[list[int]]]]()

    def forward(rows: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        alone.append({name: rows[name].tolist() for name in rows})
        return rows["completion_ids"].float() + rows["prompt_ids"].size(1), torch.empty(0)

    distance = padding_gap(PROMPTS, COMPLETIONS, 1, forward)
    assert distance == Gap(mean=(3 * 2 + 1 * 1) / 4, largest=2.0)
    assert alone[1:] == [
        {"prompt_ids": [p], "completion_ids": [c], "prompt_mask": [[1] * len(p)], "completion_mask": [[1] * len(c)]}
        for p, c in zip(PROMPTS, COMPLETIONS, strict=True)
    ]


def test_generation_draws_by_its_logits_at_the_temperature() -> None:
    logits = [torch.tensor([[0.0, 2 * log(3)], [0.0, 2 * log(7)]]), torch.tensor([[2 * log(4), 0.0], [9.0, 9.0]])]
    further = torch.tensor([[5.0, 5.0], [5.0, 5.0]])  # behind the end of all completions
    logprobs_BT = generated_logprobs([*logits, further], [[1, 0], [1]], 2.0)
    assert logprobs_BT.flatten().tolist() == pytest.approx([log(3 / 4), log(4 / 5), log(7 / 8), 0])


def test_a_gap_has_the_mean_and_the_largest_difference_of_the_masked_tokens() -> None:
    first_BT, second_BT = (
        torch.tensor([[1.0, 2.0, 9.0], [0.0, -3.0, 1.0]]),
        torch.tensor([[1.5, 2.0, 0.0], [1.0, -1.0, 1.0]]),
    )
    mask_BT = torch.tensor([[True, True, False], [True, True, False]])
    assert gap(first_BT, second_BT, mask_BT) == Gap(mean=(0.5 + 0 + 1 + 2) / 4, largest=2.0)


def test_small_gaps_keep_their_digits() -> None:
    """The difference of these float32 numbers is exact; its mean over three of them is not."""
    tiny_BT = torch.tensor([[2.0**-24, 0.0, 0.0]])
    assert gap(tiny_BT, torch.zeros(1, 3), torch.ones(1, 3).bool()).mean == 2.0**-24 / 3


def test_the_worst_gap_is_the_largest_or_none_that_is_a_number() -> None:
    small, large, broken = Gap(0.9, 1.0), Gap(0.1, 2.0), Gap(nan, nan)
    assert worst([small, None, large]) is large
    assert worst([large, broken, small]) is broken
    assert worst([None, None]) is worst([]) is None


def test_where_arithmetic_is_the_same_only_rounding_is_allowed() -> None:
    at, above = Gap(0.0, TOLERANCE_NATS), Gap(0.0, TOLERANCE_NATS * 1.01)
    assert judged(at, at, exact=True) is judged(at, None, exact=True) is judged(None, None, exact=True) is None
    with pytest.raises(ConfigError, match=r"differ by up to 0\.00101 nats from those in generation \("):
        judged(at, above, exact=True)
    with pytest.raises(ConfigError, match=r"differ by up to 0\.00101 nats from those without padding \("):
        judged(above, None, exact=True)
    with pytest.raises(ConfigError, match="nan nats"):
        judged(Gap(nan, nan), at, exact=True)


def test_where_arithmetic_differs_a_remarkable_mean_is_a_warning() -> None:
    at, above = Gap(REMARKABLE_NATS, 9.0), Gap(REMARKABLE_NATS * 2, 9.0)
    assert judged(at, at, exact=False) is judged(at, None, exact=False) is None
    warning = judged(above, at, exact=False)
    assert warning is not None
    assert warning["code"] == "LOGPROBS_DIFFER"
    assert warning["evidence"] == {"without_padding": REMARKABLE_NATS * 2}
    assert "differ by 0.1 nats a token from those without padding, which" in warning["message"]
    both = judged(above, Gap(nan, nan), exact=False)
    assert both is not None
    assert list(both["evidence"]) == ["without_padding", "in_generation"]


def test_an_engine_is_remarked_from_the_same_distance_on() -> None:
    assert engine_warning(None) is engine_warning(REMARKABLE_NATS) is None
    warning = engine_warning(REMARKABLE_NATS * 2)
    assert warning is not None
    assert warning["evidence"] == {"of_vLLM": REMARKABLE_NATS * 2}
