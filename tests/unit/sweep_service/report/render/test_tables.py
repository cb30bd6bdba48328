"""Every cell of every table, derived a second time from a report in which no two numbers are equal."""

import csv
import io
import itertools
import random
import re
from html.parser import HTMLParser
from statistics import fmean
from typing import Any

import pytest
from pydantic import BaseModel

from sweep_service.health.run_health import COLUMNS
from sweep_service.report import Report
from sweep_service.report.build import build
from sweep_service.report.formatting import NOTHING, estimate, interval, number, signed
from sweep_service.report.model import BenchmarkCell, ConfigRow, StageResult
from sweep_service.report.render.csv import Table, render_csv
from sweep_service.report.render.html import render_html
from sweep_service.report.render.markdown import render_markdown
from sweep_service.sweep.labels import short_name, value_text
from sweep_service.sweep.records import Config, Role, Stage, Trial, TrialState, TrialWarning
from tests.unit.sweep_service.report.report_benchmarks import measured_inputs
from tests.unit.sweep_service.report.report_parts import with_every_part
from tests.unit.sweep_service.report.report_sweeps import succeed

UNTOUCHED = {"initial", "seed", "step", "number"}
"""Fields by which rows are told apart and paired."""
Row = list[tuple[str, Any]]
"""The cells of a row, each with its column's name."""


def all_different(value: Any, numbers: Any, coins: random.Random) -> Any:
    """The same value with a number of its own in every field, and with flags that are drawn."""
    if isinstance(value, BaseModel):
        fields = {name: getattr(value, name) for name in type(value).model_fields if name not in UNTOUCHED}
        return value.model_copy(update={name: all_different(one, numbers, coins) for name, one in fields.items()})
    if isinstance(value, list):
        return [all_different(one, numbers, coins) for one in value]
    if isinstance(value, dict):
        return {key: all_different(one, numbers, coins) for key, one in value.items()}
    if isinstance(value, bool):
        return coins.random() < 0.5
    if isinstance(value, int):
        return next(numbers)
    return (next(numbers) * 0.61803) % 0.9 + 0.05 if isinstance(value, float) else value


@pytest.fixture(scope="module")
def report() -> Report:
    def fate(config: Config, trial: Trial) -> Trial:
        if trial.number % 7 == 3:
            return trial.model_copy(update={"state": TrialState.FAILED, "step": 40, "message": f"m{trial.number}"})
        warnings = tuple(
            TrialWarning(code=f"ODD_{n}", message="", evidence={}, step=1) for n in range(trial.number % 3)
        )
        return succeed(config, trial.model_copy(update={"warnings": warnings}))

    built = build(measured_inputs(fate=fate, fails=lambda one: one.seed == 11))
    whole = with_every_part(built).model_copy(update={"benchmarks": built.benchmarks})
    return all_different(whole, itertools.count(101), random.Random(0))


def baseline_of(report: Report) -> ConfigRow:
    return next(row for row in report.configs if Role.BASELINE in row.roles)


def delta(report: Report, row: ConfigRow, stage: Stage) -> tuple[Any, Any, Any]:
    """A config minus the baseline: the comparison that was made, else the mean over the seeds that both have."""
    base = baseline_of(report)
    made = [c for c in report.comparisons if (c.config_id, c.comparator_id) == (row.id, base.id)]
    if made and stage is Stage.CONFIRM:
        return made[0].difference, made[0].low, made[0].high
    own, other = row.stage(stage), base.stage(stage)
    if own is None or other is None or row is base:
        return None, None, None
    return fmean(own.by_seed[seed] - other.by_seed[seed] for seed in own.by_seed.keys() & other.by_seed), None, None


# CSV


