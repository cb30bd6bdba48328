"""The REST API: `create_app` makes the ASGI app, `run_api` serves it. Imports no torch, ray, trl or mlflow."""

from sweep_service.api.app import create_app
from sweep_service.api.server import run_api

__all__ = ["create_app", "run_api"]
