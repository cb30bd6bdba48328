"""Golds that math-verify is asked about once, by whichever run comes first."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from trainers.grading.readable_golds import unreadable_golds

GOLDS = ["7", "1/2", r"-\frac{3}{4}", "x^2", "A. 12"]
REASON = {"A. 12": "is nothing that math-verify reads"}


class Pool:
    """Takes the place of the processes: what has a full stop cannot be read."""

    def __init__(self, most: int = 1000) -> None:
        self.asked, self.most = list[str](), most

    def read(self, golds: Sequence[str]) -> list[bool]:
        if len(self.asked) + len(golds) > self.most:
            raise KeyboardInterrupt
        self.asked += golds
        return ["." not in gold for gold in golds]


def unread(golds: list[str], pool: Pool, folder: Path) -> dict[str, str]:
    asked: Any = pool
    return unreadable_golds(golds, asked, folder)


def test_each_gold_is_asked_about_once_and_numbers_never(tmp_path: Path) -> None:
    first, second = Pool(), Pool()
    assert unread([*GOLDS, *GOLDS], first, tmp_path / "grading") == REASON
    assert unread([*GOLDS, "y"], second, tmp_path / "grading") == REASON
    assert (first.asked, second.asked) == (["x^2", "A. 12"], ["y"])


def test_an_interrupted_reading_goes_on_and_a_damaged_file_is_read_as_far_as_it_is_whole(tmp_path: Path) -> None:
    golds = [f"x^{number}" for number in range(50)]
    with pytest.raises(KeyboardInterrupt):
        unread(golds, Pool(most=45), tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes() + b'["x^49", 1]\n["x^4')
    pool = Pool()
    assert unread(golds, pool, tmp_path) == {}
    assert pool.asked == golds[40:]


def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert unread(GOLDS, Pool(), tmp_path / "file" / "grading") == REASON
