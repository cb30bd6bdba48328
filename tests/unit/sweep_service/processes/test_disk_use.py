"""The disk that a folder takes."""

import os
from pathlib import Path

import pytest

from sweep_service.processes.disk_use import disk_use, size_text


def test_everything_below_a_folder_is_counted_once(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    (folder / "trial" / "1").mkdir(parents=True)
    for name in ("a", "trial/b", "trial/1/c"):
        (folder / name).write_bytes(b"x" * 8192)
    os.link(folder / "a", folder / "trial" / "linked")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "large").write_bytes(b"x" * 1_000_000)
    (folder / "link").symlink_to(outside)
    use = disk_use(folder)
    assert use.files == 5
    assert 3 * 8192 <= use.bytes < 8 * 8192
    assert disk_use(tmp_path / "nothing") == (0, 0)


def test_what_lies_deeper_than_a_path_can_reach_is_left_out(deep: Path) -> None:
    use = disk_use(deep)
    assert 0 < use.files < 60


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (512, "512 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (3 << 30, "3 GiB"), (250 << 30, "250 GiB"),
     (1023 << 20, "1023 MiB"), (5 << 40, "5 TiB"), (5000 << 40, "5000 TiB")],
)  # fmt: skip
def test_a_size_is_short(size: int, text: str) -> None:
    assert size_text(size) == text
