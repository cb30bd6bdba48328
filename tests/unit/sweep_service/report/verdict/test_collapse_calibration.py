"""Sweeps whose runs collapse or crash, drawn from known truths: what the verdict claims is rarely false."""

import pytest

from bench.validate_collapse import rows, run_batch, share
from tests.unit.sweep_service.report.verdict.test_calibration import RUNS


@pytest.mark.hunt
@pytest.mark.parametrize("row", [row for row in rows() if row.seeds in (4, 6)][::2], ids=lambda row: row.name)
def test_claims_are_rarely_false(row: object) -> None:
    seen = run_batch(row, 0, 0, RUNS)  # type: ignore[arg-type]
    assert share([one.false for one in seen]) <= 0.10
    assert share([one.covered for one in seen if one.covered is not None]) >= 0.85
    assert all(one.bound_holds for one in seen)


def test_a_config_that_never_collapses_is_found() -> None:
    row = next(row for row in rows() if "never" in row.name and row.seeds == 6)
    assert share([one.better for one in run_batch(row, 0, 0, 20)]) >= 0.9
