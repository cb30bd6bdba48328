import hashlib
import json
import math
import threading
from importlib import metadata
from pathlib import Path

import pytest

from tests.waiting import PATIENT_S
from trainers.evaluation.evaluate import EvaluationResult, base_evaluation
from trainers.evaluation.problem_counts import ProblemCounts

EVALUATION = EvaluationResult(
    {"eval/avg_at_k": 0.1 + 0.2, "eval/pass_at_k": None},
    [{"prompt": "6=", "reward": None}],
    ProblemCounts(["a", "b"], [2, 1], [1, 0]),
)


class Counted:
    """Computes `EVALUATION` and counts how often."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> EvaluationResult:
        self.calls += 1
        return EVALUATION


def test_an_evaluation_is_computed_once_for_each_key(tmp_path: Path) -> None:
    compute = Counted()
    assert base_evaluation(tmp_path, {"model": "a", "k": 4}, compute) == EVALUATION
    assert base_evaluation(tmp_path, {"k": 4, "model": "a"}, compute) == EVALUATION
    assert compute.calls == 1
    assert base_evaluation(tmp_path, {"model": "a", "k": 8}, compute) == EVALUATION
    assert compute.calls == 2


@pytest.mark.parametrize("damage", ["", "{", "null", "[]", '{"key": 1}', '{"metrics": {}, "samples": [], "key": "x"}'])
def test_a_damaged_file_is_computed_again_and_repaired(tmp_path: Path, damage: str) -> None:
    compute = Counted()
    base_evaluation(tmp_path, {}, compute)
    (file,) = tmp_path.glob("evaluations/*.json")
    file.write_text(damage)
    assert base_evaluation(tmp_path, {}, compute) == base_evaluation(tmp_path, {}, compute) == EVALUATION
    assert compute.calls == 2


def test_a_failed_computation_leaves_nothing_behind_and_the_next_one_succeeds(tmp_path: Path) -> None:
    def fail() -> EvaluationResult:
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        base_evaluation(tmp_path, {}, fail)
    assert not list(tmp_path.glob("evaluations/*.json"))
    assert base_evaluation(tmp_path, {}, Counted()) == EVALUATION


def test_those_who_need_the_same_evaluation_wait_for_the_first(tmp_path: Path) -> None:
    computing, waiting, results = threading.Event(), threading.Event(), []

    def compute() -> EvaluationResult:
        computing.set()
        assert waiting.wait(PATIENT_S)
        return EVALUATION

    first = threading.Thread(target=lambda: results.append(base_evaluation(tmp_path, {}, compute)))
    first.start()
    assert computing.wait(PATIENT_S)
    never = Counted()
    results.append(base_evaluation(tmp_path, {}, never, waiting.set))
    first.join()
    assert results == [EVALUATION, EVALUATION]
    assert never.calls == 0


@pytest.mark.parametrize("library", ["torch", "transformers", "trl", "math-verify", "sweep-service"])
def test_another_version_of_a_library_that_samples_or_judges_computes_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    compute, real = Counted(), metadata.version
    base_evaluation(tmp_path, {"model": "a"}, compute)
    monkeypatch.setattr(f"{base_evaluation.__module__}.version", lambda name: "0" if name == library else real(name))
    base_evaluation(tmp_path, {"model": "a"}, compute)
    assert compute.calls == 2


def test_the_cache_is_made_where_it_is_missing_and_files_are_named_by_their_key(tmp_path: Path) -> None:
    """Other names would hide what was computed before."""
    base_evaluation(tmp_path / "data" / "cache", {"model": "a"}, lambda: EVALUATION)
    (stored,) = (tmp_path / "data" / "cache" / "evaluations").glob("*.json")
    digest = hashlib.sha256(json.loads(stored.read_text(encoding="utf-8"))["key"].encode()).hexdigest()
    assert stored.stem == digest[:32]


def test_a_metric_that_is_not_finite_is_not_stored(tmp_path: Path) -> None:
    """Other programs could not read it; a metric that does not exist is None."""
    broken = EVALUATION._replace(metrics={"eval/avg_at_k": math.nan})
    with pytest.raises(ValueError, match="Out of range float values are not JSON compliant"):
        base_evaluation(tmp_path, {"model": "a"}, lambda: broken)
    assert base_evaluation(tmp_path, {"model": "a"}, lambda: EVALUATION) == EVALUATION


def test_an_evaluation_of_another_key_is_not_taken_for_this_one(tmp_path: Path) -> None:
    base_evaluation(tmp_path, {"model": "a"}, lambda: EVALUATION)
    (stored,) = tmp_path.glob("evaluations/*.json")
    content = json.loads(stored.read_text(encoding="utf-8"))
    stored.write_text(json.dumps(content | {"key": content["key"].replace("a", "b")}), encoding="utf-8")
    other = EVALUATION._replace(samples=[])
    assert base_evaluation(tmp_path, {"model": "a"}, lambda: other) == other