def config_record(report: Report, row: ConfigRow) -> dict[str, Any]:
    record = {"config_id": row.id, "config": row.number, "label": row.label, "roles": " ".join(row.roles)}
    record |= {"loss": row.loss, **row.params, "reference_id": baseline_of(report).id}
    for stage in Stage:
        names = (
            ("mean", "low", "high", "sd", "n", "planned") if stage is Stage.CONFIRM else ("mean", "sd", "n", "planned")
        )
        result = row.stage(stage)
        record |= {f"{stage}_{name}": result and getattr(result, name) for name in names}
        bounds = ("", "_low", "_high") if stage is Stage.CONFIRM else ("",)
        record |= {f"{stage}_delta{end}": value for end, value in zip(bounds, delta(report, row, stage), strict=False)}
    record |= {name: getattr(row, name) for name in (*COLUMNS, "evaluation_se", "tokens", "hours")}
    measured = [one for one in report.benchmarks.rows if one.config_id == row.id and not one.initial]
    record["benchmark_stage"] = measured[0].stage if measured else None
    for place, name in enumerate(("aime24", "aime25", "mean")):
        cell = measured[0].cells[place] if measured else None
        ahead = cell and cell.difference
        record |= {f"benchmark/{name}": cell and cell.mean, f"benchmark/{name}_n": cell and cell.num_seeds}
        record |= {f"benchmark/{name}_delta": ahead and ahead.difference}
        record |= {
            f"benchmark/{name}_delta_low": ahead and ahead.low,
            f"benchmark/{name}_delta_high": ahead and ahead.high,
        }
    return record


def trial_record(report: Report, number: int) -> dict[str, Any]:
    trial = report.trials[number]
    config = next(row for row in report.configs if row.id == trial.config_id)
    same = ("config_id", "stage", "seed", "state", "attempts", "step", "total_steps", "objective", "evaluation_se")
    return {
        "trial_id": trial.id, "trial": trial.number, "config": trial.label, "roles": " ".join(config.roles),
        **config.params,
        **{name: getattr(trial, name) for name in (*same, *COLUMNS, "tokens", "seconds", "message", "mlflow_url")},
        **{f"benchmark/{name}": trial.benchmarks.get(name) for name in ("aime24", "aime25")},
        "warnings": " ".join(warning.code for warning in trial.warnings),
    }  # fmt: skip


def records(report: Report, table: Table) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(render_csv(report, table).decode())))


def written(record: dict[str, Any]) -> dict[str, str]:
    whole = {name: int(value) if isinstance(value, bool) else value for name, value in record.items()}
    return {name: "" if value is None else str(value) for name, value in whole.items()}


def test_every_cell_of_the_csv_of_configs_is_the_field_that_its_column_names(report: Report) -> None:
    assert records(report, "configs") == [written(config_record(report, row)) for row in report.configs]


def test_every_cell_of_the_csv_of_trials_is_the_field_that_its_column_names(report: Report) -> None:
    assert records(report, "trials") == [written(trial_record(report, n)) for n in range(len(report.trials))]


# Markdown


def with_interval(result: StageResult | None) -> str:
    return f"{number(result.mean)} {interval(result.low, result.high) or NOTHING}" if result else NOTHING


def difference(compared: Any) -> str:
    return estimate(compared.difference, compared.low, compared.high, sign=True) if compared else NOTHING


def config_cells(report: Report, row: ConfigRow) -> Row:
    beside = next((c for c in report.comparisons if c.config_id == row.id), None)
    names = [str(row.number), "**best**" if row.id == report.best.config_id else "", role_names(row)]
    ahead = delta(report, row, Stage.TUNE)[0]
    return [
        ("config", " ".join(filter(None, names))),
        *((short_name(name), NOTHING if value is None else value_text(value)) for name, value in row.params.items()),
        ("confirm mean, 95 %", with_interval(row.confirm)),
        ("sd over seeds", number(row.confirm and row.confirm.sd)),
        ("n", str(row.confirm.n if row.confirm else 0)),
        (f"minus the baseline, sound runs, {confidence(report)}", difference(beside)),
        ("", beside.outcome if beside else NOTHING),
        ("tune mean", number(row.tune and row.tune.mean)),
        ("minus baseline", NOTHING if ahead is None else signed(ahead)),
        ("n", str(row.tune.n if row.tune else 0)),
        ("entropy", f"{number(row.entropy_start, 2)} → {number(row.entropy_end, 2)}"),
        ("reward peak → final", f"{number(row.reward_peak, 2)} → {number(row.reward_final, 2)}"),
        ("ruined", f"{row.ruined} of {sum(row.states.values())}"),
    ]


def role_names(row: ConfigRow) -> str:
    return " ".join("DAPO" if role is Role.DAPO else role for role in row.roles if role is not Role.SPACE)


def confidence(report: Report) -> str:
    return f"{100 * max(c.confidence for c in report.comparisons):.4g} %"


def score(cell: BenchmarkCell | None, leads: bool) -> str:
    if cell is None:
        return NOTHING
    mean = number(cell.mean) + ("" if cell.k is None else f" avg@{cell.k}")
    ahead = f"; {difference(cell.difference)}{' *shown*' if cell.difference.shown else ''}" if cell.difference else ""
    return f"{f'**{mean}**' if leads else mean}{ahead}; n {cell.num_seeds}; {cell.num_problems} problems"


