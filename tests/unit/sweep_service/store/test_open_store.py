from pathlib import Path

import pytest

from sweep_service.store import DatabaseAway, open_store
from tests.sweep_stack import unused_port


def test_a_database_that_is_away_is_named_without_its_password() -> None:
    url = f"postgresql+psycopg://ann:PASSWORD@127.0.0.1:{unused_port()}/sweeps"
    with pytest.raises(DatabaseAway, match=r"ann:\*\*\*@127.0.0.1.*SWEEPS_DATABASE_URL has its address") as refusal:
        open_store(url)
    assert "PASSWORD" not in str(refusal.value)


def test_a_database_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatabaseAway, match="unable to open database file"):
        open_store(f"sqlite:///{tmp_path}")
