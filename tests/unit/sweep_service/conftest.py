"""The store on each database: SQLite always, PostgreSQL when SWEEPS_TEST_POSTGRES_URL names an empty one."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from sweep_service.store import Store, open_store

POSTGRES_URL = os.environ.get("SWEEPS_TEST_POSTGRES_URL", "")


@pytest.fixture(params=["sqlite", "postgresql"] if POSTGRES_URL else ["sqlite"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/store.db"
    engine = create_engine(POSTGRES_URL)
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    engine.dispose()
    return POSTGRES_URL


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    """An empty store."""
    store = open_store(database_url)
    yield store
    store.close()
