"""Makes runs of a sweep's configs, with mean curves over seeds, so that MLflow's charts compare configs. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sweep_service.report import Report
from sweep_service.report.formatting import count
from sweep_service.report.model import ConfigRow
from sweep_service.sweep.records import Config, Sweep
from sweep_service.tracking import mlflow_words
from sweep_service.tracking.tracker import MetricPoint

KEYS: Final = (
    "entropy",
    "reward/mean",
    "eval/avg_at_k",
    "eval/pass_at_k",
    "eval/reward_mean",
    "completion/length_mean",
    "share/na_lp",
    "share/pa_lp",
    "clip_fraction/low",
    "clip_fraction/high",
    "ppo_kl",
    "grad_norm",
    "probe/entropy",
)
"""Curves of a config's run, where its trials recorded them."""


@dataclass(frozen=True)
class ConfigRun:
    """One config's run in MLflow."""

    name: str
    tags: dict[str, str]
    params: dict[str, str]
    points: list[MetricPoint]


def config_runs(
    sweep: Sweep, configs: dict[str, Config], report: Report, scores: Mapping[str, Sequence[MetricPoint]]
) -> list[ConfigRun]:
    """Return a run for each config that has a curve, in the order of their numbers.

    Args:
        sweep: has its own run already, the parent of these.
        report: the sweep's final report.
        configs, scores: by config id; a config that was not measured has no mean scores on benchmarks.
    """
    timestamp = mlflow_words.milliseconds(sweep.ended_at or sweep.created_at)
    curves = _curve_points(report, timestamp)
    trained = Counter(trial.config_id for trial in report.trials if trial.step > 0)
    runs: list[ConfigRun] = []
    for row in sorted(report.configs, key=lambda row: row.number):
        points = [*curves.get(row.id, []), *scores.get(row.id, []), *_final_points(row, timestamp)]
        if points:
            best = {"best": "true"} if report.best and report.best.config_id == row.id else {}
            tags = {
                **mlflow_words.child_tags(sweep, "config", row.number, row, row.label),
                "loss": row.loss,
                "seeds": str(trained[row.id]),
                "report": report.inputs_digest,
                "mlflow.note.content": f"Mean curves of {count(trained[row.id], 'trial')}, from the final report.",
                **best,
            }
            params = mlflow_words.flat(configs[row.id].settings)
            runs.append(ConfigRun(row.label[: mlflow_words.MAX_PARAM], tags, params, points))
    return runs


def _curve_points(report: Report, timestamp: int) -> dict[str, list[MetricPoint]]:
    """Return the mean curves as points, by config id."""
    points: dict[str, list[MetricPoint]] = {}
    for curves in report.curves:
        for curve in curves.configs if curves.key in KEYS else ():
            points.setdefault(curve.config_id, []).extend(
                MetricPoint(mlflow_words.metric_key(curves.key), value, timestamp, step)
                for step, value in zip(curve.steps, curve.mean, strict=True)
                if value is not None
            )
    return points


def _final_points(row: ConfigRow, timestamp: int) -> Iterator[MetricPoint]:
    """Yield a config's closing figures at step 0, which MLflow draws as bars."""
    stages = {"confirm": row.confirm, "tune": row.tune}
    values = {f"final/{name}_mean": stage.mean for name, stage in stages.items() if stage}
    values |= {f"final/{name}_sd": stage.sd for name, stage in stages.items() if stage and stage.sd is not None}
    if row.confirm and row.confirm.low is not None and row.confirm.high is not None:
        values |= {"final/confirm_low": row.confirm.low, "final/confirm_high": row.confirm.high}
    values |= {"final/entropy_kept": row.entropy_kept} if row.entropy_kept is not None else {}
    for name, value in values.items():
        yield MetricPoint(name, value, timestamp, 0)