def benchmark_cells(report: Report, place: int) -> Row:
    row, columns = report.benchmarks.rows[place], report.benchmarks.columns
    entropy = None if row.initial else next(c.entropy_kept for c in report.configs if c.id == row.config_id)
    return [
        ("model", row.label),
        *(
            (
                f"{column.benchmark or 'mean over benchmarks'}, Δ baseline, 95 %",
                score(cell, column.leader == row.config_id and not row.initial),
            )
            for column, cell in zip(columns, row.cells, strict=True)
        ),
        ("entropy kept", number(entropy, 2)),
        ("missing", ", ".join(f"{n} {reason}" for reason, n in row.missing.items()) or NOTHING),
    ]


def passes(report: Report, place: int, name: str) -> list[Row]:
    return [
        [(name, row.label), *((f"pass@{k}", number(cell.pass_at_k[k])) for k in (1, 2, 4, 8, 16))]
        for row in report.benchmarks.rows
        if (cell := row.cells[place])
    ]


def comparison_cells(report: Report, place: int) -> Row:
    made = report.comparisons[place]
    pair = (made.config_id, made.comparator_id)
    at_cost = {one.unit: one for one in report.budgets if (one.config_id, one.comparator_id) == pair}
    return [
        ("config", made.label),
        ("minus", made.comparator_label),
        ("", made.outcome),
        (f"at equal steps, {confidence(report)}", difference(made)),
        *((f"at equal {unit}", difference(at_cost[unit])) for unit in ("tokens", "hours")),
        ("seeds", str(made.num_seeds)),
    ]


def expected_tables(report: Report) -> list[list[Row]]:
    best, stages = report.best, ("tune", "confirm")
    return [
        [config_cells(report, row) for row in report.configs],
        [benchmark_cells(report, place) for place in range(len(report.benchmarks.rows))],
        passes(report, 0, "aime24"),
        passes(report, 1, "aime25"),
        [
            [
                ("stage", stage),
                ("mean", number(result.mean)),
                ("95 % interval", interval(result.low, result.high) or NOTHING),
                ("seeds", str(result.n)),
            ]
            for stage, result in zip(stages, (best.tune, best.confirm), strict=True)
        ],
        [comparison_cells(report, place) for place in range(len(report.comparisons))],
        [
            [
                ("parameter", effect.label),
                ("value", level.text),
                ("adjusted mean, 95 %", estimate(level.mean, level.low, level.high)),
                ("configs", str(level.configs)),
            ]
            for effect in report.exploration.effects
            for level in effect.levels
        ],
        [
            [
                ("", f"**{claim.outcome}**"),
                ("claim", claim.claim),
                ("evidence here", claim.evidence),
                ("estimate, 95 %", estimate(claim.estimate, claim.low, claim.high)),
            ]
            for claim in report.claims
        ],
    ]


def markdown_tables(report: Report) -> list[list[Row]]:
    text = render_markdown(report).decode().replace("\\", "")
    blocks = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
    cells = [[line.removeprefix("|").removesuffix("|").split("|") for line in lines] for lines in blocks]
    stripped = [[[cell.strip() for cell in line] for line in table] for table in cells]
    return [[list(zip(table[0], line, strict=True)) for line in table[2:]] for table in stripped]


def test_every_cell_of_every_markdown_table_is_what_its_column_names(report: Report) -> None:
    for rendered, expected in zip(markdown_tables(report), expected_tables(report), strict=True):
        assert rendered == expected


# HTML


class Cells(HTMLParser):
    """The first table of a section: the text of each cell, and the value by which it is sorted."""

    def __init__(self, page: str, section: str) -> None:
        super().__init__()
        self.rows: list[list[list[str | None]]] = []
        self.feed(re.search(rf'(?s)<section id="{section}">.*?</table>', page).group())  # type: ignore[union-attr]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append(["", dict(attrs).get("data-v")])
        elif tag == "br":
            self.handle_data(" ")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1][0] += data

    def named(self) -> list[Row]:
        head, *body = [[(" ".join(text.strip("◂▸ ").split()), by) for text, by in row] for row in self.rows]
        return [[(name, cell) for (name, _), cell in zip(head, row, strict=True)] for row in body]


def sorted_by(value: Any) -> str:
    return "" if value is None else str(value)


