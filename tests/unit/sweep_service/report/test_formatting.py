from sweep_service.report.formatting import NOTHING, count, duration, estimate, interval, no_more, number, signed


def test_differences_carry_their_sign_and_zero_none() -> None:
    assert [signed(value) for value in (0.0123, -0.004, -0.0001)] == ["+0.012", "-0.004", "0.000"]
    assert interval(-0.03, 0.02, sign=True) == "[-0.030, +0.020]"
    assert interval(None, None) == ""


def test_numbers_intervals_and_counts_are_whole() -> None:
    assert [number(value) for value in (0.8421, -0.1, -0.0001, None)] == ["0.842", "-0.100", "0.000", NOTHING]
    assert interval(0.81, 0.874) == "[0.810, 0.874]"
    assert [interval(0.81, None), interval(None, 0.874)] == ["", ""]
    assert estimate(0.842, 0.81, 0.874) == "0.842 [0.810, 0.874]"
    assert estimate(0.012, -0.03, 0.054, sign=True) == "+0.012 [-0.030, +0.054]"
    assert estimate(0.842, None, None) == "0.842"
    assert [count(1, "seed"), count(2, "seed"), count(2, "axis", "axes")] == ["1 seed", "2 seeds", "2 axes"]


def test_no_bound_is_rounded_onto_zero_and_no_interval_onto_a_point() -> None:
    assert estimate(0.001, 0.0006, 0.0014, sign=True) == "+0.0010 [+0.0006, +0.0014]"
    assert estimate(0.2, 0.00004, 0.4, sign=True) == "+0.200 [+0.00004, +0.400]"
    assert estimate(0.2, -0.0004, 0.4) == "0.200 [-0.0004, 0.400]"
    assert estimate(0.0, 0.0, 0.03) == "0.000 [0.000, 0.030]"
    assert estimate(0.02, 0.0195, 0.0205) == "0.0200 [0.0195, 0.0205]"
    assert estimate(1e-12, -1e-13, 2e-12) == "0.000 [0.000, 0.000]"  # rounding of equal results
    assert interval(-0.0, 0.5) == "[0.000, 0.500]"


def test_what_holds_at_least_is_never_rounded_away_from_zero() -> None:
    assert [no_more(value) for value in (0.0519, -0.0519, 0.00047, 0.0)] == ["0.051", "-0.051", "0.0004", "0.000"]


def test_short_times_are_in_seconds_or_minutes() -> None:
    hours = [0.0, 0.0098, 0.00981 / 60, 0.25, 1.0, 12.345, 1234.5]
    assert [duration(value) for value in hours] == ["0 s", "35.3 s", "0.589 s", "15 min", "1 h", "12.3 h", "1234 h"]
