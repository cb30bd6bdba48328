import statistics
from math import exp, nan

import pytest
import torch

from tests.unit.trainers.two_processes import ONE_PROCESS, in_both
from trainers.record.metrics import STEP_SECTIONS
from trainers.record.rollout_stats import NO_ENGINE, engine_stats, rollout_stats
from trainers.tasks.base import Completion, Judgement


def judged(
    reward: float | None, tokens: int = 1, answer: str | None = None, truncated: bool = False, timed_out: bool = False
) -> tuple[Completion, Judgement]:
    return Completion("", tokens, truncated), Judgement(reward, reward == 1.0, answer, timed_out)


MIXED = [
    judged(1.0, 3, "7"),
    judged(0.0, 5, "8"),
    judged(0.0, 10, "8", truncated=True),
    judged(None, 4, timed_out=True),
]
RIGHT = [judged(1.0, 1, "2")] * 3 + [judged(None, 20, "9")]
WRONG = [judged(0.0, 2, None)] * 4


def test_rewards_are_of_judged_completions() -> None:
    metrics = rollout_stats([MIXED, RIGHT, WRONG], 3, ONE_PROCESS)
    rewards = [1, 0, 0, 1, 1, 1, 0, 0, 0, 0]
    assert metrics["reward/mean"] == metrics["reward/correct_share"] == 0.4
    assert metrics["reward/std"] == pytest.approx(statistics.stdev(rewards))
    assert metrics["grader/failed_share"] == 2 / 12
    assert metrics["grader/timeout_share"] == 1 / 12


def test_a_reward_need_not_be_one_to_be_of_a_right_completion() -> None:
    pair = Completion("", 1, truncated=False), Judgement(0.5, correct=True)
    metrics = rollout_stats([[pair, judged(0.0)]], 1, ONE_PROCESS)
    assert (metrics["reward/mean"], metrics["reward/correct_share"]) == (0.25, 0.5)


def test_groups_are_counted_by_their_judged_completions() -> None:
    metrics = rollout_stats([MIXED, RIGHT, WRONG, WRONG, WRONG], 10, ONE_PROCESS)
    assert metrics["group/zero_spread_share"] == 4 / 5
    assert metrics["group/all_right_share"] == 1 / 5
    assert metrics["group/all_wrong_share"] == 3 / 5
    assert metrics["group/distinct_answers"] == (2 + 1 + 0 + 0 + 0) / 5
    assert metrics["sampling/groups_generated"] == 2


def test_a_group_without_a_reward_is_neither_right_nor_wrong_and_has_no_spread() -> None:
    metrics = rollout_stats([[judged(None)] * 2], 1, ONE_PROCESS)
    assert metrics["group/zero_spread_share"] == 1
    assert metrics["group/all_right_share"] == metrics["group/all_wrong_share"] == 0
    assert metrics["reward/mean"] is metrics["reward/std"] is metrics["completion/length_correct"] is None


def test_lengths_by_what_the_completions_are() -> None:
    metrics = rollout_stats([MIXED, RIGHT], 2, ONE_PROCESS)
    assert metrics["completion/length_mean"] == (3 + 5 + 10 + 4 + 3 * 1 + 20) / 8
    assert metrics["completion/length_ended"] == (3 + 5 + 4 + 3 * 1 + 20) / 7
    assert metrics["completion/length_correct"] == (3 + 3 * 1) / 4
    assert metrics["completion/length_incorrect"] == (5 + 10) / 2
    assert metrics["completion/truncated_share"] == 1 / 8


def test_equal_rewards_have_no_spread_in_spite_of_rounding() -> None:
    assert rollout_stats([[judged(0.1)] * 7], 1, ONE_PROCESS)["reward/std"] == pytest.approx(0, abs=1e-8)


def test_two_judged_completions_have_a_spread_and_one_has_none() -> None:
    one, two = ([judged(1.0), *([judged(0.0)] * more), judged(None)] for more in (0, 1))
    assert rollout_stats([one], 1, ONE_PROCESS)["reward/std"] is None
    assert rollout_stats([two], 1, ONE_PROCESS)["reward/std"] == pytest.approx(statistics.stdev([1, 0]))


def test_without_completions_nothing_is_defined() -> None:
    assert set(rollout_stats([], 0, ONE_PROCESS).values()) == {None}


def test_two_processes_give_the_metrics_of_all_groups() -> None:
    shares = [([MIXED], 1), ([RIGHT, WRONG], 4)]
    together = in_both(lambda process: rollout_stats(*shares[process.process_index], process))
    assert together == [rollout_stats([MIXED, RIGHT, WRONG], 5, ONE_PROCESS)] * 2


def test_sums_over_processes_keep_their_digits() -> None:
    """In float32, as tensors are by default, the larger of these lengths would be another one."""
    shares = [[[judged(1.0, 2**24)] * 2], [[judged(0.0, 1)] * 2]]
    metrics, _ = in_both(lambda process: rollout_stats(shares[process.process_index], 1, process))
    assert metrics["completion/length_mean"] == (2**24 + 1) / 2


def test_each_of_several_rewards_has_its_own_mean_over_what_it_judged() -> None:
    def both(first: float | None, second: float | None) -> tuple[Completion, Judgement]:
        known = first is not None and second is not None
        total = first + second if first is not None and second is not None else None
        return Completion("", 1, truncated=False), Judgement(total, known, parts={"math": first, "brief": second})

    group = [both(1.0, 0.5), both(0.0, None), both(1.0, 0.1), both(None, 0.3)]
    metrics = rollout_stats([group], 1, ONE_PROCESS, ["math", "brief"])
    assert metrics["reward/of_math"] == pytest.approx(2 / 3)
    assert metrics["reward/of_brief"] == pytest.approx(0.3)
    assert metrics["reward/mean"] == pytest.approx(1.3)
    nothing = rollout_stats([[both(None, 0.3)]], 1, ONE_PROCESS, ["math", "brief"])
    assert (nothing["reward/of_math"], nothing["reward/of_brief"]) == (None, 0.3)


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


def test_two_processes_give_one_mean_of_the_engine() -> None:
    halves = [(TRAINER[row : row + 1], ENGINE[row : row + 1], MASK[row : row + 1]) for row in range(2)]
    together = in_both(lambda process: engine_stats(*halves[process.process_index], 1.8, process))
    assert together == [pytest.approx(engine_stats(TRAINER, ENGINE, MASK, 1.8, ONE_PROCESS))] * 2


def test_without_an_engine_the_names_are_there() -> None:
    assert NO_ENGINE.keys() == STEP_SECTIONS["Engine"].keys()
    assert engine_stats(TRAINER, torch.full_like(ENGINE, nan), MASK, 2.0, ONE_PROCESS) == NO_ENGINE