def page_config(report: Report, row: ConfigRow) -> Row:
    beside = next((c for c in report.comparisons if c.config_id == row.id), None)
    highest = max(report.configs, key=lambda one: one.confirm.mean if one.confirm else 0)
    mark = "best of the space" if row.id == report.best.config_id else "highest" if row is highest else ""
    names = [f"#{row.number}", mark, role_names(row)]
    hidden = (TrialState.SUCCEEDED, TrialState.DIVERGED)
    states = [f"{n} {state.lower()}" for state, n in row.states.items() if state not in hidden]
    seeds = [f"{row.confirm.n if row.confirm else 0} + {row.tune.n if row.tune else 0}", f"{row.ruined} ruined"]
    confirm, tune = (getattr(one, "mean", None) for one in (row.confirm, row.tune))
    return [
        ("Config", (" ".join(filter(None, names)), str(row.number))),
        *(
            (short_name(name), (NOTHING if value is None else value_text(value), sorted_by(value)))
            for name, value in row.params.items()
        ),
        ("Confirm mean, 95 %", (with_interval(row.confirm), sorted_by(confirm))),
        (
            f"Difference from the baseline, sound runs, {confidence(report)}",
            (difference(beside), sorted_by(beside and beside.difference)),
        ),
        ("0", ("", None)),
        ("", (beside.outcome if beside else "", None)),
        ("Tune mean", (number(tune), sorted_by(tune))),
        ("Seeds confirm + tune", (" ".join([*seeds, *states]), None)),
        ("Entropy kept", (f"{round(100 * row.entropy_kept)} %", str(row.entropy_kept))),
    ]


def page_benchmark(report: Report, place: int, shared: str) -> Row:
    row, columns = report.benchmarks.rows[place], report.benchmarks.columns
    entropy = next(one.entropy_kept for one in report.configs if one.id == row.config_id)
    seeds = max((cell.num_seeds for cell in row.cells if cell), default=0)
    missing = [f"{n} {reason}" for reason, n in row.missing.items()]
    cells = [
        page_score(cell, seeds, column.leader == row.config_id and not row.initial, shared)
        for column, cell in zip(columns, row.cells, strict=True)
    ]
    names = [f"{column.benchmark or 'mean over benchmarks'} {shared}".strip() for column in columns]
    return [
        ("Model", (" ".join([row.label, ", ".join(missing)]).strip(), None)),
        ("Seeds", (NOTHING if row.initial else str(seeds), None)),
        *(
            (name, (text, sorted_by(cell and cell.mean)))
            for name, text, cell in zip(names, cells, row.cells, strict=True)
        ),
        ("Entropy kept", (NOTHING, "") if row.initial else (f"{round(100 * entropy)} %", str(entropy))),
    ]


def page_score(cell: BenchmarkCell | None, seeds: int, leads: bool, shared: str) -> str:
    if cell is None:
        return NOTHING
    parts, ahead = [number(cell.mean), "highest" if leads else ""], cell.difference
    if ahead:
        parts += [signed(ahead.difference), interval(ahead.low, ahead.high, sign=True), "shown" if ahead.shown else ""]
    if shared and cell.num_seeds == seeds:
        return " ".join(filter(None, parts))
    average = "" if cell.k is None else f"avg@{cell.k}, "
    return " ".join(filter(None, [*parts, f"{cell.num_seeds} seeds, {average}{cell.num_problems} problems"]))


def test_every_cell_of_the_page_s_table_of_configs_is_what_its_column_names(report: Report) -> None:
    rendered = Cells(render_html(report).decode(), "configs").named()
    assert rendered == [page_config(report, row) for row in report.configs]


@pytest.mark.parametrize("shared", ["", "avg@16, 30 problems"])
def test_every_cell_of_the_page_s_table_of_benchmarks_is_what_its_column_names(report: Report, shared: str) -> None:
    if shared:  # by all cells of every column, so that its head says it once
        table = report.benchmarks
        alike = {"k": 16, "num_problems": 30}
        cells = [[cell and cell.model_copy(update=alike) for cell in row.cells] for row in table.rows]
        rows = [row.model_copy(update={"cells": own}) for row, own in zip(table.rows, cells, strict=True)]
        report = report.model_copy(update={"benchmarks": table.model_copy(update={"rows": rows})})
    rendered = Cells(render_html(report).decode(), "benchmarks").named()
    assert rendered == [page_benchmark(report, place, shared) for place in range(len(report.benchmarks.rows))]
