"""What runs of the trainer share."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tiny policies of runs lie, once one has taught them, and their initial evaluations."""
    return tmp_path_factory.mktemp("cache")
