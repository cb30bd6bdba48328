"""Everything a training run can end with besides success.

    TrainerError
        ConfigError       what was asked for cannot run: change the configuration or the command line (exit code 2)
        CheckpointError   a checkpoint to resume from is missing, incomplete or of another configuration (exit code 2)
        DivergedError     a loss, gradient or probability is no longer finite (exit code 3)
        StoppedError      asked to stop before the first update (exit code 4)
        SamplingInterruptedError   asked to stop while sampling; the trainer saves the state before it (exit code 4)
        OffPolicyError    the first minibatch of a rollout does not have ratio 1: a fault in the trainer (exit code 1)
        EngineError       the engine that samples does not start (exit code 1)
        GraderError       answers cannot be judged: the grader does not start, or fails too often (exit code 1)

All survive pickling: each is rebuilt from the arguments it was made with.
"""


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


class CheckpointError(TrainerError):
    """A checkpoint cannot be resumed from."""


class DivergedError(TrainerError):
    """Training left the finite numbers; the weights are those of `last_good_step`."""

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
