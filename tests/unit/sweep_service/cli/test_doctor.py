"""The doctor's findings where no service runs."""

from pathlib import Path

import pytest

from sweep_service.cli.doctor import CHECKS
from sweep_service.settings import Settings
from sweep_service.store import open_store

DATABASE = next(check for check in CHECKS if check.__name__ == "_database")


@pytest.mark.parametrize("kept", ["nothing", "ours", "a text"])
def test_the_database_is_looked_at_and_not_touched(tmp_path: Path, kept: str) -> None:
    settings, file = Settings(home=tmp_path), tmp_path / "sweeps.db"
    if kept == "ours":
        open_store(settings.database_url).close()
    elif kept == "a text":
        file.write_text("no database\n" * 100)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert list(DATABASE(settings)) == [
        {
            "nothing": ("database", "ok", f"there is none at {file}; `sweeps serve` makes it"),
            "ours": ("database", "ok", f"sqlite:///{file} is one for this version"),
            "a text": (
                "database",
                "error",
                f"the database sqlite:///{file} cannot be read: file is not a database; restore it, or move it away",
            ),
        }[kept]
    ]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
