"""Sweeps of a trainer of one's own: their configs, trials and plan."""

from typing import Any

import pytest

from sweep_service.intake.spec_check import parse_spec
from sweep_service.runner.stages import next_records
from sweep_service.sweep.baselines import matched_count
from sweep_service.sweep.labels import config_labels, differing_names, params_texts
from sweep_service.sweep.own_trainer import OwnConfig, command_line, settings_of_base
from sweep_service.sweep.plan import baselines, first_records, make_plan, stage_counts
from sweep_service.sweep.points import setting
from sweep_service.sweep.records import Role
from sweep_service.sweep.spec import SweepSpec
from tests.stored_sweeps import make_sweep
from trainers.config import TrainingConfig

OWN: dict[str, Any] = {
    "name": "own",
    "trainer": {"command": ["python3", "/opt/trainer.py"], "steps": 300},
    "training": {"model": {"name": "mine", "width": 4}, "loss": "reinforce"},
    "space": {"beta": [0, 1], "model.width": 8},
}


def test_a_config_is_named_by_its_command_its_steps_and_its_settings() -> None:
    spec = parse_spec(OWN)
    ids = {spec.at({"beta": beta}).id for beta in (0, 1)}
    assert len(ids) == 2
    for changed in ({"command": ["python3", "/opt/other.py"]}, {"steps": 301}):
        other = parse_spec(OWN | {"trainer": OWN["trainer"] | changed})
        assert other.at({"beta": 0}).id not in ids
        assert other.digest != spec.digest
    assert SweepSpec.model_validate_json(spec.model_dump_json()) == spec
    ours = parse_spec({"name": "ours", "space": {"loss.beta1": [0, 1]}})
    assert "trainer" not in ours.model_dump()
    assert SweepSpec.model_validate(ours.model_dump() | {"trainer": None}).digest == ours.digest


def test_the_space_sets_dotted_names_of_settings_of_which_nothing_is_known() -> None:
    spec = parse_spec(OWN)
    trained = spec.at({"beta": 1, "model.width": 8}).training
    assert isinstance(trained, OwnConfig)
    assert trained.settings == {"model": {"name": "mine", "width": 8}, "loss": "reinforce", "beta": 1}
    assert setting(trained, "model.width") == 8
    assert setting(trained, "loss.beta1") is None
    with pytest.raises(AssertionError, match="no TrainingConfig"):
        spec.bind({})


def test_a_name_of_a_whole_value_stands_for_it_in_the_programs_file() -> None:
    optimizers: dict[str, Any] = {
        "type": "categorical",
        "values": {"plain": {"name": "sgd"}, "fast": {"name": "adam", "lr": 0.1}},
    }
    spec = parse_spec(OWN | {"space": {"optimizer": optimizers}})
    trained = spec.at({"optimizer": "fast"}).training
    assert isinstance(trained, OwnConfig)
    assert trained.settings["optimizer"] == {"name": "adam", "lr": 0.1}
    configs, _ = first_records(spec, "swp")
    assert [config.settings["optimizer"] for config in configs] == list(optimizers["values"].values())


def test_configs_and_trials_are_those_of_the_grid() -> None:
    configs, trials = first_records(parse_spec(OWN), "swp")
    assert [config.params for config in configs] == [{"beta": 0, "model.width": 8}, {"beta": 1, "model.width": 8}]
    assert [config.roles for config in configs] == [(Role.SPACE,)] * 2
    assert {trial.total_steps for trial in trials} == {300}
    (one, two) = configs
    assert one.is_own
    assert one.updates_per_rollout == 1
    assert one.settings == {"model": {"name": "mine", "width": 8}, "loss": "reinforce", "beta": 0, "steps": 300}
    assert config_labels(configs, ["beta"]) == {one.id: "beta=0", two.id: "beta=1"}
    assert params_texts(configs)[one.id] == "beta=0 width=8"


@pytest.mark.parametrize(
    ("baseline", "roles"),
    [
        ({"beta": 0, "model.width": 8}, [(Role.BASELINE, Role.SPACE), (Role.SPACE,)]),
        ({}, [(Role.BASELINE,), (Role.SPACE,), (Role.SPACE,)]),
        ({"beta": 0.5}, [(Role.BASELINE,), (Role.SPACE,), (Role.SPACE,)]),
    ],
)
def test_the_baseline_is_a_config_of_its_own_or_a_point_of_the_grid(
    baseline: dict[str, Any], roles: list[tuple[Role, ...]]
) -> None:
    raw = OWN | {"trainer": OWN["trainer"] | {"baseline": baseline}}
    spec = parse_spec(raw | {"seeds": {"tune": [0], "confirm": {"top_k": 1, "seeds": [1, 2, 3]}}})
    assert [config.roles for config in first_records(spec, "swp")[0]] == roles
    assert [role for role, _ in baselines(spec)] == [Role.BASELINE]
    assert matched_count(spec, [], 1) == 0
    assert stage_counts(spec) == (len(roles), 6)  # the chosen one and the baseline


def test_a_plan_says_what_is_not_known() -> None:
    plan = make_plan(parse_spec(OWN), None)
    assert (plan.steps_per_trial, plan.baselines) == (300, [])
    assert plan.basis == "no trial of this command yet: a mere guess"
    assert any("no probe can measure it" in warning for warning in plan.warnings)
    assert any("no trainer.baseline" in warning for warning in plan.warnings)
    assert not any("PPO" in warning or "tiny" in warning for warning in plan.warnings)
    measured = make_plan(parse_spec(OWN), 2.0)
    assert (measured.seconds_per_step, measured.basis) == (2.0, "earlier trials of this command")


def test_a_search_proposes_points_of_such_a_sweep() -> None:
    space = {"beta": {"type": "float", "low": 0, "high": 1}}
    spec = parse_spec(OWN | {"space": space, "search": {"strategy": "random", "num_configs": 2}})
    sweep = make_sweep(spec)
    assert first_records(spec, sweep.id) == ([], [])
    proposed = next_records(sweep, [], [], [])
    assert proposed is not None
    ((config,), trials) = proposed
    assert 0 <= config.settings["beta"] <= 1
    assert [trial.seed for trial in trials] == [0, 1]


def test_sweeps_of_two_commands_share_no_config() -> None:
    """So `sweeps compare` tells in which commands they differ, and takes no two configs for the same."""
    two = [parse_spec(OWN | {"trainer": OWN["trainer"] | {"command": [word]}}) for word in ("/a", "/b")]
    ids = [{config.id for config in first_records(spec, "x")[0]} for spec in two]
    assert not ids[0] & ids[1]
    bases = [settings_of_base(spec.trained_base) for spec in two]
    assert differing_names(bases) == ["trainer.command"]
    assert bases[0]["model"] == {"name": "mine", "width": 4}
    assert settings_of_base(TrainingConfig()) == TrainingConfig().model_dump(mode="json")


def test_gpus_bring_no_probe() -> None:
    assert parse_spec(OWN | {"resources": {"gpus": 8}}).probes == "off"


def test_the_command_line_of_an_attempt() -> None:
    assert command_line(["a", "-b"], "/f/config.yaml", "/f", "/e/saved") == [
        *("a", "-b"),
        *("--config", "/f/config.yaml", "--output", "/f", "--resume-from", "/e/saved"),
    ]
