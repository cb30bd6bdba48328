"""The errors that end a training run, an evaluation or an addition to the catalog, with the exit code of each.

    TrainerError
    ├── ConfigError                  2  a setting or an option cannot be used: change it
    │   └── catalog.hub.HubError     2  the Hub cannot be read now, or not by this user: do what it says, and try again
    ├── CheckpointError              2  a checkpoint is missing, incomplete or of another configuration
    ├── DivergedError                3  a loss, gradient or probability is no longer finite
    ├── StoppedError                 4  a signal came before there was anything to save, or while a benchmark is sampled
    ├── SamplingInterruptedError     4  a signal came while sampling; the trainer saves the state before it
    ├── OffPolicyError               1  the first minibatch of a rollout does not have ratio 1: a fault in the trainer
    ├── EngineError                  1  the engine that samples does not start
    └── GraderError                  1  answers cannot be judged: the grader does not start, or fails too often

An error of the machine, such as a full disk, ends with 6 whatever it was raised as (`process.machine_faults`).
Tasks and benchmarks raise the same ones. `grading.__main__.UnreadableGoldError` never leaves the grader's process.
All survive pickling: each is rebuilt from the arguments it was made with.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error, its cause, the cause of that, and so on."""
    while error is not None:
        yield error
        error = error.__cause__


class TrainerError(Exception):
    """Base of all errors a training run raises on purpose."""


class ConfigError(TrainerError):
    """One or more settings cannot be used; every one is named.

    Args:
        problems: one sentence each, with the setting's dotted name.
    """

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(self.problems)


class Faults:
    """Faults found by several checks, to be raised together."""

    def __init__(self) -> None:
        self._problems = list[str]()

    def __bool__(self) -> bool:
        return bool(self._problems)

    @property
    def problems(self) -> list[str]:
        """The problems that were noted so far, each once."""
        return list(dict.fromkeys(self._problems))

    @contextmanager
    def noted(self) -> Generator[None]:
        """Note a ConfigError of the block instead of raising it."""
        try:
            yield
        except ConfigError as error:
            self._problems += error.problems

    def raise_all(self) -> None:
        """Raise what was noted, if anything was.

        Raises: ConfigError.
        """
        if self._problems:
            raise ConfigError(*self.problems)


class CheckpointError(TrainerError):
    """No run can be resumed from this checkpoint."""


class DivergedError(TrainerError):
    """Training left the finite numbers in the update after `last_good_step`; no checkpoint holds that update."""

    def __init__(self, last_good_step: int, what: str) -> None:
        super().__init__(last_good_step, what)
        self.last_good_step = last_good_step
        self.what = what

    def __str__(self) -> str:
        return f"{self.what} after step {self.last_good_step}; lower optimizer.learning_rate or the loss's betas"


class StoppedError(TrainerError):
    """A signal asked the run to stop while nothing was there to save."""


class SamplingInterruptedError(TrainerError):
    """A signal asked the run to stop in the middle of sampling."""


class OffPolicyError(TrainerError):
    """Old and new log-probabilities differ before any update was made on the rollout."""


class EngineError(TrainerError):
    """The engine that samples completions does not start."""


class GraderError(TrainerError):
    """Rewards would be noise: the grader does not start, or fails on too many answers."""
