"""Evaluates a base model once for all runs that start from it, in a cache keyed by all that determines the result."""

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from trainers.evaluation.evaluate import EvaluationResult
from trainers.evaluation.problem_counts import ProblemCounts
from trainers.process.durable import write_whole
from trainers.process.locks import locked

_LIBRARIES: Final = ("torch", "transformers", "trl", "math-verify", "sweep-service")


def base_evaluation(
    cache: Path,
    key: Mapping[str, Any],
    compute: Callable[[], EvaluationResult],
    while_waiting: Callable[[], None] = lambda: None,
) -> EvaluationResult:
    """Return the stored evaluation of `key`, computing it if no process has done so before.

    Processes that need the same one wait for the first; if that one dies, the next computes it. A damaged file counts
    as missing.

    Args:
        cache: gets the result as evaluations/DIGEST.json.
        key: everything that determines the evaluation, as JSON: model, task, sampling; library versions are added.
        while_waiting: called a few times a second while another process computes; what it raises ends the waiting.
    """
    full_key = json.dumps({**key, "versions": {name: version(name) for name in _LIBRARIES}}, sort_keys=True)
    path = cache / "evaluations" / f"{hashlib.sha256(full_key.encode()).hexdigest()[:32]}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.with_suffix(".lock"), while_waiting):
        with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            stored = json.loads(path.read_text(encoding="utf-8"))
            counts = ProblemCounts(**stored["problems"])
            if stored["key"] == full_key:
                return EvaluationResult(stored["metrics"], stored["samples"], counts)
        evaluation = compute()
        content = evaluation._asdict() | {"problems": evaluation.problems._asdict()}
        write_whole(path, json.dumps({"key": full_key, **content}, allow_nan=False))
        return evaluation
