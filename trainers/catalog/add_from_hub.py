"""Adds models and datasets of the Hub, pinned to a commit; an interrupted addition goes on where it ended."""

import re
from pathlib import Path
from typing import Final

from trainers.catalog.add_from_disk import add_rows
from trainers.catalog.entries import AnyEntry, DatasetEntry, ModelEntry, Origin
from trainers.catalog.find_splits import README, splits_of
from trainers.catalog.hub import Repository, parse_reference
from trainers.catalog.model_check import (
    CONFIG,
    INDEX,
    TOKENIZER_CONFIG,
    check_architecture,
    described,
    files_beside,
    weight_files,
)
from trainers.catalog.new_entry import Making, Reporter, about, making
from trainers.errors import ConfigError

_ODD: Final = re.compile(r"[^a-z0-9._-]+")
_TOLD_FIRST: Final = (CONFIG, INDEX, TOKENIZER_CONFIG)


def default_name(reference: str) -> str:
    """Name an entry after the last part of its repository, in small letters."""
    return _ODD.sub("-", parse_reference(reference)[0].rpartition("/")[2].lower()).strip("._-")[:63]


def add_hub_model(reference: str, cache: Path, name: str, token: str | None, reporter: Reporter) -> ModelEntry:
    """Fetch a model of the Hub, written OWNER/NAME@REVISION, into the catalog.

    Whether it can be used is known from its list of files and its configuration, before the weights are fetched.

    Raises: ConfigError, with every reason; HubError, after which the same call goes on with what has arrived.
    """
    repository = Repository("model", reference, token, reporter)
    origin = Origin(repository=repository.name, revision=repository.commit)
    with making(cache, ModelEntry, name, reporter, repository.commit) as place:
        if existing := place.existing:
            return place.same_or_refused(existing, existing.origin == origin)
        with about(str(repository)):
            beside = files_beside([path for path in repository.files if "/" not in path])
            place.begin(0, resumed=True)
            repository.fetch([file for file in beside if file in _TOLD_FIRST], place.folder)
            check_architecture(place.folder)
            weights = weight_files(place.folder, repository.files)
            files = sorted({*beside, *weights})
            place.begin(repository.size(files), resumed=True)
            place.resumable = True
            repository.fetch(files, place.folder)
            digests = repository.verified(files, place.folder)
            place.resumable = False
            facts = described(place.folder, weights)
            return place.finish(origin, digests, repository.size(files), **facts)


def add_hub_dataset(
    reference: str, config: str | None, cache: Path, name: str, token: str | None, reporter: Reporter
) -> DatasetEntry:
    """Fetch a dataset of the Hub, written OWNER/NAME@REVISION, and convert it into one of the catalog.

    Args:
        config: configuration to take; needed if the dataset has several.
    Raises: ConfigError; HubError: what has come stays, and the same call goes on.
    """
    repository = Repository("dataset", reference, token, reporter)
    origin = Origin(repository=repository.name, revision=repository.commit, part=config)
    with making(cache, DatasetEntry, name, reporter, repository.commit) as place:
        if existing := place.existing:
            return place.same_or_refused(existing, existing.origin == origin)
        with about(str(repository)):
            return add_rows(fetched_splits(repository, config, place), origin, place)


def fetched_splits(
    repository: Repository, config: str | None, place: Making[AnyEntry], only: str | None = None
) -> dict[str, list[Path]]:
    """Fetch the files of a dataset's splits, or of one of them, beside the place of the entry.

    Raises: ConfigError, if there is no such configuration or split; HubError.
    """
    readme = [README] if README in repository.files else []
    place.begin(0)
    repository.fetch(readme, place.fetched)
    splits = splits_of(list(repository.files), place.fetched / README if readme else None, config)
    if only is not None and only not in splits:
        raise ConfigError(f"it has no split {only}; there are {', '.join(splits)}")
    splits = {split: files for split, files in splits.items() if only in (None, split)}
    all_files = list(dict.fromkeys(file for files in splits.values() for file in files))
    place.begin(2 * repository.size(all_files))
    place.resumable = True
    repository.fetch(all_files, place.fetched)
    repository.verified(all_files, place.fetched)
    place.resumable = False
    return {split: [place.fetched / file for file in files] for split, files in splits.items()}
