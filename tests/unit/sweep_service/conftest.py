"""An empty store, on SQLite or, for tests marked `both_databases`, on PostgreSQL, too; a port that a neighbour has."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweep_service.processes import port_owners
from sweep_service.store import Store, open_store
from tests.migrated import migrated
from tests.postgres import AVAILABLE, emptied, postgres


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A PostgreSQL server."""
    if not AVAILABLE:
        pytest.skip("NO POSTGRESQL IS INSTALLED HERE: the store was tested on SQLite alone")
    with postgres() as url:
        yield url


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that is marked `both_databases` on PostgreSQL, too, in `make test-all`."""
    if metafunc.definition.get_closest_marker("both_databases"):
        databases = ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)]
        metafunc.parametrize("database_url", databases, indirect=True)


@pytest.fixture
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    if getattr(request, "param", "sqlite") == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    return emptied(request.getfixturevalue("postgres_url"))


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    """An empty store."""
    store = open_store(migrated(database_url))
    yield store
    store.close()


@pytest.fixture
def strangers_port(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A port that is listened on, by user 65533 if one believes the kernel's table."""
    table = tmp_path_factory.mktemp("kernel") / "tcp"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        queues = "00000000:00000000 00:00000000 00000000"
        table.write_text(f"HEAD\n 0: 00000000:{port:04X} 00000000:0000 0A {queues} 65533 0 1 1 0 100 0 0 10 0\n")
        monkeypatch.setattr(port_owners, "_TABLES", (table,))
        yield port
