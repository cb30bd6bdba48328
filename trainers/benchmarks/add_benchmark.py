"""Adds benchmarks to the catalog: from their public sources at a pinned commit, from the Hub, or from a file."""

import hashlib
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import httpx

from trainers.benchmarks.known_benchmarks import KNOWN_BENCHMARKS, UpstreamSource
from trainers.benchmarks.problems import PROBLEMS_FILE, BenchmarkProblem, jsonl, read_upstream
from trainers.catalog.add_from_hub import fetched_splits
from trainers.catalog.entries import BenchmarkEntry, Origin
from trainers.catalog.hub import Repository
from trainers.catalog.new_entry import Making, Reporter, about, making
from trainers.errors import ConfigError

RAW: Final = "https://raw.githubusercontent.com"
MEDIA: Final = "https://media.githubusercontent.com/media"
"""The host of the content of files in Git LFS."""
_LARGEST: Final = 64 << 20
_TIMEOUT_S: Final = 30
_POINTER: Final = re.compile(rb"version https://git-lfs\S*\noid sha256:(?P<sha256>[0-9a-f]{64})\nsize (?P<size>\d+)\n")
_REFERENCE: Final = re.compile(r"(?P<dataset>[^:]+):(?P<split>[\w.-]+)")


def add_known(name: str, cache: Path, reporter: Reporter) -> BenchmarkEntry:
    """Fetch a benchmark of the catalog from its public source.

    Raises: ConfigError, if it cannot be fetched, or is not what the catalog says.
    """
    source = KNOWN_BENCHMARKS[name].source if name in KNOWN_BENCHMARKS else None
    if source is None:
        public = ", ".join(known for known, benchmark in KNOWN_BENCHMARKS.items() if benchmark.source)
        problem = f"{name} comes with the package" if name in KNOWN_BENCHMARKS else f"there is no benchmark {name!r}"
        raise ConfigError(
            f"{problem}; from their public sources come {public}; your own is added as NAME=FILE or "
            "NAME=OWNER/DATASET@REVISION:SPLIT"
        )
    origin = Origin(repository=source.repository, revision=source.commit, part=source.path)
    with (
        making(cache, BenchmarkEntry, name, reporter) as place,
        tempfile.TemporaryDirectory(prefix="sweeps-benchmark-") as made,
    ):
        if place.existing and place.existing.origin == origin:
            return place.same_or_refused(place.existing, True)
        with about(str(source)):
            file = Path(made) / Path(source.path).name
            file.write_bytes(_fetched(source, reporter))
        return _stored(read_upstream(name, [file], str(source)), origin, place)


def add_file(name: str, file: Path, cache: Path, reporter: Reporter) -> BenchmarkEntry:
    """Take a benchmark from a file: JSONL, JSON, CSV or Parquet with problems and answers.

    Raises: ConfigError, if it cannot be read or is not what the catalog says of that name.
    """
    if not file.is_file():
        raise ConfigError(f"{file}: there is no such file")
    source = str(KNOWN_BENCHMARKS[name].source) if name in KNOWN_BENCHMARKS else file.name
    with making(cache, BenchmarkEntry, name, reporter) as place:
        return _stored(read_upstream(name, [file], source), Origin(), place)


def add_hub(
    name: str, reference: str, config: str | None, cache: Path, token: str | None, reporter: Reporter
) -> BenchmarkEntry:
    """Take a benchmark from a split of a dataset of the Hub, written OWNER/DATASET@REVISION:SPLIT.

    Raises: ConfigError; HubError: what has come stays, and the same call goes on.
    """
    if not (match := _REFERENCE.fullmatch(reference)):
        raise ConfigError(f"{reference!r} is neither a file nor OWNER/DATASET@REVISION:SPLIT of the Hub")
    repository = Repository("dataset", match["dataset"], token, reporter)
    part = f"{config}/{match['split']}" if config else match["split"]
    origin = Origin(repository=repository.name, revision=repository.commit, part=part)
    with making(cache, BenchmarkEntry, name, reporter, repository.commit) as place:
        if place.existing and place.existing.origin == origin:
            return place.same_or_refused(place.existing, True)
        with about(str(repository)):
            files = fetched_splits(repository, config, place, only=match["split"])[match["split"]]
        return _stored(read_upstream(name, files, f"{repository}:{part}"), origin, place)


def _stored(problems: Sequence[BenchmarkProblem], origin: Origin, place: Making[BenchmarkEntry]) -> BenchmarkEntry:
    content = jsonl(problems).encode()
    if not place.existing:
        place.begin(len(content))
        (place.folder / PROBLEMS_FILE).write_bytes(content)
    digests = {PROBLEMS_FILE: hashlib.sha256(content).hexdigest()}
    return place.finish(origin, digests, len(content), problems=len(problems))


def _fetched(source: UpstreamSource, reporter: Reporter) -> bytes:
    """Fetch a file of a public repository, out of Git LFS if it is kept there."""
    path = f"{source.repository}/{source.commit}/{source.path}"
    content = _read(f"{RAW}/{path}", source, reporter)
    if not (pointer := _POINTER.fullmatch(content)):
        return content
    content = _read(f"{MEDIA}/{path}", source, reporter)
    if hashlib.sha256(content).hexdigest() != pointer["sha256"].decode():
        raise ConfigError("what came is not what the repository names (another sha256); ask again")
    return content


def _read(url: str, source: UpstreamSource, reporter: Reporter) -> bytes:
    remedy = f"fetch it elsewhere and add it as NAME=FILE: {url}"
    content = bytearray()
    try:
        with httpx.stream("GET", url, timeout=_TIMEOUT_S, follow_redirects=True) as response:
            if not response.is_success:
                raise ConfigError(f"{httpx.URL(url).host} answers {response.status_code}; ask again later, or {remedy}")
            total = int(response.headers.get("Content-Length", 0))
            for chunk in response.iter_bytes():
                content += chunk
                reporter.progress(Path(source.path).name, len(content), max(total, len(content)))
                if len(content) > _LARGEST:
                    raise ConfigError(f"it has more than {_LARGEST >> 20} MiB, so it is not the benchmark; {remedy}")
    except httpx.HTTPError as error:
        raise ConfigError(f"the connection to {httpx.URL(url).host} fails ({type(error).__name__}); {remedy}") from None
    return bytes(content)
