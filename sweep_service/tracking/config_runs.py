"""A sweep's configs as runs of their own, mean curves over seeds: so that MLflow's charts compare configs. Pure."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sweep_service.report import Report
from sweep_service.report.formatting import count
from sweep_service.report.model import ConfigRow
from sweep_service.sweep.records import Config, Sweep
from sweep_service.tracking import mlflow_words
from sweep_service.tracking.config_colors import GROUP_TAG, config_color, group_name
from sweep_service.tracking.mlflow_api import MetricPoint

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
    points: list[MetricPoint]


def config_runs(sweep: Sweep, configs: dict[str, Config], report: Report) -> list[ConfigRun]:
    """Return a run for each config that has a curve, in the order of their numbers.

    Args:
        sweep: with its parent run.
        configs: by id.
        report: of the sweep, final.
    """
    timestamp = mlflow_words.milliseconds(sweep.ended_at or sweep.created_at)
    curves = _curve_points(report, timestamp)
    trained = Counter(trial.config_id for trial in report.trials if trial.step > 0)
    runs: list[ConfigRun] = []
    for row in sorted(report.configs, key=lambda row: row.number):
        points = [*curves.get(row.id, []), *_final_points(row, timestamp)]
        if points:
            name = f"{row.label}: mean of {count(trained[row.id], 'trial')}"[: mlflow_words.MAX_PARAM]
            params = mlflow_words.flat(configs[row.id].training)
            runs.append(ConfigRun(name, _tags(sweep, row, report, trained[row.id]), params, points))
    return runs


def _tags(sweep: Sweep, row: ConfigRow, report: Report, trained: int) -> dict[str, str]:
    label = row.label[: mlflow_words.MAX_TAG]
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
        "seeds": str(trained),
        "report": report.inputs_digest,
        **best,
    }


def _curve_points(report: Report, timestamp: int) -> dict[str, list[MetricPoint]]:
    """By config id."""
    points: dict[str, list[MetricPoint]] = {}
    for found in report.curves:
        for curve in found.configs if found.key in KEYS else ():
            points.setdefault(curve.config_id, []).extend(
                MetricPoint(mlflow_words.metric_key(found.key), value, timestamp, step)
                for step, value in zip(curve.steps, curve.mean, strict=True)
                if value is not None
            )
    return points


def _final_points(row: ConfigRow, timestamp: int) -> Iterator[MetricPoint]:
    """Closing figures at step 0, which MLflow draws as bars."""
    stages = {"confirm": row.confirm, "tune": row.tune}
    values = {f"final/{name}_mean": stage.mean for name, stage in stages.items() if stage}
    values |= {f"final/{name}_sd": stage.sd for name, stage in stages.items() if stage and stage.sd is not None}
    if row.confirm and row.confirm.low is not None and row.confirm.high is not None:
        values |= {"final/confirm_low": row.confirm.low, "final/confirm_high": row.confirm.high}
    values |= {"final/entropy_kept": row.entropy_kept} if row.entropy_kept is not None else {}
    for name, value in values.items():
        yield MetricPoint(name, value, timestamp, 0)
