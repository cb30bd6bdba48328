"""`python -m trainers` is one training run, as `trainers/command_line.py` describes it."""

import os
import signal
import sys

from trainers.process.launch import end_process
from trainers.process.signals import interruptible_imports


def main() -> int:
    """Run the command line and return its exit code."""
    try:
        with interruptible_imports():
            from trainers.command_line import main as run
        code = run()
    except KeyboardInterrupt:  # before there is a run, which hears signals in its own way
        return 128 + signal.SIGINT
    if "RANK" in os.environ:
        end_process(code)
    return code


if __name__ == "__main__":
    sys.exit(main())
