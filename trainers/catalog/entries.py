"""The entries of the cache: models, datasets and benchmarks, each with the record of where it came from.

    <cache>/models/NAME/        a Hugging Face model folder, safetensors only
    <cache>/datasets/NAME/      SPLIT.jsonl, an object a line, columns as they were
    <cache>/benchmarks/NAME/    problems.jsonl with `id`, `problem`, `answer`

Each folder has its record in `catalog.json`, and is complete once it has its name. Datasets and benchmarks that come
with the package are in every catalog and in no cache. Imports no torch.
"""

import functools
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

import trainers
from trainers.errors import ConfigError

ENTRY_FILE: Final = "catalog.json"


class _Record(BaseModel):
    """Base of what is written to and read from `catalog.json`; later versions may write more."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class Origin(_Record):
    """The place that an entry came from."""

    repository: str | None = Field(default=None, description="On the Hub, or of GitHub; null: a local copy.")
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")] | None = Field(default=None, description="The commit.")
    part: str | None = Field(default=None, description="Configuration, split or file of it; null: all.")


class _Entry(_Record):
    name: str
    origin: Origin
    added_at: float | None = Field(description="Seconds since the Unix epoch; null: it comes with the package.")
    bytes: int = Field(ge=0)
    digest: str = Field(pattern=r"^[0-9a-f]{64}$", description="sha256 of all its files.")


class ModelEntry(_Entry):
    """A causal language model with its tokenizer."""

    architecture: str = Field(description="Such as Qwen2ForCausalLM.")
    parameters: int = Field(ge=1)
    weights_dtype: str = Field(description="Type of the stored weights, such as bfloat16.")
    context_length: int | None = Field(description="Tokens that a prompt and its completion may have together.")
    vocabulary: int
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    chat_template: bool = Field(description="True if its tokenizer has one.")


class DatasetEntry(_Entry):
    """Rows with named columns, in splits."""

    splits: Mapping[str, int] = Field(description="Rows of each split.")
    columns: tuple[str, ...]


class BenchmarkEntry(_Entry):
    """Problems that are only tested on, never trained on."""

    problems: int


Entry = ModelEntry | DatasetEntry | BenchmarkEntry
Kind = Literal["models", "datasets", "benchmarks"]
AnyEntry = TypeVar("AnyEntry", ModelEntry, DatasetEntry, BenchmarkEntry)
KINDS: Final[dict[type[Entry], Kind]] = {
    ModelEntry: "models",
    DatasetEntry: "datasets",
    BenchmarkEntry: "benchmarks",
}
"""The folder of each kind, and the word for it on the command line and in the API."""

_PACKAGE: Final = Path(trainers.__file__).parent
_SHIPPED: Final = {DatasetEntry: _PACKAGE / "tasks" / "data", BenchmarkEntry: _PACKAGE / "benchmarks" / "data"}


def entry_folder(cache: Path, entry_type: type[Entry], name: str) -> Path:
    """Return the folder of an entry of that name, whether it is there or not."""
    return cache / KINDS[entry_type] / name


def read_entry(cache: Path, entry_type: type[AnyEntry], name: str) -> AnyEntry:
    """Read the record of an entry. Raises: ConfigError, if there is none of that name."""
    kind, entry = KINDS[entry_type], find_entry(cache, entry_type, name)
    if entry is None:
        names = ", ".join(entry.name for entry in list_entries(cache, entry_type)) or "none"
        raise ConfigError(
            f"{name} is not in the catalog of {kind} (in {cache / kind} there are: {names}); add it with "
            f"`sweeps {kind} add`"
        )
    return entry


def find_entry(cache: Path, entry_type: type[AnyEntry], name: str) -> AnyEntry | None:
    """Return the record of an entry in the cache, if there is a readable one in the folder of that name.

    The entry takes the name of its folder, which may be a renamed copy.
    """
    path = entry_folder(cache, entry_type, name) / ENTRY_FILE
    try:
        return entry_type.model_validate_json(path.read_bytes()).model_copy(update={"name": path.parent.name})
    except (OSError, ValidationError):
        return None


def list_entries(cache: Path, entry_type: type[AnyEntry]) -> list[AnyEntry]:
    """List the entries of a kind by name; folders without a readable record do not count."""
    paths = sorted((cache / KINDS[entry_type]).glob(f"[!.]*/{ENTRY_FILE}"))
    return [entry for path in paths if (entry := find_entry(cache, entry_type, path.parent.name))]


def shipped_entries(entry_type: type[AnyEntry]) -> list[AnyEntry]:
    """List the entries of a kind that come with the package, by name."""
    return [_shipped_entry(entry_type, path) for path in _shipped_files(entry_type)]


def all_entries(cache: Path, entry_type: type[AnyEntry]) -> list[AnyEntry]:
    """List the entries of a kind by name: those of the package, and those that were added to the cache."""
    return sorted([*shipped_entries(entry_type), *list_entries(cache, entry_type)], key=lambda entry: entry.name)


def shipped_file(entry_type: type[AnyEntry], name: str) -> Path | None:
    """Return the file of an entry that comes with the package; None if there is none of that name."""
    return next((path for path in _shipped_files(entry_type) if path.stem == name), None)


def _shipped_files(entry_type: type[AnyEntry]) -> list[Path]:
    return sorted(_SHIPPED[entry_type].glob("*.jsonl")) if entry_type in _SHIPPED else []


@functools.cache
def _shipped_entry(entry_type: type[Any], path: Path) -> Any:
    content = path.read_bytes()
    lines, digest = content.split(b"\n")[:-1], hashlib.sha256(content).hexdigest()
    facts: dict[str, Any] = {"problems": len(lines)}
    if entry_type is DatasetEntry:
        facts = {"splits": {"train": len(lines)}, "columns": tuple(json.loads(lines[0]))}
    return entry_type(name=path.stem, origin=Origin(), added_at=None, bytes=len(content), digest=digest, **facts)
