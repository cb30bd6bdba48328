"""Nothing is left behind by answers that hang, crash or confuse: the short form of bench/grading.py."""

import pytest

from bench.grading import POISON, judge, questions
from trainers.grading.grader_process import MEMORY_KEPT_BYTES


@pytest.mark.long
def test_poison_costs_its_time_and_leaves_nothing_behind() -> None:
    asked = questions(5 * len(POISON), poison_share=0.2)
    cost = judge(asked, deadline_s=3.0)  # the first right answer that a new child judges may need half a second
    assert set(cost.seconds) == {*POISON, "honest"}
    assert cost.wrong == []
    assert cost.left == 0
    assert cost.files <= 0  # files of earlier tests may close meanwhile
    assert cost.counts.failed == 0
    assert 0 < cost.counts.timed_out <= len(POISON)
    assert cost.parent_bytes < 50 << 20
    assert cost.child_bytes < MEMORY_KEPT_BYTES
