import numpy as np
import pytest

from sweep_service.report.statistics.least_squares import fit


def test_a_line_is_fitted_with_its_share_of_the_variance() -> None:
    x = np.array([0.0, 1.0, 2.0, 3.0])
    found = fit(np.column_stack([np.ones(4), x]), np.array([1.0, 2.0, 4.0, 5.0]))
    assert found.beta == pytest.approx([0.9, 1.4])
    assert (found.rank, found.df, found.rss, found.total) == (2, 2, pytest.approx(0.2), pytest.approx(10.0))
    assert found.r2 == pytest.approx(0.98)
    assert found.variance == pytest.approx(0.1)
    assert found.scale(np.array([0.0, 1.0])) == pytest.approx(5**-0.5)  # of the slope: 1 / sqrt of x's sum of squares


def test_values_that_are_all_equal_have_no_variance_to_explain() -> None:
    found = fit(np.ones((3, 1)), np.full(3, 0.75))
    assert (found.r2, found.variance) == (0.0, None)
