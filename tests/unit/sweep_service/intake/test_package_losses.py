"""A sweep over the loss of an installed package is checked, planned and compared as one over a loss of ours."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from search_spaces.space import SearchSpace
from sweep_service.intake.spec_check import parse_spec
from sweep_service.report.verdict.comparators import differs_in
from sweep_service.runner.trainer_process import needed_packages
from sweep_service.sweep.baselines import clip_higher, clipped
from sweep_service.sweep.labels import params_texts
from sweep_service.sweep.plan import first_records, make_plan
from sweep_service.sweep.points import BoundSpace
from sweep_service.sweep.records import Role
from tests.loss_packages import TEMPERED, install, package_site
from tests.refusals import refusals
from trainers.config import TrainingConfig

TRAINING: dict[str, Any] = {"loss": {"name": "tempered", "epsilon": 0.3}}


@pytest.fixture(autouse=True)
def site(tmp_path: Path) -> Iterator[Path]:
    with package_site(tmp_path):
        install(tmp_path, "tempered_loss", "tempered = tempered_loss:ENTRY")
        yield tmp_path


def spec(**changes: Any) -> dict[str, Any]:
    return {"name": "s", "training": TRAINING, "space": {"loss.alpha": [0, 0.5, 1]}} | changes


def test_its_parameter_is_swept_beside_both_baselines() -> None:
    parsed = parse_spec(spec())
    configs, trials = first_records(parsed, "swp")
    assert [config.roles for config in configs] == [(Role.BASELINE,), (Role.DAPO,), *[(Role.SPACE,)] * 3]
    assert [config.params["loss.alpha"] for config in configs] == [None, None, 0.0, 0.5, 1.0]
    assert [config.training["loss"]["name"] for config in configs] == ["grpo", "dapo", *["tempered"] * 3]
    assert len({config.id for config in configs}) == 5
    assert len(trials) == 10
    labels = params_texts(configs)
    assert [labels[config.id] for config in configs[2:]] == ["alpha=0", "alpha=0.5", "alpha=1"]
    assert differs_in(configs[2], configs[0]) == ["loss"]
    plan = make_plan(parsed, None)
    assert plan.configs == 5
    assert plan.trials == {"tune": 10, "confirm": 0}


def test_ranges_and_proposals_take_it() -> None:
    found = parse_spec(
        spec(
            space={"loss.alpha": {"type": "float", "low": 0, "high": 1}, "loss.epsilon": [0.1, 0.2]},
            search={"strategy": "tpe", "num_configs": 4},
        )
    )
    assert found.bind({"loss.alpha": 0.25, "loss.epsilon": 0.1}).loss.model_dump()["alpha"] == 0.25


def test_mistakes_have_their_places_and_hints() -> None:
    found = refusals(spec(space={"loss.alpha": [0.5, 2], "loss.alhpa": [0.1]}))
    assert found["/space/loss.alpha"].startswith("2: Input should be less than or equal to 1")
    assert "did you mean 'loss.alpha'" in found["/space/loss.alhpa"]
    found = refusals(spec(training={"loss": {"name": "tempered", "alpha": -1, "beta1": 1, "zzzz": 1}}))
    assert "greater than or equal to 0" in found["/training/loss/alpha"]
    assert found["/training/loss/beta1"] == "only ce_gppo has this setting"
    assert "loss.alpha" in found["/training/loss/zzzz"]


def test_where_the_package_is_missing_a_sweep_is_refused_in_a_sentence() -> None:
    found = refusals(spec(training={"loss": {"name": "tempred"}}, space={"optimizer.learning_rate": [1e-4, 2e-4]}))
    said = found["/training/loss"]
    assert said.startswith("there is no loss 'tempred'; there are 'grpo', ")
    assert "'tempered' on this machine, and a package adds its own by an entry point of the group sweeps.losses" in said
    assert said.endswith("; did you mean 'tempered'?")


def test_a_package_that_is_broken_is_named_and_breaks_no_other_sweep(site: Path) -> None:
    install(site, "broken_loss", "broken = broken_loss:ENTRY", "1 / 0")
    found = refusals(spec(training={"loss": {"name": "broken"}}, space={"optimizer.learning_rate": [1e-4, 2e-4]}))
    assert found["/training/loss"].startswith("the loss 'broken' of broken-loss (broken_loss:ENTRY) cannot be used: ")
    assert "ZeroDivisionError" in found["/training/loss"]
    assert parse_spec(spec())
    assert parse_spec({"name": "s", "space": {"loss.beta1": [0, 1]}})


def test_losses_of_both_kinds_share_a_space() -> None:
    names = {"loss.name": ["ce_gppo", "tempered", "grpo"]}
    parsed = parse_spec({"name": "s", "space": names, "baselines": {"dapo": False}})
    configs, _ = first_records(parsed, "swp")
    assert [config.training["loss"]["name"] for config in configs] == ["ce_gppo", "ce_gppo", "tempered", "grpo"]
    found = refusals({"name": "s", "space": names | {"loss.alpha": [0.1]}})
    assert "alpha is not a setting of grpo and ce_gppo" in found["/space/loss.name"]
    found = refusals({"name": "s", "space": names | {"loss.epsilon": [0.1, 0.2]}})
    assert "epsilon does not mean the same in grpo and ce_gppo and tempered" in found["/space/loss.name"]
    assert (
        "there is no loss 'nobody'" in refusals({"name": "s", "space": {"loss.name": ["nobody"]}})["/space/loss.name"]
    )


def clipping(site: Path, base: str) -> TrainingConfig:
    """Return a training with a package's loss that says that its epsilons are PPO's."""
    code = TEMPERED.replace('"tempered"', '"clipping"').replace("(TokenRatioParams)", f"({base})")
    code = code.replace("    alpha:", "    clips_like_ppo = True\n    alpha:")
    install(site, "clipping_loss", "clipping = clipping_loss:ENTRY", f"from trainers.losses import {base}\n{code}")
    return TrainingConfig.model_validate({"loss": {"name": "clipping", "epsilon_low": 0.15, "epsilon_high": 0.25}})


def test_the_baselines_of_a_packages_loss_have_their_own_bounds() -> None:
    training = TrainingConfig.model_validate(TRAINING)
    assert clipped(training) == TrainingConfig.model_validate({"loss": {"name": "grpo"}})
    assert clip_higher(training) == TrainingConfig.model_validate({"loss": {"name": "dapo"}})


def test_one_that_is_derived_from_ours_does_not_clip_like_ppo_by_that(site: Path) -> None:
    code = TEMPERED.replace('"tempered"', '"narrow"').replace("(TokenRatioParams)", "(DAPOParams)")
    install(site, "narrow_loss", "narrow = narrow_loss:ENTRY", f"from trainers.losses import DAPOParams\n{code}")
    training = TrainingConfig.model_validate({"loss": {"name": "narrow", "epsilon_low": 0.003}})
    assert clipped(training) == TrainingConfig.model_validate({"loss": {"name": "grpo"}})
    assert clip_higher(training) == TrainingConfig.model_validate({"loss": {"name": "dapo"}})


@pytest.mark.parametrize(
    ("base", "dual_clip"), [("TokenRatioParams", None), ("DualClipParams", 10.0), ("ClipParams", None)]
)
def test_one_that_clips_like_ppo_hands_its_bounds_on(site: Path, base: str, dual_clip: float | None) -> None:
    training = clipping(site, base)
    found = clipped(training).loss.model_dump()
    wanted = {"name": "grpo", "epsilon_low": 0.15, "epsilon_high": 0.25, "dual_clip": dual_clip}
    assert found == {**wanted, "log_ratio_clamp": 20.0}
    assert clip_higher(training).loss.model_dump().items() >= {"epsilon_low": 0.15, "epsilon_high": 0.28}.items()
    names = {"loss.name": ["grpo", "clipping"], "loss.epsilon": [0.1, 0.2]}
    assert parse_spec({"name": "s", "training": {"loss": {"name": "grpo"}}, "space": names})


def test_a_job_says_which_package_it_needs() -> None:
    training = TrainingConfig.model_validate(TRAINING)
    assert needed_packages(training) == ("tempered-loss==1",)
    assert needed_packages(TrainingConfig()) == ()


def test_its_name_follows_from_its_parameters_as_ours_do() -> None:
    bound = BoundSpace(SearchSpace({}), {})
    trainings = [{"name": "tempered"}, {"name": "tempered", "alpha": 0.5}, {"name": "tempered", "alpha": 0.6}]
    plain, same, other = (bound.point(TrainingConfig.model_validate({"loss": loss})).id for loss in trainings)
    assert plain == same != other
