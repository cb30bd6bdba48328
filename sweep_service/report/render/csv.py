"""The report's tables as CSV, for spreadsheets and data frames.

UTF-8, commas, a header, one record a line. Texts are quoted, numbers are not, and missing values are empty texts.
A text that a spreadsheet would take for a formula is led by an apostrophe.
"""

import csv
import io
from collections.abc import Sequence
from typing import Any, Final, Literal

from sweep_service.health.run_health import COLUMNS
from sweep_service.report.model import BenchmarkCell, BenchmarkTable, Report
from sweep_service.report.render.views import deltas, reference, varied
from sweep_service.sweep.records import Stage
from trainers.printable import printable

Table = Literal["trials", "configs"]

_TRIAL_FIELDS: Final = (
    "stage", "seed", "state", "attempts", "step", "total_steps", "objective", "evaluation_se", *COLUMNS, "tokens",
    "seconds",
)  # fmt: skip
_CONFIG_FIELDS: Final = (*COLUMNS, "evaluation_se", "tokens", "hours")
"""Columns that are fields of `TrialRow` and of `ConfigRow`, by the same name."""
_CONFIRM_FIELDS: Final = ("mean", "low", "high", "sd", "n", "planned")
_TUNE_FIELDS: Final = ("mean", "sd", "n", "planned")
_DELTA_FIELDS: Final = ("difference", "low", "high")
_FORMULA: Final = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""Characters with which a formula may begin, the full-width forms of the signs included."""


def render_csv(report: Report, table: Table = "trials") -> bytes:
    """Render one record a trial, or one a config. Equal reports give equal bytes."""
    header, rows = _trials(report) if table == "trials" else _configs(report)
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow([inert(name) for name in header])
    writer.writerows([inert(value) for value in row] for row in rows)
    return text.getvalue().encode()


def inert(value: Any) -> Any:
    """Return a cell on which no spreadsheet and no terminal acts: a possible formula is led by `'`."""
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    text = printable(str(value))
    if not (text.startswith(_FORMULA) or text.lstrip().startswith(_FORMULA)):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text if text == text.strip() else f"'{text}"


def _trials(report: Report) -> tuple[list[str], list[list[Any]]]:
    names, configs = varied(report), {row.id: row for row in report.configs}
    head, tail = ["trial_id", "trial", "config_id", "config", "roles"], ["warnings", "message", "mlflow_url"]
    measured = report.benchmarks.names if report.benchmarks else []
    rows = [
        [
            trial.id, trial.number, trial.config_id, trial.label, " ".join(configs[trial.config_id].roles),
            *(configs[trial.config_id].params.get(name) for name in names), *_fields(trial, _TRIAL_FIELDS),
            *(trial.benchmarks.get(name) for name in measured),
            " ".join(warning.code for warning in trial.warnings), trial.message, trial.mlflow_url,
        ]
        for trial in report.trials
    ]  # fmt: skip
    scores = [f"benchmark/{name}" for name in measured]
    return [*head, *names, *_TRIAL_FIELDS, *scores, *tail], rows


def _fields(record: object, names: Sequence[str]) -> list[Any]:
    """Return these fields of a record, flags as numbers; without a record, None for each."""
    values = [None if record is None else getattr(record, name) for name in names]
    return [int(value) if isinstance(value, bool) else value for value in values]


def _configs(report: Report) -> tuple[list[str], list[list[Any]]]:
    names, against, scores = varied(report), reference(report), _benchmark_columns(report.benchmarks)
    confirm, tune = deltas(report, Stage.CONFIRM), deltas(report, Stage.TUNE)
    header = [
        "config_id", "config", "label", "roles", "loss", *names,
        *(f"confirm_{name}" for name in _CONFIRM_FIELDS), *(f"tune_{name}" for name in _TUNE_FIELDS),
        "reference_id", "confirm_delta", "confirm_delta_low", "confirm_delta_high", "tune_delta",
        *_CONFIG_FIELDS, *scores,
    ]  # fmt: skip
    measured = [row for row in report.benchmarks.rows if not row.initial] if report.benchmarks else []
    benchmarks = {row.config_id: [row.stage, *(one for cell in row.cells for one in _score(cell))] for row in measured}
    rows = [
        [
            row.id, row.number, row.label, " ".join(row.roles), row.loss, *(row.params.get(name) for name in names),
            *_fields(row.confirm, _CONFIRM_FIELDS), *_fields(row.tune, _TUNE_FIELDS),
            against.id if against else None,
            *_fields(confirm.get(row.id), _DELTA_FIELDS), *_fields(tune.get(row.id), ["difference"]),
            *_fields(row, _CONFIG_FIELDS), *benchmarks.get(row.id, [None] * len(scores)),
        ]
        for row in report.configs
    ]  # fmt: skip
    return header, rows


def _benchmark_columns(table: BenchmarkTable | None) -> list[str]:
    """Name the column of the measured stage and those of `_score`, for each benchmark and for their mean."""
    if table is None:
        return []
    names = [f"benchmark/{column.benchmark or 'mean'}" for column in table.columns]
    parts = ("", "_n", "_delta", "_delta_low", "_delta_high")
    return ["benchmark_stage", *(f"{name}{part}" for name in names for part in parts)]


def _score(cell: BenchmarkCell | None) -> list[Any]:
    """Return a score with its seeds and its difference from the baseline."""
    return [*_fields(cell, ("mean", "num_seeds")), *_fields(cell and cell.difference, _DELTA_FIELDS)]
