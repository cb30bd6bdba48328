"""The command line `sweeps`, also `python -m sweep_service`. Commands import heavy packages only when they run."""

from sweep_service.cli.app import main

__all__ = ["main"]
