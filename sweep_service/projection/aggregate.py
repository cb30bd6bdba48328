"""A sweep's configs as runs of their own, mean curves over seeds: so that MLflow's charts compare configs. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sweep_service.projection import words
from sweep_service.projection.colors import GROUP_TAG, config_color, group_name
from sweep_service.projection.mlflow_api import Point
from sweep_service.records import Config, Sweep
from sweep_service.report import Report
from sweep_service.report.labels import count
from sweep_service.report.model import ConfigRow

KEYS: Final = (
    "entropy",
    "reward/mean",
    "eval/avg_at_k",
    "eval/pass_at_k",
    "completion/length_mean",
    "share/na_lp",
    "share/pa_lp",
    "clip_fraction/low",
    "clip_fraction/high",
    "ppo_kl",
    "grad_norm",
    "probe/entropy",
)
"""The curves that a config's run has, where its trials recorded them."""


@dataclass(frozen=True)
class ConfigRun:
    """One config's run in MLflow."""

    name: str
    tags: dict[str, str]
    params: dict[str, str]
    points: list[Point]


def config_runs(sweep: Sweep, configs: dict[str, Config], report: Report) -> list[ConfigRun]:
    """Return a run for each config that has a curve, in the order of their numbers.

    Args:
        sweep: with its parent run.
        configs: by id.
        report: of the sweep, final.
    """
    rows = sorted(report.configs, key=lambda row: row.number)
    timestamp = words.milliseconds(sweep.ended_at or sweep.created_at)
    runs: list[ConfigRun] = []
    for row in rows:
        points = [*_curve_points(report, row.id, timestamp), *_final_points(row, timestamp)]
        if points:
            params = words.flat(configs[row.id].training)
            runs.append(ConfigRun(_name(row), _tags(sweep, row, report), params, points))
    return runs


def _name(row: ConfigRow) -> str:
    return f"{row.label}: mean of {count(sum(row.states.values()), 'trial')}"[: words.MAX_PARAM]


def _tags(sweep: Sweep, row: ConfigRow, report: Report) -> dict[str, str]:
    label = row.label[: words.MAX_TAG]
    best = {"best": "true"} if report.best and report.best.config_id == row.id else {}
    return {
        "mlflow.parentRunId": sweep.mlflow_run_id or "",
        "kind": "config",
        "sweep": sweep.name,
        "sweep_id": sweep.id,
        "number": f"{row.number:05}",  # sorts as text
        "config": label,
        GROUP_TAG: group_name(label, row.number),
        "mlflow.runColor": config_color(row.number),
        "config_id": row.id,
        "role": ",".join(row.roles),
        "loss": row.loss,
        "seeds": str(sum(row.states.values())),
        "report": report.inputs_digest,
        **best,
    }


def _curve_points(report: Report, config_id: str, timestamp: int) -> Iterator[Point]:
    for found in report.curves:
        for curve in found.configs if found.key in KEYS else ():
            if curve.config_id == config_id:
                for step, value in zip(curve.steps, curve.mean, strict=True):
                    if value is not None:
                        yield Point(words.metric_key(found.key), value, timestamp, step)


def _final_points(row: ConfigRow, timestamp: int) -> Iterator[Point]:
    """Closing figures at step 0, which MLflow draws as bars."""
    stages = {"confirm": row.confirm, "tune": row.tune}
    values = {f"final/{name}_mean": stage.mean for name, stage in stages.items() if stage}
    values |= {f"final/{name}_sd": stage.sd for name, stage in stages.items() if stage and stage.sd is not None}
    if row.confirm and row.confirm.low is not None and row.confirm.high is not None:
        values |= {"final/confirm_low": row.confirm.low, "final/confirm_high": row.confirm.high}
    values |= {"final/entropy_kept": row.entropy_kept} if row.entropy_kept is not None else {}
    for name, value in values.items():
        yield Point(name, value, timestamp, 0)
