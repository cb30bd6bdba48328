"""`python -m trainers` is one training run, as `trainers/command_line.py` describes it."""

import signal
import sys

from trainers.process.signals import interruptible_imports


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        with interruptible_imports():
            from trainers.command_line import main as run
        return run()
    except KeyboardInterrupt:  # before there is a run, which hears signals in its own way
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
