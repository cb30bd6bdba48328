"""Writes the tables of `docs/metrics.md` from `trainers/record/metrics.py`: python docs/metrics_table.py."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from trainers.record.metrics import EVALUATION_METRICS, PARTS_OF_REWARD, STEP_SECTIONS, SUMMARY_METRICS, Metric

PAGE: Final = Path(__file__).with_name("metrics.md")
MARK: Final = "<!-- From here on made by docs/metrics_table.py. -->"


def with_tables(page: str) -> str:
    """The page with everything after `MARK` made anew."""
    text, mark, _ = page.partition(MARK)
    assert mark, f"{PAGE} has no line {MARK}"
    summary = {name: metric for name, metric in SUMMARY_METRICS.items() if name not in EVALUATION_METRICS}
    of_rewards = {f"{begin}NAME": metric for begin, metric in PARTS_OF_REWARD.items()}
    parts = [
        "## Of an optimizer update",
        *(f"### {title}\n\n{_table(metrics)}" for title, metrics in STEP_SECTIONS.items()),
        f"## Of an evaluation\n\n{_table(EVALUATION_METRICS)}",
        f"## Of each of several rewards\n\nWith [`task.further_rewards`](tasks.md):\n\n{_table(of_rewards)}",
        f"## Of the run's end\n\nThose of its last evaluation, and:\n\n{_table(summary)}",
    ]
    return text + "\n\n".join([MARK, *parts]) + "\n"


def _table(metrics: Mapping[str, Metric]) -> str:
    rows = [
        f"| `{name}` | {metric.unit} | {metric.meaning.replace('|', '&#124;')} |" for name, metric in metrics.items()
    ]
    return "\n".join(["| metric | unit | meaning |", "|---|---|---|", *rows])


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
