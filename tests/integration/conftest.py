"""An empty store, and a local Ray for the tests that need one, started on first use."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from sweep_service.settings import Settings
from sweep_service.store import Store, open_store
from tests.migrated import migrated
from tests.sweep_stack import ray_head


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """The settings of an installation below the test's own folder."""
    return Settings(home=tmp_path)


@pytest.fixture
def store(settings: Settings) -> Iterator[Store]:
    """The installation's store, empty."""
    store = open_store(migrated(settings.database_url))
    yield store
    store.close()


@pytest.fixture(scope="session")
def ray(tmp_path_factory: pytest.TempPathFactory, forks: Mapping[str, str]) -> Iterator[Mapping[str, str]]:
    """The variables with which runners reach a Ray of 2 CPUs and 8 logical GPUs."""
    with ray_head(tmp_path_factory.mktemp("r"), cpus=2, gpus=8, **forks) as environment:
        yield environment | forks
