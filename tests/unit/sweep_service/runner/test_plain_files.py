"""Names in an attempt's folder under which a program may have put anything."""

import os
from pathlib import Path

import pytest

from sweep_service.runner.plain_files import NotPlain, is_there, make_room, open_plain, read_plain


def test_whatever_a_path_is_like_it_can_be_asked_for(tmp_path: Path) -> None:
    assert is_there(str(tmp_path))
    assert not any(is_there(str(tmp_path / name)) for name in ("gone", "a" * 300, "a\x00b"))


def test_a_file_is_read_and_a_folder_is_not(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    assert [read_plain(tmp_path / "file", most) for most in (9, 4, 3)] == [b"text", b"text", b"ext"]
    assert [read_plain(path, 9) for path in (tmp_path / "gone", tmp_path, tmp_path / "file" / "below")] == [b""] * 3
    with pytest.raises(NotPlain, match="write a plain file there"):
        open_plain(tmp_path)


def test_of_a_huge_file_only_its_end_is_read(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 42)
    assert read_plain(tmp_path / "sparse", 5) == b"\0" * 5


def test_room_is_made_for_files_and_no_ordinary_file_or_other_name_is_touched(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    folder = tmp_path / "attempt"
    (folder / "folder").mkdir(parents=True)
    (folder / "folder" / "file").touch()
    os.mkfifo(folder / "fifo")
    os.mkfifo(folder / "another's")
    (folder / "link").symlink_to(outside)
    (folder / "dangling").symlink_to(tmp_path / "nowhere")
    (folder / "file").write_text("kept")
    make_room(folder, ("folder", "fifo", "link", "dangling", "file", "missing"))
    assert sorted(path.name for path in folder.iterdir()) == ["another's", "file"]
    assert (outside.read_text(), (folder / "file").read_text()) == ("mine", "kept")
