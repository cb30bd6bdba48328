"""Reports with parts made by hand: hostile texts everywhere, every part present, very many trials."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sweep_service.report import Report
from sweep_service.report.build import build
from sweep_service.report.model import (
    BenchmarkCell,
    BenchmarkColumn,
    BenchmarkDifference,
    BenchmarkRow,
    BenchmarkTable,
    BestConfig,
    BudgetComparison,
    Caution,
    CheckpointRef,
    Claim,
    ConfigRow,
    Descriptive,
    Effect,
    EffectLevel,
    Exploration,
    Holds,
    Purchase,
    SampledCompletion,
    SampleGroup,
    Surface,
    TieMember,
    TieSet,
    Verdict,
)
from sweep_service.sweep.records import Config, Role, Stage, SweepState, Trial, TrialState, TrialWarning
from tests.unit.sweep_service.report.report_sweeps import succeed, sweep_inputs

CANARIES = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "[click](javascript:alert(1)) | ![x](http://evil.example/x.png) `code`",
    "{{7*7}} {{ 7*7 }} {% raw %} ${7*7}",
    "\u2028alert(1)\u2029",
    "javascript:alert(1)",
    "=cmd|' /C calc'!A0",
    "```\n</textarea></pre></style><svg onload=alert(1)>\n~~~",
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "\x1b[2J\x1b]0;retitled\x07\x9b31mred\x08",
)
"""Texts that would act in HTML, a script, JSON in a script, Markdown, Jinja, a spreadsheet or a terminal."""
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters on which a terminal acts, but tabs and line feeds."""
ALL = "\n".join(CANARIES)


def check_inert(markdown: str) -> None:
    """Fail if text of a user acts in Markdown: as an element, a link, a heading, a fence or a cell of a table."""
    for raw in ("<script", "<img", "<svg", "<!--"):
        assert raw not in markdown
    assert "](" not in markdown.replace("\\](", "").replace("\\]\\(", "")
    assert not re.search(r"(?m)^\s*(```|~~~|=|---$)", markdown)
    assert not OBEYED.search(markdown)
    assert markdown.count("## ") == len(re.findall(r"(?m)^#{2,} ", markdown))
    for table in (block for block in markdown.split("\n\n") if block.startswith("|")):
        assert len({line.count("|") - line.count("\\|") for line in table.splitlines()}) == 1, table


def hostile_report() -> Report:
    """A report in which every text that a user or a trainer can set holds canaries."""

    def fate(config: Config, trial: Trial) -> Trial:
        canary = CANARIES[trial.number % len(CANARIES)]
        warned = trial.model_copy(
            update={"warnings": (TrialWarning(code="ODD", message=canary, evidence={canary: canary}, step=1),)}
        )
        if trial.number % 3 == 0:
            return warned.model_copy(update={"state": TrialState.FAILED, "step": 8, "message": canary})
        return succeed(config, warned)

    inputs = sweep_inputs({"labels": {f"l{i}": text for i, text in enumerate(CANARIES)}}, fate=fate)
    sweep = inputs.sweep.model_copy(update={"message": " ".join(CANARIES), "state": SweepState.FAILED})
    configs = tuple(
        config.model_copy(
            update={
                "params": config.params | {"task.name": CANARIES[config.number], 'x"><b>': config.number},
                "training": config.training | {"note": ALL},
            }
        )
        for config in inputs.configs
    )
    report = build(replace(inputs, sweep=sweep, configs=configs, versions={CANARIES[0]: CANARIES[1]}))
    return with_every_part(report, lambda number: CANARIES[number % len(CANARIES)])


def with_every_part(report: Report, says: Callable[[int], str] = "sentence {}".format) -> Report:
    """Give a report every optional part that HTML and Markdown render; texts come from `says`, by number."""
    rows = [row for row in report.configs if row.confirm]
    parts: dict[str, Any] = {
        "verdict": _verdict(report, rows, says),
        "benchmarks": _benchmarks(rows, says),
        "cautions": [Caution(code=says(n), rule=says(n + 1), text=says(n + 2), trials=_ids(report)) for n in range(4)],
        "best": _best(report.best, report, says),
        "budgets": [
            BudgetComparison(
                config_id=found.config_id, comparator_id=found.comparator_id, unit=unit, budget=123_456.0,
                num_seeds=4, difference=0.0123, low=-0.0456, high=0.0789,
            )
            for found in report.comparisons
            for unit in ("steps", "tokens", "hours")
        ],
        "claims": [
            Claim(code=says(0), claim=says(n), outcome=outcome, evidence=says(n + 1), estimate=-0.25, low=-1, high=0.5)
            for n, outcome in enumerate(Holds)
        ],
        "exploration": _exploration(says),
        "descriptive": Descriptive(
            comparator_id=rows[0].id, thresholds=[], profiles=[], iqm={}, improvement={}, training_sd=0.0213,
            evaluation_se=0.0061,
        ),
        "samples": _samples(report, says),
        "method": [*report.method, says(5)],
    }  # fmt: skip
    return report.model_copy(update=parts)


