"""Every search-space preset binds to the training configuration of what it varies."""

from operator import attrgetter

import pytest

from search_spaces.presets import PRESETS
from search_spaces.sampling import propose
from trainers.config import TrainingConfig, with_params

LOSS_OF = {"dcpo_bounds": "dcpo", "bapo_bounds": "bapo"}  # of all others ce_gppo


@pytest.mark.parametrize("name", PRESETS)
def test_every_corner_and_the_first_proposal_train(name: str) -> None:
    space, base = PRESETS[name], {"loss": {"name": LOSS_OF.get(name, "ce_gppo")}}
    first = propose(space, "grid" if space.size else "tpe", 0, [])
    assert first is not None
    for point in [*space.corners(), first]:
        training = TrainingConfig.model_validate(with_params(base, point))
        wanted = {name.replace("loss.epsilon", "loss.epsilon_low"): value for name, value in point.items()}
        if "loss.epsilon_low" in point:  # dcpo's and bapo's own
            wanted = point
        assert {name: attrgetter(name)(training) for name in wanted} == wanted


def test_the_grid_of_the_paper_has_its_pairs() -> None:
    pairs = {(point["loss.beta1"], point["loss.beta2"]) for point in PRESETS["ce_gppo_beta_grid"].grid()}
    paper = {(1, 0.5), (1, 0.75), (0.75, 1), (0.5, 1), (0.25, 1), (0, 1), (1, 1)}
    assert len(pairs) == 15
    assert paper <= pairs
