"""Makes the page of charts that MLflow shows for a sweep: a line per config, the mean over its seeds, entropy first.

By itself MLflow collapses child runs, draws nothing until somebody expands them, and sorts charts by name. A shared
view changes that: the page's settings as JSON in a tag of the experiment, which the page's address names. They are the
settings of MLflow 3.17's page; a server that does not understand them shows its usual page, and the test in
`tests/browser/test_mlflow_page.py` fails.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

from sweep_service.report import Report
from sweep_service.report.formatting import plain
from sweep_service.sweep.links import curves_link
from sweep_service.sweep.records import Sweep
from sweep_service.tracking.benchmark_words import MEAN
from sweep_service.tracking.mlflow_words import GROUP_TAG

TAG: Final = "mlflow.sharedViewState."
"""Prefix of the experiment's tag; the rest of the tag's name is the view's, for which we take the sweep's id."""

FIRST: Final = ("entropy", "reward/mean", "eval/avg_at_k", "entropy/na_lp", "entropy/pa_lp", "completion/length_mean")
"""Metrics at the top of the page: is entropy kept, does reward rise, does it hold on problems not trained on?"""

OF_CONFIGS: Final = ("entropy", "reward/mean", "eval/avg_at_k", "share/na_lp", "share/pa_lp", "completion/length_mean")
"""Metrics at the top of the page of configs' own runs, which have fewer curves."""

_LEGEND: Final = (2, 80)
"""Lines of a chart's legend, and characters in each; see `_SHAPE`."""
_SAMPLE: Final = 7
"""Width in characters of a coloured stroke before a name in a legend, and of the gap behind the name."""

_SECTION: Final = "main"
_SHAPE: Final = {"columns": 2, "cardHeight": 264}
"""The first four charts fill a window of 1280 by 900 pixels."""


def shared_view(sweep: Sweep, names: Sequence[str], *, by_config: bool = False) -> str:
    """Return the page's settings: a line per config, other metrics in sections by name.

    Args:
        names: a name for each line; the list of runs is hidden if a chart's legend holds all of them.
        by_config: show the configs' own runs, which exist once there is a final report; before that the trials,
            which MLflow then averages in groups.
    """
    objective = {"eval/avg_at_k": sweep.spec.objective.metric}
    keys = [objective.get(key, key) for key in (OF_CONFIGS if by_config else FIRST)]
    charts = [keys[0], MEAN, *keys[1:]] if sweep.benchmarks else keys
    groups = {"aggregateFunction": "average", "groupByKeys": [{"mode": "tag", "groupByData": GROUP_TAG}]}
    section = {"uuid": _SECTION, "name": "Main curves", "display": True, "isReordered": True} | _SHAPE
    view = {
        "searchFilter": f"tags.kind = '{'config' if by_config else 'trial'}' AND tags.sweep_id = '{sweep.id}'",
        "orderByKey": "tags.`number`",  # any order but the usual one keeps runs apart from their parents
        "orderByAsc": True,
        "groupBy": None if by_config else groups,
        "runListHidden": _fit_legend(names, MEAN if by_config and sweep.benchmarks else sweep.spec.objective.metric),
        "runsHiddenMode": "FIRST_20_RUNS",  # counts groups here
        "hideEmptyCharts": sweep.spec.trainer is not None,  # a program of one's own may never record what we do
        "isAccordionReordered": True,  # or sections are sorted by name again
        "compareRunSections": [section],
        "compareRunCharts": [_line(key) for key in charts],
    }
    return json.dumps(view, separators=(",", ":"))


def _fit_legend(names: Sequence[str], metric: str) -> bool:
    """True if a chart's legend has room for these names, behind each of which MLflow writes the metric."""
    most, width = _LEGEND
    lines, used = 1, 0
    for name in names:
        needed = _SAMPLE + len(f"{name} ({metric})")
        lines, used = (lines, used + needed) if used + needed <= width else (lines + 1, needed)
    return lines <= most


def _line(key: str) -> dict[str, Any]:
    return {
        "type": "LINE",
        "uuid": key,
        "metricSectionId": _SECTION,
        "metricKey": key,
        "xAxisKey": "step",
        "yAxisKey": "metric",
        "yAxisExpressions": [],
        "scaleType": "linear",
        "xAxisScaleType": "linear",
        "range": {},
        "useGlobalXaxisKey": True,
        "useGlobalLineSmoothing": True,
    }


def sweep_note(sweep: Sweep, report: Report | None) -> str:
    """Return the description of a sweep's run, in Markdown: its end, and the curves and files to look at."""
    parts = [f"**{report.verdict.sentence}**" if report else f"Sweep `{sweep.id}`: {sweep.state}."]
    if report and report.interim:
        parts.append("This is an interim report: every number may still change.")
    if sweep.message:
        parts += map(plain, sweep.message.splitlines())
    if report and report.cautions:
        parts.append("Warnings: " + ", ".join(f"`{caution.code}`" for caution in report.cautions) + ".")
    parts.append(
        f"[**Curves of this sweep**]({curves_link('.', sweep)}): a line per config, the mean over its seeds. "
        "`entropy` in nats: a config that loses it early stops exploring. `reward/mean` on training problems and "
        "`eval/avg_at_k` on validation problems: they should rise together and stay. Names that end in `na_lp` and "
        "`pa_lp`: the tokens that beta1 and beta2 weigh."
    )
    if sweep.benchmarks:
        names = ", ".join(sweep.benchmarks)
        parts.append(
            f"`{MEAN}`: mean of avg@k over the benchmarks {names}, at step 0 of the initial model. No config was "
            "chosen by it. Under Artifacts of a trial: `benchmarks/`, problem by problem."
        )
    parts.append(
        "Child runs are trials (`kind = trial`) and, once the report is final, configs (`kind = config`: mean curves "
        "over seeds). A trial's `final/objective` ranks configs; its run state is FAILED for diverged trials too, the "
        "tag `state` tells which."
    )
    if report:
        parts.append("Under Artifacts: `report.html` with intervals over seeds, `report.json`, and `report.png`.")
    return "\n\n".join(parts)
