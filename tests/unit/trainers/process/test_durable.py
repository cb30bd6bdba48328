import os
from pathlib import Path

import pytest

from trainers.process.durable import write_whole


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "result.json"
    write_whole(file, "first")
    write_whole(file, "second")
    assert file.read_text() == "second"

    def full(_: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_whole(file, "third")
    assert file.read_text() == "second"
