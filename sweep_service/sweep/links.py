"""The addresses at which people find a sweep's pages in MLflow."""

from typing import Final

from sweep_service.sweep.records import Sweep

# MLflow shows its pages for generative AI unless told otherwise.
_KIND: Final = "workflowType=machine_learning"


def run_link(mlflow_url: str | None, run_id: str | None) -> str | None:
    """Return the page of one run; None without a server or a run."""
    return f"{mlflow_url.rstrip('/')}/#/runs/{run_id}" if mlflow_url and run_id else None


def curves_link(mlflow_url: str | None, sweep: Sweep) -> str | None:
    """Return the page with a sweep's curves, a line per config; None without a server or before the first curve."""
    if not mlflow_url or not sweep.mlflow_experiment_id:
        return None
    runs = f"{mlflow_url.rstrip('/')}/#/experiments/{sweep.mlflow_experiment_id}/runs"
    return f"{runs}?{_KIND}&compareRunsMode=CHART&viewStateShareKey={sweep.id}"
