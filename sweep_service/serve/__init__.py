"""`sweeps serve`: API, worker, MLflow and a local Ray as child processes, kept alive, stopped together."""

from sweep_service.serve.checks import CannotStart, free_port, preflight
from sweep_service.serve.stack import Stack, main

__all__ = ["CannotStart", "Stack", "free_port", "main", "preflight"]
