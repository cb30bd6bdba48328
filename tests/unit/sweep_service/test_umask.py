"""Every program of ours makes files that only their owner can read."""

import os
import sys
from collections.abc import Iterator

import pytest

from sweep_service.cli import app
from sweep_service.runner import __main__ as runner


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def present_umask() -> int:
    value = os.umask(0)
    os.umask(value)
    return value


def test_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["sweeps", "--version"])
    with pytest.raises(SystemExit):
        app.main()
    assert present_umask() == 0o077


def test_of_a_runner(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_pipe: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "follow_parent", stop)
    monkeypatch.setattr(sys, "argv", ["runner", "swp_1", "1"])
    with pytest.raises(KeyboardInterrupt):
        runner.main()
    assert present_umask() == 0o077