def _ids(report: Report) -> list[str]:
    return [trial.id for trial in report.trials]


def _verdict(report: Report, rows: list[ConfigRow], says: Callable[[int], str]) -> Verdict:
    members = [
        TieMember(config_id=row.id, label=row.label, mean=row.confirm.mean, in_set=n < 2, low=-0.1, high=0.1)
        for n, row in enumerate(rows)
        if row.confirm
    ]
    more = Purchase(text=says(1), config_ids=[], more_seeds=4, difference=0.02, power=0.8)
    return report.verdict.model_copy(update={"ties": TieSet(members=members, text=says(0)), "next": more})


def _benchmarks(rows: list[ConfigRow], says: Callable[[int], str]) -> BenchmarkTable:
    difference = BenchmarkDifference(difference=0.1, low=0.05, high=0.15, num_seeds=4, num_problems=30, shown=True)
    cell = BenchmarkCell(mean=0.5, num_seeds=4, num_problems=30, k=8, pass_at_k={1: 0.5, 8: 0.8}, difference=difference)
    return BenchmarkTable(
        columns=[
            BenchmarkColumn(benchmark=says(1), leader=rows[0].id),
            BenchmarkColumn(benchmark=None, leader=None),
        ],
        rows=[
            BenchmarkRow(
                config_id=row.id, label=says(n), stage=Stage.CONFIRM, cells=[cell, None], missing={says(n + 1): 2}
            )
            for n, row in enumerate(rows)
        ],
        sentence=says(2),
        text=[says(n) for n in range(4)],
    )


def _best(best: BestConfig, report: Report, says: Callable[[int], str]) -> BestConfig:
    point = CheckpointRef(trial_id=report.trials[0].id, seed=0, stage=Stage.TUNE, step=8, path=says(3))
    return best.model_copy(
        update={
            "params": {says(2): says(3), "loss.beta1": 0.5},
            "evidence": [says(n) for n in range(4)],
            "others": [says(n) for n in range(8)],
            "checkpoints": [point],
            "mlflow_urls": ["javascript:alert(1)", "http://127.0.0.1:5000/#/x"],
            "provenance": {says(0): says(1)},
        }
    )


def _exploration(says: Callable[[int], str]) -> Exploration:
    levels = [
        EffectLevel(value=n, text=says(n), mean=0.5 + n / 10, low=0.45 + n / 10, high=0.55 + n / 10, configs=3)
        for n in range(3)
    ]
    effects = [Effect(name=says(n), label=says(n), levels=levels, df=2, f=3.0, p=0.04) for n in range(2)]
    at = {says(1): 0.5, "loss.beta1": 0.25}
    surface = Surface(
        names=list(at), terms={says(0): 0.1}, r2=0.7, residual_df=5, at=at, predicted=0.8, low=None, high=None,
        text=says(2),
    )  # fmt: skip
    return Exploration(effects=effects, error_sd=0.02, error_df=5, surface=surface, text=[says(n) for n in range(5)])


def _samples(report: Report, says: Callable[[int], str]) -> list[SampleGroup]:
    baseline = next(row for row in report.configs if Role.BASELINE in row.roles)
    rows = {"best": report.configs[0], "baseline": baseline, "worst": report.configs[-1]}
    items = [
        SampledCompletion(prompt=says(n), completion=says(n + 1), reward=None if n == 2 else 0.5) for n in range(11)
    ]
    return [
        SampleGroup.model_validate(
            {"role": role, "config_id": row.id, "label": says(place), "trial_id": report.trials[0].id, "seed": 0}
            | {"step": 240, "items": items[: 11 - place]}
        )
        for place, (role, row) in enumerate(rows.items())
    ]


def with_many_trials(report: Report, num: int) -> Report:
    """The report's trials over and over, each with an id and a number of its own."""
    trials = [
        report.trials[n % len(report.trials)].model_copy(update={"id": f"trl_{n:04}", "number": n}) for n in range(num)
    ]
    last = Caution(code="LAST", rule="a rule", text="met by the last trial", trials=[trials[-1].id])
    return report.model_copy(update={"trials": trials, "cautions": [last]})
