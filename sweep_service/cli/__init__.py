"""The command line `sweeps`, also `python -m sweep_service`. Commands import heavy packages only when they run."""

from trainers.process.signals import interruptible_imports


def main() -> None:
    """Run the command that the arguments name."""
    with interruptible_imports():
        from sweep_service.cli.app import main as run
    run()
