"""Sweeps that do what their report advises: the short form of bench/validate_purchases.py."""

import numpy as np
import pytest

from bench.validate_purchases import KINDS, MOST_SEEDS, Bought, Kind, Lapsing, line, run_batch


@pytest.mark.hunt
@pytest.mark.parametrize("kind", [KINDS[0], KINDS[-1]], ids=["after a look", "without a confirm stage"])
def test_bought_seeds_show_the_difference_as_often_as_promised(kind: Kind) -> None:
    found = run_batch(kind, 0, 0, 60)
    bought = [one for one in found if isinstance(one, Bought)]
    assert len(bought) >= 12
    assert all(kind.first + one.seeds <= MOST_SEEDS and one.low < one.promised < one.high for one in bought)
    text, kept = line(kind, found)
    assert kept
    assert text.count("|") == 10


def test_a_promise_that_is_not_kept_is_noticed() -> None:
    few = [Bought(6, 0.8, 0.5, 0.9, shown=number < 60, ahead=True) for number in range(100)]
    assert not line(KINDS[0], few)[1]
    assert line(KINDS[0], [*few[:60], *few[:20]])[1]


def test_where_a_lower_kind_of_runs_is_unseen_the_low_end_is_the_promise() -> None:
    kind = next(kind for kind in KINDS if isinstance(kind.world.world, Lapsing))
    few = [Bought(6, 0.8, 0.5, 0.9, shown=number < 60, ahead=False) for number in range(100)]
    assert line(kind, few)[1]
    assert not line(kind, few[50:])[1]


def test_lower_runs_come_at_their_rate() -> None:
    arms = Lapsing(0, unit=0.001).deal(np.random.default_rng(0))
    values = arms.train(np.random.default_rng(1), range(11), 400).values_AS
    assert (values < 0.55).mean() == pytest.approx(0.1, abs=0.02)
    assert values.min() == pytest.approx(0.5, abs=0.02)
