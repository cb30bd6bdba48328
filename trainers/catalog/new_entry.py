"""Makes an entry: under a dot-name beside its place, in one process at a time, renamed once it is whole."""

import hashlib
import re
import shutil
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Generic

from trainers.catalog.entries import (
    ENTRY_FILE,
    KINDS,
    AnyEntry,
    Origin,
    entry_folder,
    find_entry,
    read_entry,
    shipped_file,
)
from trainers.config.base import NAME_PATTERN, NAME_RULE
from trainers.errors import ConfigError
from trainers.process.durable import move_whole, write_whole
from trainers.process.locks import locked

_CHUNK: Final = 1 << 22
_APART: Final = "~"
"""Character that no name contains, so that files of `a` are not taken for those of `a.b`."""
_SPARE_BYTES: Final = 64 << 20
"""Number of bytes that must stay free on the disk, for records, locks and other programs."""


class Reporter:
    """Receives the progress of an addition; this one stays silent."""

    def say(self, text: str) -> None:
        """Take a remark for people."""

    def progress(self, what: str, done: int, total: int) -> None:
        """Take the number of bytes of `what` that are done."""


class Making(Generic[AnyEntry]):
    """The folder of an entry that is being made.

    Args:
        source: name of its source; what was begun from another source is removed.
    """

    def __init__(self, cache: Path, entry_type: type[AnyEntry], name: str, source: str, reporter: Reporter) -> None:
        self._entry_type, self.reporter = entry_type, reporter
        self.existing = find_entry(cache, entry_type, name)
        """The entry that has this name already."""
        self.target = target = entry_folder(cache, entry_type, name)
        self.folder = target.with_name(f".{target.name}{_APART}{source}")
        self.fetched = target.with_name(f".{target.name}{_APART}{source}{_APART}fetched")
        """Folder for files from which the entry is made but which it does not hold."""
        self.resumable = False
        """True if the folders survive an error, so that the same command can go on."""
        for folder in leftovers(target):
            if folder not in (self.folder, self.fetched):
                shutil.rmtree(folder)

    def begin(self, needed_bytes: int, *, resumed: bool = False) -> None:
        """Make the folder.

        Args:
            resumed: true to keep the files that an interrupted addition left in it.
        Raises: ConfigError, if the disk has no room for what is still missing.
        """
        if not resumed:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        present_bytes = sum(file.stat().st_size for folder in leftovers(self.target) for file in folder.rglob("*"))
        check_room(self.target.parent, max(0, needed_bytes - present_bytes))

    def drop(self) -> None:
        """Remove the folder and the fetched files."""
        for folder in (self.folder, self.fetched):
            shutil.rmtree(folder, ignore_errors=True)

    def finish(self, origin: Origin, digests: Mapping[str, str], size: int, **facts: Any) -> AnyEntry:
        """Write the record and give the folder its name, once all is on the disk.

        An entry that has the name already is returned instead, if it has the same files.

        Args:
            digests: sha256 of the entry's files by their names.
            size: their bytes.
            facts: fields that entries of this kind alone have.
        Raises: ConfigError, if the name has an entry with other files.
        """
        digest = digest_of(digests)
        if existing := self.existing:
            self.drop()
            return self.same_or_refused(existing, existing.digest == digest)
        shared = {"name": self.target.name, "origin": origin, "added_at": time.time(), "bytes": size, "digest": digest}
        entry = self._entry_type(**shared, **facts)
        write_whole(self.folder / ENTRY_FILE, entry.model_dump_json(indent=2) + "\n")
        move_whole(self.folder, self.target)
        self.drop()
        return entry

    def same_or_refused(self, existing: AnyEntry, same: bool) -> AnyEntry:
        """Return the existing entry if it is the one to add. Raises: ConfigError, if it is another one."""
        kind = KINDS[self._entry_type]
        if not same:
            raise ConfigError(
                f"{existing.name} is in the catalog of {kind} with other content ({origin_text(existing.origin)}); "
                f"take another name with --name, or remove that one with `sweeps {kind} rm {existing.name}`"
            )
        self.reporter.say(f"{existing.name} is in the catalog already")
        return existing


def digest_of(digests: Mapping[str, str]) -> str:
    """Compute an entry's digest from the sha256 of its files by their names."""
    return hashlib.sha256("".join(f"{file}\0{digests[file]}\n" for file in sorted(digests)).encode()).hexdigest()


