"""An installation of its own for each acceptance test."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from sweep_service.settings import Settings
from tests.sweep_stack import unused_port


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings of the installation, also in the environment of what the test starts."""
    settings = Settings(home=tmp_path / "h", port=unused_port())
    for name, value in settings.environment().items():
        monkeypatch.setenv(name, value)
    return settings


@pytest.fixture
def forked_sweeps(forks: Mapping[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have runners and trainers of what the test starts forked, where their own start is not what it tests."""
    for name, value in forks.items():
        monkeypatch.setenv(name, value)
