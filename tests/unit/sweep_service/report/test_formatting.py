from sweep_service.report.formatting import interval, signed


def test_differences_carry_their_sign_and_zero_none() -> None:
    assert [signed(value) for value in (0.0123, -0.004, -0.0001)] == ["+0.012", "-0.004", "0.000"]
    assert interval(-0.03, 0.02, sign=True) == "[-0.030, +0.020]"
    assert interval(None, None) == ""
