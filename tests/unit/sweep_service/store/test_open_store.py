"""Opening the store: the schema that the migrations make, databases that are away, and those of other versions."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, inspect

from sweep_service.store import DatabaseAway, DatabaseUnfit, Store, open_store, tables
from sweep_service.store.database import open_engine, upgrade, writing
from tests import stored_sweeps as sweeps
from tests.postgres import emptied
from tests.sweep_stack import unused_port
from tests.waiting import in_threads


def described(engine: Engine) -> dict[str, Any]:
    """Return each table's columns, with their places, and its keys, indexes and checks, by table and name."""
    seen, parts = inspect(engine), dict[str, Any]()
    for table in set(seen.get_table_names()) - {"alembic_version"}:
        for place, column in enumerate(seen.get_columns(table)):
            parts[f"{table}.{column['name']}"] = (place, column | {"type": str(column["type"])})
        parts[f"primary key of {table}"] = seen.get_pk_constraint(table)
        parts[f"foreign keys of {table}"] = sorted(seen.get_foreign_keys(table), key=repr)
        parts[f"unique in {table}"] = sorted(seen.get_unique_constraints(table), key=repr)
        parts[f"indexes of {table}"] = sorted(seen.get_indexes(table), key=repr)
        parts[f"checks of {table}"] = seen.get_check_constraints(table)
    return parts


@pytest.mark.both_databases
def test_the_migrations_make_exactly_the_tables(database_url: str) -> None:
    engine = open_engine(database_url)
    upgrade(engine)
    migrated = described(engine)
    tables.metadata.drop_all(engine)
    tables.metadata.create_all(engine)
    expected = described(engine)
    assert migrated.keys() == expected.keys()
    assert [(migrated[part], expected[part]) for part in expected if migrated[part] != expected[part]] == []
    engine.dispose()


@pytest.mark.both_databases
def test_several_may_open_and_migrate_at_once(database_url: str) -> None:
    stores = in_threads(4, lambda _: open_store(database_url))
    assert [type(store) for store in stores] == [Store] * 4
    sweeps.submit(stores[0])
    assert len(stores[3].list_sweeps(10)) == 1
    for store in stores:
        store.close()


def test_a_database_that_is_away_is_named_without_its_password() -> None:
    url = f"postgresql+psycopg://ann:PASSWORD@127.0.0.1:{unused_port()}/sweeps"
    with pytest.raises(DatabaseAway, match=r"ann:\*\*\*@127.0.0.1.*SWEEPS_DATABASE_URL has its address") as refusal:
        open_store(url)
    assert "PASSWORD" not in str(refusal.value)


@pytest.mark.long
def test_a_user_who_may_make_no_tables_is_told_as_one_who_is_not_let_in(postgres_url: str) -> None:
    engine = create_engine(emptied(postgres_url))
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP ROLE IF EXISTS reader")
        connection.exec_driver_sql("CREATE ROLE reader LOGIN PASSWORD 'PASSWORD'")
        connection.exec_driver_sql("GRANT USAGE ON SCHEMA public TO reader")
    try:
        url = engine.url.set(username="reader", password="PASSWORD").render_as_string(hide_password=False)
        with pytest.raises(DatabaseAway, match=r"reader:\*\*\*@.* cannot be used: permission denied for schema public"):
            open_store(url)
    finally:
        with engine.begin() as connection:
            connection.exec_driver_sql("DROP OWNED BY reader")
            connection.exec_driver_sql("DROP ROLE reader")
        engine.dispose()


def test_a_database_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatabaseAway, match="unable to open database file"):
        open_store(f"sqlite:///{tmp_path}")


ELSEWHERE = "name another database in SWEEPS_DATABASE_URL or another SWEEPS_HOME"
BEFORE = "was made before the first release of the service (its schema is {}) and cannot be brought up to date; "
OTHERS: dict[str, tuple[list[str], str]] = {
    "of a newer version": (
        ["schema_9999"],
        f"was made by a newer version of the service (its schema is schema_9999); install that version, or {ELSEWHERE}",
    ),
    **{
        f"of version {old}": (
            [old],
            BEFORE.format(old) + f"move it away to begin with an empty one, or {ELSEWHERE}",
        )
        for old in ("0001", "0021")
    },
    "of another program": (
        ["cafe1234abcd"],
        f"belongs to another program (it holds no table of the service); {ELSEWHERE}",
    ),
    "of two schemas": (
        ["schema_0001", "0021"],
        f"belongs to another program (it holds no table of the service); {ELSEWHERE}",
    ),
}


@pytest.mark.both_databases
@pytest.mark.parametrize(("versions", "sentence"), OTHERS.values(), ids=OTHERS)
def test_a_database_of_others_is_left_alone_in_one_sentence(
    database_url: str, versions: list[str], sentence: str
) -> None:
    engine = open_engine(database_url)
    with writing(engine) as connection:
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32) PRIMARY KEY)")
        for version in versions:
            connection.exec_driver_sql(f"INSERT INTO alembic_version VALUES ('{version}')")
    with pytest.raises(DatabaseUnfit) as refusal:
        open_store(database_url)
    assert str(refusal.value) == f"the database {engine.url.render_as_string()} {sentence}"
    assert inspect(engine).get_table_names() == ["alembic_version"]
    with engine.connect() as connection:
        left = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalars().all()
    assert sorted(left) == sorted(versions)
    engine.dispose()


def old(file: Path) -> None:
    store = open_store(f"sqlite:///{file}")
    sweeps.submit(store)
    with writing(store.engine) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0021'")
    store.close()


def without_a_log(file: Path) -> None:
    old(file)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")


def foreign(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        for table in ("accounts", "trials", "sweeps", "zoo"):
            connection.execute(f"CREATE TABLE {table} (id INTEGER)")


def text(file: Path) -> None:
    file.write_text("What is here is a text, and not a database.\n" * 100)


def cut(file: Path) -> None:
    open_store(f"sqlite:///{file}").close()
    file.write_bytes(file.read_bytes()[:4096])


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (old, "was made before the first release"),
        (without_a_log, "was made before the first release"),
        (foreign, "belongs to another program (it holds accounts, sweeps, trials, …)"),
        (text, "cannot be read: file is not a database; restore it, or move it away"),
        (cut, "cannot be read: database disk image is malformed; restore it, or move it away"),
    ],
)
def test_the_file_of_a_database_that_is_refused_stays_as_it_was(
    tmp_path: Path, make: Callable[[Path], None], sentence: str
) -> None:
    file = tmp_path / "sweeps.db"
    make(file)
    before = file.read_bytes()
    with pytest.raises(DatabaseUnfit) as refusal:
        open_store(f"sqlite:///{file}")
    assert str(refusal.value).startswith(f"the database sqlite:///{file} {sentence}")
    assert "\n" not in str(refusal.value)
    assert file.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sweeps.db"]
