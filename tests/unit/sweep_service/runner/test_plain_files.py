"""Names in an attempt's folder under which a program may have put anything."""

from pathlib import Path

import pytest

from sweep_service.runner.plain_files import NotPlain, is_there, open_plain, read_plain


def test_whatever_a_path_is_like_it_can_be_asked_for(tmp_path: Path) -> None:
    assert is_there(str(tmp_path))
    assert not any(is_there(str(tmp_path / name)) for name in ("gone", "a" * 300, "a\x00b"))


def test_a_file_is_read_and_a_folder_is_not(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    assert (read_plain(tmp_path / "file"), read_plain(tmp_path / "gone"), read_plain(tmp_path)) == (b"text", b"", b"")
    with pytest.raises(NotPlain, match="write a plain file there"):
        open_plain(tmp_path)
