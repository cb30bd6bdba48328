"""What every figure of the report must be: JSON without NaN, known colours, user text escaped."""

import json
import re
from collections.abc import Sequence
from typing import Any

from sweep_service.report import Report
from sweep_service.report.figures import Figure

HOSTILE = "<b>x</b> <script>alert(1)</script> $\\beta_1$ %{x} &amp;"


def check(figures: Sequence[Figure]) -> None:
    """Fail if a figure could not be embedded, or shows user text as markup; the page escapes titles and notes."""
    ids = [figure["id"] for figure in figures]
    assert len(set(ids)) == len(ids)
    for figure in figures:
        dumped = json.dumps({"data": figure["data"], "layout": figure["layout"]}, allow_nan=False)
        assert "<script" not in dumped
        assert "<b>x" not in dumped
        assert "%{x} &" not in "".join(re.findall(r'"hovertemplate": "(.*?)"', dumped))
        assert set(re.findall(r'"@(\w+)"', dumped)) <= {
            *(f"{kind}{i}" for kind in "cs" for i in range(7)), "ink", "muted", "line", "grid", "card",
        }  # fmt: skip


def hostile(report: Report) -> Report:
    """The report with markup for labels and values of parameters."""
    rows = [
        row.model_copy(update={"label": f"{HOSTILE}{row.number}", "params": row.params | {"task.name": HOSTILE}})
        for row in report.configs
    ]
    return report.model_copy(update={"configs": rows})


def by_id(figures: Sequence[Figure]) -> dict[str, Any]:
    """Figures by their ids."""
    return {figure["id"]: figure for figure in figures}
