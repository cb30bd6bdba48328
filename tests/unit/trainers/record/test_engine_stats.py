from math import exp, nan

import pytest
import torch

from tests.unit.trainers.two_processes import ONE_PROCESS, in_both
from trainers.record.engine_stats import NO_ENGINE, engine_stats
from trainers.record.metrics import STEP_SECTIONS

TRAINER = torch.tensor([[-1.0, -2.0, -3.0], [-0.5, -4.0, 7.0]])
ENGINE = torch.tensor([[-1.5, -1.9, nan], [-2.5, -4.0, 0.0]])
MASK = torch.tensor([[1, 1, 1], [1, 1, 0]])


def test_the_gap_is_over_tokens_whose_log_probability_the_engine_gave() -> None:
    metrics = engine_stats(TRAINER, ENGINE, MASK, None, ONE_PROCESS)
    assert metrics["engine/logprob_gap_mean"] == pytest.approx((0.5 + 0.1 + 2.0 + 0.0) / 4)
    assert metrics["engine/logprob_gap_max"] == pytest.approx(2.0)
    assert metrics["engine/weight_mean"] is metrics["engine/weight_cut_share"] is None


def test_weights_are_counted_as_they_are_cut() -> None:
    metrics = engine_stats(TRAINER, ENGINE, MASK, 1.8, ONE_PROCESS)
    assert metrics["engine/weight_cut_share"] == 1 / 4
    assert metrics["engine/weight_mean"] == pytest.approx((exp(0.5) + exp(-0.1) + 1.8 + 1) / 4)


def test_a_weight_just_at_the_cap_is_not_cut() -> None:
    same, mask = torch.tensor([[-1.0, -2.0]]), torch.ones(1, 2)
    assert engine_stats(same, same, mask, 1.0, ONE_PROCESS)["engine/weight_cut_share"] == 0.0


def test_two_processes_give_one_mean() -> None:
    halves = [(TRAINER[row : row + 1], ENGINE[row : row + 1], MASK[row : row + 1]) for row in range(2)]
    together = in_both(lambda process: engine_stats(*halves[process.process_index], 1.8, process))
    assert together == [pytest.approx(engine_stats(TRAINER, ENGINE, MASK, 1.8, ONE_PROCESS))] * 2


def test_without_an_engine_the_names_are_there() -> None:
    assert NO_ENGINE.keys() == STEP_SECTIONS["Engine"].keys()
    assert engine_stats(TRAINER, torch.full_like(ENGINE, nan), MASK, 2.0, ONE_PROCESS) == NO_ENGINE
