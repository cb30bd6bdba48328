"""Parts of logs, and what of them reaches a terminal."""

import os
from pathlib import Path

import pytest

from sweep_service.errors import NoLog
from sweep_service.processes import log_files
from sweep_service.processes.log_files import read_log, settled, shorten_log


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "storage" / "attempt" / "stderr.log"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"one\ntwo\nthree\n")
    return path


def test_a_log_is_read_in_parts_that_join(log: Path) -> None:
    content, offset = b"", 0
    while (part := read_log(log, log.parent.parent, offset, 5)).content:
        assert (part.offset, part.size) == (offset, 14)
        content, offset = content + part.content, part.next_offset
    assert content == log.read_bytes()
    assert read_log(log, log.parent.parent, 99) == (b"", 14, 14)


@pytest.mark.parametrize(
    ("written", "lines", "end"),
    [
        (b"one\ntwo\nthree\n", 1, b"three\n"),
        (b"one\ntwo\nthree\n", 2, b"two\nthree\n"),
        (b"one\ntwo\nthree", 2, b"two\nthree"),
        (b"one\ntwo\nthree\n", 9, b"one\ntwo\nthree\n"),
        (b"\n\n", 1, b"\n"),
        (b"", 3, b""),
    ],
)
def test_the_end_of_a_log_has_so_many_lines(log: Path, written: bytes, lines: int, end: bytes) -> None:
    log.write_bytes(written)
    part = read_log(log, log.parent.parent, tail=lines)
    assert (part.content, part.next_offset) == (end, len(written))


def test_the_end_of_a_log_is_not_longer_than_a_part(log: Path) -> None:
    part = read_log(log, log.parent.parent, limit=8, tail=2)
    assert (part.content, part.offset) == (b"o\nthree\n", 6)
    assert read_log(log, log.parent.parent, limit=4, tail=2) == (b"ree\n", 10, 14)


def test_no_link_leads_out_of_the_storage(log: Path, tmp_path: Path) -> None:
    storage, secret = log.parent.parent, tmp_path / "secret"
    secret.write_text("token")
    log.unlink()
    log.symlink_to(secret)
    with pytest.raises(NoLog, match=r"stderr\.log"):
        read_log(log, storage)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "stderr.log").write_text("token")
    (storage / "linked").symlink_to(outside)
    with pytest.raises(NoLog, match="is not a file of the storage"):
        read_log(storage / "linked" / "stderr.log", storage)
    with pytest.raises(NoLog, match="is not a file of the storage"):
        read_log(secret, storage)


def test_only_files_are_logs(log: Path) -> None:
    storage = log.parent.parent
    os.mkfifo(storage / "pipe")
    for path in (storage / "pipe", log.parent):
        with pytest.raises(NoLog):
            read_log(path, storage)
    with pytest.raises(FileNotFoundError):
        read_log(storage / "nothing", storage)


def test_a_storage_behind_a_link_is_read(log: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(log.parent.parent)
    assert read_log(tmp_path / "link" / "attempt" / "stderr.log", tmp_path / "link", tail=1).content == b"three\n"


def test_a_progress_bar_is_settled_to_its_last_state() -> None:
    assert settled("start\n\rtraining: 0%\rtraining: \x1b[1m50%\rtraining: 100%\nend") == "start\ntraining: 100%\nend"
    assert settled("10%\r20%\r") == "20%"


def test_of_a_log_that_has_become_too_long_the_end_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "MAX_LOG", 1000)
    monkeypatch.setattr(log_files, "KEPT", 100)
    path = tmp_path / "stderr.log"
    shorten_log(path)
    with path.open("ab", buffering=0) as program:
        program.write(b"a" * 1000)
        shorten_log(path)
        assert path.stat().st_size == 1000
        program.write(b"b" * 60)
        shorten_log(path)
        program.write(b"c")
    said = b"(960 bytes of this log were left out, for it had become too long)\n"
    assert path.read_bytes() == said + b"a" * 40 + b"b" * 60 + b"c"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"d" * 2000)
    path.unlink()
    path.symlink_to(elsewhere)
    shorten_log(path)
    assert elsewhere.stat().st_size == 2000
