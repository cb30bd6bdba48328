"""Sweeps that do what their report advises: the short form of bench/validate_purchases.py."""

import pytest

from bench.validate_purchases import KINDS, MOST_SEEDS, Bought, Kind, line, run_batch


@pytest.mark.hunt
@pytest.mark.parametrize("kind", [KINDS[0], KINDS[-1]], ids=["after a look", "without a confirm stage"])
def test_bought_seeds_show_the_difference_as_often_as_promised(kind: Kind) -> None:
    found = run_batch(kind, 0, 0, 60)
    bought = [one for one in found if isinstance(one, Bought)]
    assert len(bought) >= 12
    assert all(kind.first + one.seeds <= MOST_SEEDS and one.low < one.promised < one.high for one in bought)
    text, kept = line(kind, found)
    assert kept
    assert text.count("|") == 9


def test_a_promise_that_is_not_kept_is_noticed() -> None:
    few = [Bought(6, 0.8, 0.5, 0.9, better=number < 60) for number in range(100)]
    assert not line(KINDS[0], few)[1]
    assert line(KINDS[0], [*few[:60], *few[:20]])[1]
