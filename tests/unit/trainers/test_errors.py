import pickle

import pytest

from trainers.errors import CheckpointError, ConfigError, DivergedError, OffPolicyError, StoppedError, TrainerError


@pytest.mark.parametrize(
    "error",
    [
        ConfigError("steps: too few", "seed: negative"),
        CheckpointError("gone"),
        DivergedError(7, "the gradient's norm is nan"),
        StoppedError("stopped"),
        OffPolicyError("dropout"),
    ],
)
def test_errors_survive_pickling(error: TrainerError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)
