"""Finds the files of each split of a dataset."""

import re
import shutil
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from trainers.catalog.row_files import FORMS, form_of
from trainers.config.base import SPLIT_PATTERN
from trainers.errors import ConfigError

README: Final = "README.md"


def check_split(name: str) -> None:
    """Refuse a text that cannot be the name of a split. Raises: ConfigError."""
    if not re.fullmatch(SPLIT_PATTERN, name):
        raise ConfigError(
            f"{name!r} is not a name for a split, which has 1 to 63 letters, digits, '.', '_' and '-', a letter or "
            "digit first and last"
        )


def splits_of(names: Collection[str], readme: Path | None, config: str | None) -> dict[str, list[str]]:
    """Find the files of each split.

    Without a dataset card, each of the files side by side is a split of its name. Everything else follows the rules of
    `datasets`: the card's configurations, and the words train, validation and test in names and folders.

    Args:
        names: names of the folder's files, those in its folders as paths with /.
        readme: dataset card of the folder, if it has one.
        config: configuration to take; needed if the card has several.
    Raises: ConfigError, if there is nothing to be read, or no such configuration.
    """
    readable = sorted(name for name in names if form_of(name))
    if not readable:
        scripts = [name for name in names if name.endswith(".py")]
        raise ConfigError(
            f"it is made by a script ({scripts[0]}), and such code is never run here; take a revision with data files"
            if scripts
            else f"there are no files that end in {', '.join(FORMS)}"
        )
    if readme is None and config is None and not any("/" in name for name in readable):
        splits = dict[str, list[str]]()
        for name in readable:
            split = name[: name.lower().rindex(form_of(name) or "")]
            check_split(split)
            splits.setdefault(split, []).append(name)
        return splits
    return _splits_by_datasets(names, readme, config)


def _splits_by_datasets(names: Collection[str], readme: Path | None, config: str | None) -> dict[str, list[str]]:
    """Ask `datasets` for the splits of a folder with files of these names; it looks at nothing else in them."""
    import datasets

    with tempfile.TemporaryDirectory(prefix="sweeps-splits-") as made:
        folder = Path(made)
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).touch()
        if readme is not None:
            shutil.copyfile(readme, folder / README)
        try:
            configs = datasets.get_dataset_config_names(str(folder))
            if (config is None and len(configs) > 1) or (config is not None and config not in configs):
                problem = f"it has no configuration {config}" if config else "it has several configurations"
                raise ConfigError(f"{problem}; name one with --config: {', '.join(configs)}")
            builder: Any = datasets.load_dataset_builder(str(folder), name=config)
        except (ValueError, OSError, TypeError) as error:
            raise ConfigError(f"its data files cannot be told apart: {error}") from error
        data_files: Mapping[Any, Collection[str]] = builder.config.data_files or {}
        splits = {
            str(split): [str(Path(file).relative_to(folder)) for file in files] for split, files in data_files.items()
        }
    unreadable = [file for files in splits.values() for file in files if not form_of(file)]
    if unreadable or not splits:
        raise ConfigError(f"{', '.join(unreadable[:3]) or 'it'}: rows are read from {', '.join(FORMS)}")
    for split in splits:
        check_split(split)
    return splits
