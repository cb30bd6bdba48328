"""Adds models and datasets from the disk: a model's folder, a dataset's files."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from trainers.catalog.entries import DatasetEntry, ModelEntry, Origin
from trainers.catalog.find_splits import README, check_split, splits_of
from trainers.catalog.model_check import check_architecture, described, files_beside, weight_files
from trainers.catalog.new_entry import Making, Reporter, about, check_room, copied, digest_of, making
from trainers.catalog.row_files import read_rows
from trainers.errors import ConfigError

_REPORTED_ROWS: Final = 1000


def add_local_model(folder: Path, cache: Path, name: str, reporter: Reporter | None = None) -> ModelEntry:
    """Copy a Hugging Face model folder into the catalog: safetensors, configuration and tokenizer, links followed.

    Raises: ConfigError, with every reason why it cannot be a model of the catalog, or if the name has another one.
    """
    if not folder.is_dir():
        raise ConfigError(f"{folder}: there is no such directory")
    with making(cache, ModelEntry, name, reporter or Reporter()) as place, about(str(folder)):
        names = [file.name for file in folder.iterdir() if file.is_file()]
        beside = files_beside(names)
        check_architecture(folder)
        weights = weight_files(folder, names)
        facts = described(folder, weights)
        sizes = {file: (folder / file).stat().st_size for file in sorted({*beside, *weights})}
        if existing := place.existing:
            digests = _digests(folder, None, sizes, place.reporter)
            return place.same_or_refused(existing, existing.digest == digest_of(digests))
        place.begin(sum(sizes.values()))
        digests = _digests(folder, place.folder, sizes, place.reporter)
        return place.finish(Origin(), digests, sum(sizes.values()), **facts)


def _digests(folder: Path, target: Path | None, sizes: Mapping[str, int], reporter: Reporter) -> dict[str, str]:
    """Compute the sha256 of files, which are copied on the way if there is a target."""
    done, total, digests = 0, sum(sizes.values()), dict[str, str]()
    for name, size in sizes.items():
        digests[name] = copied(folder / name, target / name if target else None, reporter, done, total)
        done += size
    return digests


def add_local_dataset(
    source: Path,
    cache: Path,
    name: str,
    split: str = "train",
    config: str | None = None,
    reporter: Reporter | None = None,
) -> DatasetEntry:
    """Convert a file, or a folder of files, into a dataset of the catalog; all columns are kept.

    Args:
        split: split of a single file; the files of a folder name theirs.
        config: configuration to take, if the folder's dataset card has several.
    Raises: ConfigError, if rows cannot be read, or the name has another dataset.
    """
    with about(str(source)):
        if source.is_file():
            check_split(split)
            splits = {split: [source]}
        elif source.is_dir():
            paths = [path.relative_to(source) for path in source.rglob("*") if path.is_file()]
            names = [str(path) for path in paths if not any(part.startswith(".") for part in path.parts)]
            names_of = splits_of(names, source / README if README in names else None, config)
            splits = {split: [source / name for name in of_split] for split, of_split in names_of.items()}
        else:
            raise ConfigError("there is no such file or directory")
        with making(cache, DatasetEntry, name, reporter or Reporter()) as place:
            return add_rows(splits, Origin(), place)


def add_rows(splits: Mapping[str, Sequence[Path]], origin: Origin, place: Making[DatasetEntry]) -> DatasetEntry:
    """Convert the files of each split into a dataset of the catalog: SPLIT.jsonl, with an object a line.

    Raises: ConfigError, if rows cannot be read, a split has none, or the name has another dataset; or if the disk is
        nearly full, since the size of compressed rows is known only now.
    """
    total, done = sum(file.stat().st_size for files in splits.values() for file in files), 0
    place.begin(2 * total)
    counts, columns, digests, size = dict[str, int](), dict[str, None](), dict[str, str](), 0
    for split, files in splits.items():
        with (place.folder / f"{split}.jsonl").open("wb") as target:
            digest = hashlib.sha256()
            counts[split] = 0
            for file in files:
                for number, row in enumerate(read_rows(file)):
                    if number % _REPORTED_ROWS == 0:
                        place.reporter.progress(file.name, done, total)
                    columns |= dict.fromkeys(row)
                    line = json.dumps(row, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
                    digest.update(line)
                    target.write(line)
                    counts[split] += 1
                    if counts[split] % _REPORTED_ROWS == 0:
                        check_room(place.folder.parent, 0)
                done += file.stat().st_size
                place.reporter.progress(file.name, done, total)
            size += target.tell()
        if not counts[split]:
            raise ConfigError(f"split {split} has no rows")
        digests[f"{split}.jsonl"] = digest.hexdigest()
    return place.finish(origin, digests, size, splits=counts, columns=tuple(columns))
