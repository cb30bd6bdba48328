"""Every search-space preset binds to the training configuration of the loss that it varies."""

import pytest

from search_spaces.presets import PRESETS
from search_spaces.sampling import propose
from trainers.config import TrainingConfig, with_params

BASE = {"loss": {"name": "ce_gppo"}}


@pytest.mark.parametrize("name", PRESETS)
def test_every_corner_and_the_first_proposal_train(name: str) -> None:
    space = PRESETS[name]
    first = propose(space, "grid" if space.size else "tpe", 0, [])
    assert first is not None
    for point in [*space.corners(), first]:
        dumped = TrainingConfig.model_validate(with_params(BASE, point)).model_dump()
        wanted = {key.replace("loss.epsilon", "loss.epsilon_low"): value for key, value in point.items()}
        assert {key: dumped["loss"][key.removeprefix("loss.")] for key in wanted} == wanted


def test_the_grid_of_the_paper_has_its_pairs() -> None:
    pairs = {(point["loss.beta1"], point["loss.beta2"]) for point in PRESETS["ce_gppo_beta_grid"].grid()}
    paper = {(1, 0.5), (1, 0.75), (0.75, 1), (0.5, 1), (0.25, 1), (0, 1), (1, 1)}
    assert len(pairs) == 15
    assert paper <= pairs
