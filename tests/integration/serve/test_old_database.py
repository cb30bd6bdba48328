"""A database from before the first release ends `serve` and `db upgrade` with one sentence, and nothing is started."""

import sys

import pytest

from sweep_service.cli import main
from sweep_service.serve.stack import Stack
from sweep_service.settings import Settings
from sweep_service.store import DatabaseUnfit, Store
from sweep_service.store.database import writing


@pytest.fixture
def old_home(settings: Settings, store: Store) -> Settings:
    """An installation whose database has the last schema before the first release."""
    with writing(store.engine) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0021'")
    return settings


def test_serve_refuses_it_before_it_starts_anything(old_home: Settings) -> None:
    stack = Stack(old_home, say=lambda _: None)
    with pytest.raises(DatabaseUnfit, match="made before the first release"), stack:
        pass
    assert stack._services == []


def test_db_upgrade_refuses_it_in_one_sentence(
    old_home: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SWEEPS_HOME", str(old_home.home))
    monkeypatch.setattr(sys, "argv", ["sweeps", "db", "upgrade"])
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capsys.readouterr()
    assert ended.value.code == 1
    assert out == ""
    assert err.startswith(f"error: the database sqlite:///{old_home.home}/sweeps.db was made before the first release")
    assert err.count("\n") == 1
