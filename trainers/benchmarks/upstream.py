"""Takes a benchmark's problems out of the forms they are published in: a file, or a dataset in the hub's cache."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Self

from pydantic import Field

from trainers.benchmarks.catalog import CATALOG
from trainers.benchmarks.problems import BenchmarkProblem, ProblemSet, check_problems, jsonl
from trainers.config import Frozen
from trainers.errors import ConfigError

_THOUSANDS: Final = re.compile(r"-?\d{1,3}(,\d{3})+(\.\d+)?")
_REFERENCE: Final = re.compile(r"(?P<dataset>[\w.-]+/[\w.-]+)@(?P<revision>[0-9a-f]{40}):(?P<split>[\w.-]+)")


class HubDataset(Frozen):
    """A split of a Hugging Face dataset at one commit, written OWNER/DATASET@REVISION:SPLIT."""

    dataset: str
    revision: str = Field(description="The whole commit, 40 hexadecimal digits: branches and tags move.")
    split: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises: ConfigError, if the text has another form."""
        if not (match := _REFERENCE.fullmatch(text)):
            raise ConfigError(
                f"--hub: {text!r} is not OWNER/DATASET@REVISION:SPLIT with a whole commit, 40 hex digits, as revision"
            )
        return cls(**match.groupdict())

    def __str__(self) -> str:
        return f"{self.dataset}@{self.revision}:{self.split}"


def read_hub(name: str, source: HubDataset) -> ProblemSet:
    """A benchmark's problems from the hub's cache on this machine; nothing is fetched.

    `datasets` alone would, without a network, take any revision it finds of the dataset: here the folder of exactly
    this revision is named to it.

    Raises: ConfigError, if the revision is not in the cache, or does not hold this benchmark.
    """
    import datasets
    from huggingface_hub import snapshot_download

    try:
        folder = snapshot_download(source.dataset, repo_type="dataset", revision=source.revision, local_files_only=True)
        records = list(datasets.load_dataset(folder, split=source.split, streaming=True))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"benchmark {name}: {source} cannot be read ({error}); fetch it with `hf download --repo-type dataset "
            f"{source.dataset} --revision {source.revision}`"
        ) from error
    problems = converted(name, records, str(source))
    return ProblemSet(problems, str(source), hashlib.sha256(jsonl(problems).encode()).hexdigest())


def read_upstream(name: str, file: Path) -> list[BenchmarkProblem]:
    """A benchmark's problems from the file that its source in the catalog names: JSONL, or a JSON list.

    Raises: ConfigError, if it cannot be read or does not hold this benchmark.
    """
    try:
        text = file.read_text(encoding="utf-8")
        lines = text.removesuffix("\n").split("\n")
        records: Any = json.loads(text) if text.startswith("[") else [json.loads(line) for line in lines]
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{file}: neither JSONL nor a JSON list: {error}") from error
    return converted(name, records, str(CATALOG[name].source))


def converted(name: str, records: Iterable[Mapping[str, Any]], source: str) -> list[BenchmarkProblem]:
    """The distinct problems of published records, in order and numbered; files made for avg@k repeat each k times.

    Raises: ConfigError, if a record has no problem or answer, answers contradict, or the number is not the benchmark's.
    """
    answers, faults = dict[str, str](), list[str]()
    for number, record in enumerate(records, 1):
        problem, answer = _problem(record), _answer(record)
        if problem is None or answer is None:
            faults.append(f"{source}, record {number}: no problem or no answer among {', '.join(record)}")
        elif answers.setdefault(problem, answer) != answer:
            faults.append(f"{source}, record {number}: answer {answer!r}, but {answers[problem]!r} before")
    if faults:
        raise ConfigError(*faults[:3])
    problems = [
        BenchmarkProblem(id=f"{name}-{number:04d}", problem=problem, answer=answer, source=source)
        for number, (problem, answer) in enumerate(answers.items(), 1)
    ]
    check_problems(name, problems, source)
    return problems


def _problem(record: Mapping[str, Any]) -> str | None:
    """The text, also where it is a chat whose last message asks."""
    text: Any = record.get("problem") or record.get("question") or record.get("prompt")
    if isinstance(text, list):
        text = text[-1]["content"] if text else None
    return text if isinstance(text, str) and text else None


def _answer(record: Mapping[str, Any]) -> str | None:
    """The final answer: what follows #### of a solution, whole numbers without .0, digits not grouped by commas."""
    judged: Any = record.get("reward_model")
    value: Any = judged.get("ground_truth") if isinstance(judged, Mapping) else record.get("answer")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value if value is not None else "").rpartition("####")[2].strip()
    return (text.replace(",", "") if _THOUSANDS.fullmatch(text) else text) or None
