"""The PPO-clip baseline and the DAPO arm of every loss."""

import pytest

from sweep_service.intake.spec_check import parse_spec
from sweep_service.sweep.baselines import clip_higher, clipped
from sweep_service.sweep.plan import baselines, first_records
from sweep_service.sweep.records import Role
from tests.losses.all_cases import CASES
from trainers.config import TrainingConfig
from trainers.losses import LOSSES


def make(loss: str) -> TrainingConfig:
    """Return a training with that loss and much else that must stay."""
    return TrainingConfig.model_validate(
        {
            "loss": {"name": loss, **CASES[loss].baseline[0]},
            "terms": {"positive_nll": 0.1},
            "aggregation": {"denominator": "active"},
            "optimizer": {"learning_rate": 1e-5},
            "steps": 16,
        }
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_the_ppo_clip_baseline_of_every_loss(loss: str) -> None:
    training, wanted = make(loss), CASES[loss].baseline[1]
    found = clipped(training).model_dump(mode="json")
    assert found["loss"] == found["loss"] | wanted
    assert found | {"loss": None} == training.model_dump(mode="json") | {"loss": None}
    assert clipped(clipped(training)) == clipped(training)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_dapo_arm_of_every_loss(loss: str) -> None:
    training = make(loss)
    found = clip_higher(training)
    low = CASES[loss].baseline[1]["epsilon_low"]  # as PPO clip's
    wanted = {"name": "dapo", "epsilon_low": low, "epsilon_high": 0.28, "erc": None}
    assert wanted.items() <= found.loss.model_dump().items()
    assert found.model_copy(update={"loss": training.loss}) == training


def test_a_sequence_aggregation_asked_for_stays_with_the_baseline() -> None:
    training = {"loss": {"name": "gspo"}, "aggregation": {"mode": "seq_mean_token_mean"}}
    assert clipped(TrainingConfig.model_validate(training)).aggregation.mode == "seq_mean_token_mean"


@pytest.mark.parametrize("loss", LOSSES)
def test_a_sweep_over_any_loss_has_its_baselines(loss: str) -> None:
    training = make(loss).model_dump(mode="json", include={"loss", "steps"})
    spec = parse_spec({"name": "a", "training": training, "space": {"optimizer.learning_rate": [1e-4, 5e-4]}})
    configs, _ = first_records(spec, "swp")
    assert [role for role, _ in baselines(spec)] == [Role.BASELINE, Role.DAPO]
    assert [config.training["loss"]["name"] for config in configs][-1] == loss
    assert [config.params["optimizer.learning_rate"] for config in configs[-2:]] == [1e-4, 5e-4]


def test_dapo_with_its_own_bounds_is_both_baselines_at_once() -> None:
    spec = parse_spec({"name": "a", "training": {"loss": {"name": "dapo"}}, "space": {"loss.erc.mode": ["mask"]}})
    configs, _ = first_records(spec, "swp")
    assert [config.roles for config in configs] == [(Role.BASELINE, Role.DAPO), (Role.SPACE,)]
    assert [config.params for config in configs] == [{"loss.erc.mode": None}, {"loss.erc.mode": "mask"}]
