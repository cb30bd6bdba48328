import itertools
import math
import random
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from trainers.config import EvaluationConfig, ExpressionsTask
from trainers.evaluate import Completion, evaluate, own_random_state, pass_at_k, standard_error
from trainers.tasks import Expressions


@pytest.mark.parametrize(("samples", "right", "k"), [(5, 2, 3), (6, 0, 2), (6, 6, 1), (7, 3, 7), (4, 3, 2)])
def test_pass_at_k_is_the_share_of_subsets_with_a_right_sample(samples: int, right: int, k: int) -> None:
    subsets = list(itertools.combinations([True] * right + [False] * (samples - right), k))
    assert math.isclose(pass_at_k(samples, right, k), sum(map(any, subsets)) / len(subsets))


def test_standard_error_is_that_of_sampling_alone() -> None:
    assert standard_error([[1, 0, 1, 0], [1, 1, 1, 1]]) == pytest.approx(math.sqrt((1 / 3) / 4) / 2)
    assert standard_error([[1, 1], [0, 0]]) == 0.0  # problems differ, but sampling them again would change nothing
    assert standard_error([[1.0], [0.0]]) is None


def test_evaluation_counts_each_problem_equally_and_shows_different_problems() -> None:
    def sample(prompts: Sequence[str]) -> list[Completion]:
        """Right for the first half of each problem's samples if N is even, cut short always if N is 11."""
        return [
            Completion(f"{prompt[:-1]}+{0 if i % 4 < 2 and int(prompt[:-1]) % 2 == 0 else 1}", 4, prompt == "11=")
            for i, prompt in enumerate(prompts)
        ]

    task = Expressions(ExpressionsTask(smallest=2, largest=21))  # validates 6, 11, 16, 21
    result = evaluate(sample, task, EvaluationConfig(samples_per_problem=4, pass_k=2, shown_samples=5))
    assert result.metrics["eval/avg_at_k"] == 0.25
    assert result.metrics["eval/pass_at_k"] == pytest.approx((5 / 6) / 2)
    assert result.metrics["eval/truncated_share"] == 0.25
    assert result.metrics["eval/problems"] == 4
    assert [(sample["prompt"], sample["reward"]) for sample in result.samples] == [
        ("6=", 1.0),
        ("6=", 1.0),
        ("11=", 0.0),
        ("16=", 1.0),
        ("21=", 0.0),
    ]


def test_generators_are_seeded_inside_and_untouched_outside() -> None:
    def draw() -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), torch.rand(()).item()

    states = random.getstate(), torch.random.get_rng_state()
    with own_random_state(5):
        inside = draw()
    assert random.getstate() == states[0]
    assert torch.equal(torch.random.get_rng_state(), states[1])
    draw()
    with own_random_state(5):
        assert draw() == inside
