import runpy
from pathlib import Path

from tests.unit.trainers.two_processes import ONE_PROCESS
from trainers.record.frozen_probe import FrozenCompletions
from trainers.record.metrics import EVALUATION_METRICS, STEP_METRICS, STEP_SECTIONS, SUMMARY_METRICS, find_metric
from trainers.record.rollout_stats import rollout_stats

DOCS = Path(__file__).parents[4] / "docs"


def test_the_documented_tables_are_those_of_the_code() -> None:
    page = (DOCS / "metrics.md").read_text(encoding="utf-8")
    assert runpy.run_path(str(DOCS / "metrics_table.py"))["with_tables"](page) == page, "run docs/metrics_table.py"
    for name, metric in {**STEP_METRICS, **EVALUATION_METRICS, **SUMMARY_METRICS}.items():
        assert f"| `{name}` | {metric.unit} | " in page


def test_parts_of_a_reward_have_unit_and_meaning() -> None:
    for name in ("reward/of_brief", "eval/reward_of_brief"):
        told = find_metric(name)
        assert told is not None
        assert told.unit == "reward"
        assert "one of several rewards" in told.meaning
    assert find_metric("entropy") == STEP_METRICS["entropy"]
    assert find_metric("eval/reward_mean") == EVALUATION_METRICS["eval/reward_mean"]
    assert find_metric("reward") is find_metric("mine/reward/of_x") is None


def test_no_name_stands_in_two_sections() -> None:
    assert len(STEP_METRICS) == sum(map(len, STEP_SECTIONS.values()))


def test_rollout_and_frozen_completions_emit_their_sections() -> None:
    assert rollout_stats([], 0, ONE_PROCESS).keys() == STEP_SECTIONS["Rollout"].keys()
    assert FrozenCompletions().take().keys() == STEP_SECTIONS["Frozen completions"].keys() | {"entropy_change/measured"}
