"""Opening the store: the schema that the migrations make, databases that are away, and those of other versions."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, inspect

from sweep_service.store import DatabaseAway, DatabaseTooNew, DatabaseTooOld, Store, open_store, tables
from sweep_service.store.database import open_engine, upgrade, writing
from tests import stored_sweeps as sweeps
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


def test_a_database_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatabaseAway, match="unable to open database file"):
        open_store(f"sqlite:///{tmp_path}")


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("version", "kind", "sentence"),
    [
        ("schema_9999", DatabaseTooNew, "made by a newer version .*'schema_9999'.*install that version again"),
        ("0001", DatabaseTooOld, "made before the first release .*is 0001.*move it away to begin with an empty one"),
        ("0021", DatabaseTooOld, "made before the first release .*is 0021.*move it away to begin with an empty one"),
    ],
)
def test_a_database_of_another_version_is_left_alone_in_one_sentence(
    database_url: str, version: str, kind: type[Exception], sentence: str
) -> None:
    engine = open_engine(database_url)
    with writing(engine) as connection:
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32) PRIMARY KEY)")
        connection.exec_driver_sql(f"INSERT INTO alembic_version VALUES ('{version}')")
    with pytest.raises(kind, match=sentence) as refusal:
        open_store(database_url)
    assert "\n" not in str(refusal.value)
    assert inspect(engine).get_table_names() == ["alembic_version"]
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalars().all() == [version]
    engine.dispose()


def test_the_file_of_a_database_from_before_the_first_release_stays_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "sweeps.db"
    store = open_store(f"sqlite:///{file}")
    sweeps.submit(store)
    with writing(store.engine) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0021'")
    store.close()
    before = file.read_bytes()
    with pytest.raises(DatabaseTooOld):
        open_store(f"sqlite:///{file}")
    assert file.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sweeps.db"]