def check_room(folder: Path, needed_bytes: int) -> None:
    """Refuse to fill the disk. Raises: ConfigError."""
    free = shutil.disk_usage(folder).free
    if needed_bytes + _SPARE_BYTES > free:
        needed = f"{size_text(needed_bytes)} are needed" if needed_bytes else "more is needed"
        raise ConfigError(
            f"{needed} and {folder} has {size_text(free)} free; make room, or set SWEEPS_CACHE to a folder on another "
            "disk"
        )


def leftovers(target: Path) -> list[Path]:
    """List the folders in which additions of an entry were begun."""
    return [path for path in target.parent.glob(f".{target.name}{_APART}*") if path.is_dir()]


@contextmanager
def making(
    cache: Path, entry_type: type[AnyEntry], name: str, reporter: Reporter, source: str = "local"
) -> Generator[Making[AnyEntry]]:
    """Hold the name while an entry is made; an error leaves nothing there, unless the `Making` is resumable.

    Raises: ConfigError, if the name is not allowed, if it belongs to the package or to a folder that is not an entry,
        or if another process is making an entry of it.
    """
    kind, target = KINDS[entry_type], entry_folder(cache, entry_type, name)
    check_name(name)
    if shipped_file(entry_type, name):
        raise ConfigError(f"{name} comes with the package; take another name with --name")
    if target.exists() and find_entry(cache, entry_type, name) is None:
        raise ConfigError(
            f"{target} has no readable {ENTRY_FILE}, so it is not an entry of the catalog: move it elsewhere and "
            f"add it from there with `sweeps {kind} add FOLDER --name {name}`, or take another name with --name"
        )
    with held(target, kind):
        made = Making(cache, entry_type, name, source, reporter)
        try:
            yield made
        except BaseException:
            if not made.resumable:
                made.drop()
            raise


@contextmanager
def held(target: Path, kind: str) -> Generator[None]:
    """Keep other processes from adding or removing the entry. Raises: ConfigError, if one of them does."""

    def refuse() -> None:
        raise ConfigError(f"another process is at {target.name} in the catalog of {kind}; wait for it to end")

    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target.with_name(f".{target.name}{_APART}lock"), refuse):
        yield


@contextmanager
def about(source: str) -> Generator[None]:
    """Begin each problem of a ConfigError with the source that it is about, which may be the file that it names."""

    def begun(problem: str) -> str:
        file = Path(source).name
        named = re.match(rf"{re.escape(file)}(?=[ ,:])", problem)
        return f"{source}{problem[len(file) :]}" if named else f"{source}: {problem}"

    try:
        yield
    except ConfigError as error:
        raise type(error)(*map(begun, error.problems)) from error


def remove_entry(cache: Path, entry_type: type[AnyEntry], name: str) -> int:
    """Remove an entry and leftovers of its interrupted additions; return the number of bytes that this frees.

    Raises: ConfigError, if there is nothing of that name.
    """
    kind, target = KINDS[entry_type], entry_folder(cache, entry_type, name)
    check_name(name)
    if shipped_file(entry_type, name):
        raise ConfigError(f"{name} comes with the package and cannot be removed")
    if find_entry(cache, entry_type, name) is None and not leftovers(target):
        read_entry(cache, entry_type, name)  # raises, and says what there is
    with held(target, kind):
        if target.exists():
            target.rename(target.with_name(f".{name}{_APART}removed"))
        freed = 0
        for folder in leftovers(target):
            freed += sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
            shutil.rmtree(folder)
    return freed


def check_name(name: str) -> None:
    """Refuse a text that cannot be the name of an entry. Raises: ConfigError."""
    if not re.fullmatch(NAME_PATTERN, name):
        raise ConfigError(f"{name!r} is not a name for an entry, which has {NAME_RULE}; give one with --name")


def copied(source: Path, target: Path | None, reporter: Reporter, done: int, total: int) -> str:
    """Copy a file, or with no target only read it; return the sha256 of its content.

    Args:
        done: bytes of other files that are done already, of a total of `total`.
    """
    digest = hashlib.sha256()
    with source.open("rb") as reading, (target or Path("/dev/null")).open("wb") as writing:
        while chunk := reading.read(_CHUNK):
            digest.update(chunk)
            writing.write(chunk)
            done += len(chunk)
            reporter.progress(source.name, done, total)
    return digest.hexdigest()


def origin_text(origin: Origin) -> str:
    """Write an entry's origin for people."""
    if origin.repository is None:
        return "a local copy"
    part = f":{origin.part}" if origin.part else ""
    return f"{origin.repository}@{origin.revision}{part}"


def size_text(size: int) -> str:
    """Write a number of bytes, such as `3.1 GB`."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} B"
