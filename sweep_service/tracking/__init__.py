"""The projection of the store to MLflow: runs for sweeps, configs and trials, their curves, and a page of charts."""

import threading

from sweep_service.store import Store
from sweep_service.tracking.mlflow_api import MlflowApi
from sweep_service.tracking.projector import Projector


def project(store: Store, mlflow_url: str, stop: threading.Event) -> None:
    """Keep the MLflow server at this address like the store until `stop` is set; return at once without an address."""
    if mlflow_url:
        Projector(store, MlflowApi(mlflow_url)).run(stop)
