"""Writes the rows of a dataset as the catalog keeps them: SPLIT.jsonl, an object a line."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from trainers.catalog.new_entry import Reporter, check_room
from trainers.catalog.row_files import Row, read_rows
from trainers.errors import ConfigError

_REPORTED_ROWS: Final = 1000


def written_splits(folder: Path, splits: Mapping[str, Sequence[Path]], reporter: Reporter) -> dict[str, Any]:
    """Write the rows of all splits.

    Returns: what a record says of them: `splits`, `columns`, `digests` of the files, `size` in bytes.
    Raises: ConfigError, if rows cannot be read, a split has none, or the disk is all but full: what compressed files
        hold is known only then.
    """
    files = [file for of_split in splits.values() for file in of_split]
    total, done, columns = sum(file.stat().st_size for file in files), 0, dict[str, None]()
    counts, digests, size = dict[str, int](), dict[str, str](), 0
    for split, of_split in splits.items():
        with (folder / f"{split}.jsonl").open("wb") as target:
            digest = hashlib.sha256()
            counts[split] = 0
            for file in of_split:
                for row in _reported(read_rows(file), file, reporter, done, total):
                    columns |= dict.fromkeys(row)
                    line = json.dumps(row, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
                    digest.update(line)
                    target.write(line)
                    counts[split] += 1
                    if counts[split] % _REPORTED_ROWS == 0:
                        check_room(folder.parent, 0)
                done += file.stat().st_size
            size += target.tell()
        if not counts[split]:
            raise ConfigError(f"split {split} has no rows")
        digests[f"{split}.jsonl"] = digest.hexdigest()
    return {"splits": counts, "columns": tuple(columns), "digests": digests, "size": size}


def _reported(rows: Iterable[Row], file: Path, reporter: Reporter, done: int, total: int) -> Iterable[Row]:
    for number, row in enumerate(rows):
        if number % _REPORTED_ROWS == 0:
            reporter.progress(file.name, done, total)
        yield row
    reporter.progress(file.name, done + os.path.getsize(file), total)
