"""Finds rewards and policy losses by name, ours and those of installed packages."""

import difflib
import hashlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, PackageNotFoundError, entry_points, version
from pathlib import Path
from platform import node
from typing import Final, NamedTuple

from trainers.errors import ConfigError

_SHOWN: Final = 12
"""Digits of a digest that are enough to tell two states of a package's code apart."""


class Extensions(NamedTuple):
    """Our own things of one kind by name, together with those that installed packages add by entry points.

    Nothing is imported until it is loaded, so names can be listed where torch is not installed.
    """

    kind: str
    """Name of one such thing in messages: reward."""
    setting: str
    """Dotted name of the setting that chooses one."""
    group: str
    """Group of the entry points."""
    ours: Mapping[str, str]
    """Places of our own: module:attribute."""

    def names(self) -> list[str]:
        """List all names on this machine, in order."""
        return sorted({*self.ours, *(entry.name for entry in _installed(self.group))})

    def unknown(self, name: str) -> str | None:
        """Say that nothing has this name on this machine; None if something has."""
        if name in (names := self.names()):
            return None
        close = difflib.get_close_matches(name, names, n=1)
        meant = f"; did you mean {close[0]!r}?" if close else ""
        return (
            f"{self.setting}: there is no {self.kind} {name!r} on this machine{meant}; known are {', '.join(names)}. A "
            f"package adds its own by an entry point of the group {self.group}"
        )

    def entry(self, name: str) -> EntryPoint:
        """Return the entry point with this name. Raises: ConfigError, if there is none or more than one."""
        entries = self._entries(name)
        if complaint := self.unknown(name):
            raise ConfigError(complaint)
        if len(entries) > 1:
            places = ", ".join(f"{package(entry)} ({entry.value})" for entry in entries)
            raise ConfigError(
                f"{self.setting}: more than one {self.kind} is named {name!r}: {places}; rename or uninstall one"
            )
        return entries[0]

    def code(self, name: str) -> list[str]:
        """Return the identity of the code behind a name: its package with version, and the digest of its Python files.

        Cached results depend on it: another version of a package computes otherwise under the same name. Ours have the
        version alone, which the libraries' versions hold.
        """
        lines = list[str]()
        for entry in self._entries(name):
            if entry.dist is not None:
                digest = hashlib.sha256()
                for path in _sources(entry.module.partition(".")[0]):
                    digest.update(path.read_bytes())
                lines.append(f"{entry.dist.name} {entry.dist.version} {digest.hexdigest()}")
        return lines

    def packages(self, name: str) -> dict[str, str]:
        """Return the package behind a name with its version; none behind ours."""
        return {entry.dist.name: entry.dist.version for entry in self._entries(name) if entry.dist is not None}

    def versions(self, name: str) -> dict[str, str]:
        """Return `code` as a run records versions: by package, the version with the start of the digest."""
        parts = [line.rsplit(" ", 2) for line in self.code(name)]
        return {owner: f"{its_version} ({digest[:_SHOWN]})" for owner, its_version, digest in parts}

    def _entries(self, name: str) -> list[EntryPoint]:
        ours = [EntryPoint(name, self.ours[name], self.group)] if name in self.ours else []
        return [*ours, *(entry for entry in _installed(self.group) if entry.name == name)]


def require_packages(needed: Iterable[str]) -> None:
    """Refuse to begin where packages are missing with which a run was planned. Another version is taken, and recorded.

    Args:
        needed: each as NAME==VERSION, the version that whoever planned the run had.
    Raises: ConfigError, naming each, this machine and the remedy.
    """
    problems = list[str]()
    for text in needed:
        name, _, planned = text.partition("==")
        try:
            version(name)
        except PackageNotFoundError:
            problems.append(
                f"the package {name} {planned}, which this configuration needs, is not installed on {node()}; install "
                f"it for {sys.executable} there, as on every machine that runs trainers"
            )
    if problems:
        raise ConfigError(*problems)


def package(entry: EntryPoint) -> str:
    """Return the name of the package that an entry point belongs to."""
    return entry.dist.name if entry.dist else "this package"


def _installed(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group. Searching takes 10 ms, so it waits until a folder of `sys.path` changes."""
    return _found(group, tuple((place, _changed_at(place or ".")) for place in sys.path))


@lru_cache(maxsize=8)
def _found(group: str, _places: tuple[tuple[str, int | None], ...]) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=group))


def _changed_at(place: str) -> int | None:
    try:
        return os.stat(place).st_mtime_ns
    except OSError:
        return None


def _sources(module: str) -> list[Path]:
    """Return the Python files of a module or package, in order."""
    spec = importlib.util.find_spec(module)
    if spec is None:
        return []
    if places := spec.submodule_search_locations:
        return sorted(path for place in places for path in Path(place).rglob("*.py"))
    return [Path(spec.origin)] if spec.origin else []
