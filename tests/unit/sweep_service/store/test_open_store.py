from pathlib import Path

import pytest

from sweep_service.store import DatabaseAway, DatabaseTooNew, open_store
from sweep_service.store.database import writing
from tests.sweep_stack import unused_port


def test_a_database_that_is_away_is_named_without_its_password() -> None:
    url = f"postgresql+psycopg://ann:PASSWORD@127.0.0.1:{unused_port()}/sweeps"
    with pytest.raises(DatabaseAway, match=r"ann:\*\*\*@127.0.0.1.*SWEEPS_DATABASE_URL has its address") as refusal:
        open_store(url)
    assert "PASSWORD" not in str(refusal.value)


def test_a_database_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatabaseAway, match="unable to open database file"):
        open_store(f"sqlite:///{tmp_path}")


def test_a_database_of_a_newer_version_is_left_alone_in_one_sentence(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'sweeps.db'}"
    store = open_store(url)
    with writing(store.engine) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    store.close()
    with pytest.raises(DatabaseTooNew, match=r"sweeps.db was made by a newer version .*'9999'.*install that"):
        open_store(url)
