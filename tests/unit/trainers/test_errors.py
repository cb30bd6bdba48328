import pickle

import pytest

from trainers.errors import (
    CheckpointError,
    ConfigError,
    DivergedError,
    GraderError,
    OffPolicyError,
    StoppedError,
    TrainerError,
)


@pytest.mark.parametrize(
    "error",
    [
        ConfigError("steps: too few", "seed: negative"),
        CheckpointError("gone"),
        DivergedError(7, "the gradient's norm is nan"),
        StoppedError("stopped"),
        OffPolicyError("dropout"),
        GraderError("11 of the last 200 answers"),
    ],
)
def test_errors_survive_pickling(error: TrainerError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)
