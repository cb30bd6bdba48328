"""docs/results.md says what docs/results/*.json holds, which is every run of bench/studies.py."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a module by the name under which scripts beside it do."""
    monkeypatch.syspath_prepend(ROOT / "bench")
    return import_module


def curves() -> dict[str, Any]:
    return {file.stem: json.loads(file.read_text()) for file in (ROOT / "docs" / "results").glob("*.json")}


def test_the_tables_are_those_of_the_curves(bench: Any, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "results.md").read_text()
    copy = tmp_path / "results.md"
    copy.write_text(page.replace("| GRPO |", "| stale |"))
    bench("tables").write_tables(curves(), copy)
    assert copy.read_text() == page


def test_every_run_of_every_study_is_kept(bench: Any) -> None:
    kept = curves()
    for name, study in bench("studies").STUDIES.items():
        runs = [kept[name][setting][loss] for setting in study.settings for loss in study.losses]
        assert all(list(map(int, seeds)) == list(study.seeds) for seeds in runs)


def test_a_run_is_read_in_points_of_equal_length(bench: Any, tmp_path: Path) -> None:
    metrics = dict.fromkeys((*bench("curves").CURVES, *bench("curves").MEANS))
    events: list[dict[str, Any]] = [{"type": "started", "config": {"steps": 120}}]
    events += [{"type": "step", "step": s, "metrics": {**metrics, "entropy": s}} for s in range(1, 121)]
    events += [{"type": "finished", "outcome": "SUCCEEDED"}]
    file = tmp_path / "events.jsonl"
    file.write_text("".join(json.dumps(event) + "\n" for event in events))
    run = bench("curves").read_run(file)
    assert run["entropy"] == [1.5 + 2 * point for point in range(60)]
    assert run["probe/entropy"] == [None] * 60
    assert (run["steps"], run["outcome"]) == (120, "SUCCEEDED")


def test_differences_are_paired_by_seed(bench: Any) -> None:
    def runs(*scores: float) -> dict[str, Any]:
        return {str(i): {"outcome": "SUCCEEDED", "eval/avg_at_k": [0.0, s, s, s]} for i, s in enumerate(scores)}

    shown = bench("tables")._difference("eval/avg_at_k", runs(0.3, 0.5), runs(0.2, 0.3))
    assert shown == "+0.150 [-0.485, +0.785]"  # t(1, 0.975) = 12.706, standard error 0.05
