"""From the store to a built report. Knows no Ray, MLflow or torch."""

from importlib import metadata
from typing import Final

from sweep_service.report import CURVE_KEYS, ReportInputs, build, render_html, render_markdown, report_json
from sweep_service.settings import Settings
from sweep_service.store import Store

_PACKAGES: Final = ("torch", "transformers", "trl", "optuna", "ray", "sweep-service")


def gather(store: Store, sweep_id: str, settings: Settings) -> ReportInputs:
    """Read everything that a sweep's report is built from.

    Raises: NotFound.
    """
    return ReportInputs(
        sweep=store.get_sweep(sweep_id),
        configs=tuple(store.list_configs(sweep_id)),
        trials=tuple(store.list_trials(sweep_id)),
        series={series.trial_id: series for series in store.series(sweep_id, CURVE_KEYS)},
        mlflow_url=settings.mlflow_public_url or None,
        versions={name: metadata.version(name) for name in _PACKAGES},
    )


def build_report(store: Store, sweep_id: str, settings: Settings) -> tuple[str, dict[str, bytes]]:
    """Build a sweep's report as it stands; an interim one while the sweep goes on.

    Returns: the digest of what it was built from, and its contents by format (html, json, md, and yaml, the best
    config's file, if there is one).
    Raises: NotFound.
    """
    report = build(gather(store, sweep_id, settings))
    contents = {"html": render_html(report), "json": report_json(report), "md": render_markdown(report)}
    if report.best is not None:
        contents["yaml"] = report.best.yaml.encode()
    return report.inputs_digest, contents
