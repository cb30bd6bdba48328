import pytest

from sweep_service.report.formatting import interval, signed, value_text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (1.0, "1"), (0.5, "0.5"), (0.28, "0.28"), (2e-4, "2e-4"), (1.5e-5, "1.5e-5"), (480, "480"),
     (100.0, "100"), (-0.25, "-0.25"), (1 / 3, "0.3333"), (1e-3, "0.001"), (True, "True"), ("dapo", "dapo")],
)  # fmt: skip
def test_values_are_short(value: object, text: str) -> None:
    assert value_text(value) == text


def test_differences_carry_their_sign_and_zero_none() -> None:
    assert [signed(value) for value in (0.0123, -0.004, -0.0001)] == ["+0.012", "-0.004", "0.000"]
    assert interval(-0.03, 0.02, sign=True) == "[-0.030, +0.020]"
    assert interval(None, None) == ""
