from types import SimpleNamespace

import pytest

from sweep_service.processes import vigil
from sweep_service.processes.vigil import Vigil


class Clock:
    """A clock of this module alone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(vigil, "time", SimpleNamespace(monotonic=lambda: self.now))

    def looks(self, watch: Vigil, times: int, step_s: float = 5.0) -> list[bool]:
        found = list[bool]()
        for _ in range(times):
            self.now += step_s
            found.append(watch.hangs())
        return found


def test_patience_ends_after_looks_without_life_and_one_sign_restores_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, alive = Clock(monkeypatch), [False]
    watch = Vigil(lambda: alive[0], patience_s=15, every_s=5)
    assert clock.looks(watch, 2) == [False, False]
    alive[0] = True
    assert clock.looks(watch, 1) == [False]
    alive[0] = False
    assert clock.looks(watch, 3) == [False, False, True]
    assert watch.lifeless_s == 15


def test_hours_in_which_nobody_looked_are_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    watch = Vigil(lambda: False, patience_s=15, every_s=5)
    assert clock.looks(watch, 2, step_s=36_000) == [False, False]
    assert clock.looks(watch, 4, step_s=1) == [False, False, False, False]  # too early for another look


def test_what_has_just_been_started_gets_more_patience_until_its_first_sign_of_life(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, alive = Clock(monkeypatch), [True]
    watch = Vigil(lambda: alive[0], patience_s=10, every_s=5, first_s=20)
    clock.looks(watch, 1)
    alive[0] = False
    watch.begin_anew()
    assert clock.looks(watch, 4) == [False, False, False, True]
    watch.begin_anew()
    alive[0] = True
    assert clock.looks(watch, 1) == [False]
    alive[0] = False
    assert clock.looks(watch, 2) == [False, True]


def test_life_that_somebody_else_has_seen_ends_the_patience_of_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    watch = Vigil(lambda: False, patience_s=10, every_s=5, first_s=20)
    clock.looks(watch, 1)
    watch.note_life()
    assert clock.looks(watch, 2) == [False, True]


def test_a_look_that_fails_counts_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)

    def fails() -> bool:
        raise OSError(24, "Too many open files")

    watch = Vigil(fails, patience_s=10, every_s=5)
    for _ in range(9):
        clock.now += 5
        with pytest.raises(OSError, match="Too many"):
            watch.hangs()
    assert watch.lifeless_s == 0
