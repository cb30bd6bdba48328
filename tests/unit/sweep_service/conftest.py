"""The store on each database: SQLite, and in `make test-all` PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sweep_service.store import Store, open_store
from tests.postgres import AVAILABLE, emptied, postgres


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A PostgreSQL server."""
    if not AVAILABLE:
        pytest.skip("NO POSTGRESQL IS INSTALLED HERE: the store was tested on SQLite alone")
    with postgres() as url:
        yield url


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    return emptied(request.getfixturevalue("postgres_url"))


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    """An empty store."""
    store = open_store(database_url)
    yield store
    store.close()
