"""Fixtures of trainer runs: a cache that they share, and forks for the trainers that read data for a plan."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.fork_server import forked


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache for all runs of a session: the first that needs a tiny policy or an initial evaluation makes it."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def _forked_previews(forks: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have plans fork the real trainer that reads their data, and not start an interpreter for it."""
    for name, value in forked(forks, "trainers").items():
        monkeypatch.setenv(name, value)
