"""What runs of the trainer share."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.fork_server import forked


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tiny policies of runs lie, once one has taught them, and their initial evaluations."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def _forked_previews(forks: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork the trainers that read data for a plan."""
    for name, value in forked(forks, "trainers").items():
        monkeypatch.setenv(name, value)
