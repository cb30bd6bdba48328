"""A spec that cannot run is refused with every reason at once, each with its place."""

from typing import Any

import pytest

from sweep_service.errors import InvalidSpec
from sweep_service.spec import SweepSpec, config_id
from sweep_service.spec_check import parse_spec
from trainers.config import TrainingConfig


def pointers(raw: object) -> dict[str, str]:
    with pytest.raises(InvalidSpec) as caught:
        parse_spec(raw)
    return {error.pointer: error.detail for error in caught.value.errors}


def spec(**changes: Any) -> dict[str, Any]:
    return {"name": "s", "space": {"loss.beta1": [0, 0.5]}} | changes


def test_every_error_is_reported_at_once_with_its_pointer() -> None:
    found = pointers(
        {
            "name": "Not a name",
            "spce": {},
            "training": {"loss": {"name": "ce_gppo", "beta3": 1}, "rollout": {"prompts_per_rollout": 30}, "stepz": 3},
            "space": {"loss.beta1": [0, -1]},
            "seeds": {"tune": [3, 3]},
        }
    )
    assert set(found) == {
        "/name",
        "/spce",
        "/space/loss.beta1",
        "/seeds",
        "/training/loss/beta3",
        "/training/rollout",
        "/training/stepz",
    }
    assert "did you mean 'space'" in found["/spce"]
    assert "did you mean 'steps'" in found["/training/stepz"]
    assert "3, 3" in found["/seeds"]


def test_space_is_bound_to_training_by_its_corner_points() -> None:
    found = pointers(spec(space={"loss.beta1": [0, -1], "loss.epsilom": 0.2, "seed": [1, 2]}))
    assert set(found) == {"/space/seed"}
    found = pointers(spec(space={"loss.beta1": [0, -1], "loss.epsilom": 0.2}))
    assert set(found) == {"/space/loss.beta1", "/space/loss.epsilom"}
    assert found["/space/loss.beta1"].startswith("-1:")
    assert "did you mean 'epsilon'" in found["/space/loss.epsilom"]


def test_a_setting_at_the_wrong_place_is_shown_its_own() -> None:
    found = pointers(spec(space={"beta1": [0, 1]}, top_k=3, loss={}))
    assert "did you mean 'loss.beta1'" in found["/space/beta1"]
    assert "did you mean 'seeds.confirm.top_k'" in found["/top_k"]
    assert "did you mean 'training.loss'" in found["/loss"]
    found = pointers(spec(training={"loss": {"name": "grpo"}}, space={"loss.beta1": [0, 1]}))
    assert found["/space/loss.beta1"].endswith("only ce_gppo has this setting")


def test_space_errors_are_found_beside_other_errors() -> None:
    assert set(pointers(spec(name="", space={"loss.beta9": [1]}))) == {"/name", "/space/loss.beta9"}


def test_values_that_clash_only_together_are_found() -> None:
    sizes = {"rollout.prompts_per_minibatch": [4, 8], "device_batch": [64, 128]}
    assert "cannot run" in pointers(spec(space=sizes))["/space"]


def test_inert_betas_are_refused_with_the_reason() -> None:
    on_policy = {"rollout": {"prompts_per_rollout": 4, "prompts_per_minibatch": 4}}
    assert "keeps every ratio at 1" in pointers(spec(training=on_policy))["/training"]


@pytest.mark.parametrize(
    ("change", "pointer", "words"),
    [
        ({"seeds": {"tune": [0, 1], "confirm": {"seeds": [1, 2]}}}, "/seeds", "both stages"),
        ({"search": {"strategy": "tpe"}}, "/search", "needs num_configs"),
        ({"search": {"strategy": "grid", "num_configs": 3}}, "/search", "leave num_configs out"),
        ({"space": {"loss.beta1": {"type": "float", "low": 0, "high": 1}}}, "/space/loss.beta1", "needs a step"),
        ({"space": {"loss.beta1": {"type": "int", "low": 0, "high": 20_000}}}, "/space", "more than 10000"),
        ({"space": {"preset": "nope"}}, "/space", "there is no preset 'nope'"),
        ({"resources": {"gpus": 1.5}}, "/resources", "whole GPUs"),
        ({"training": {"optimizer": {"learning_rate": float("nan")}}}, "/training/optimizer/learning_rate", "finite"),
    ],
)
def test_refusals(change: dict[str, Any], pointer: str, words: str) -> None:
    assert words in pointers(spec(**change))[pointer]


def test_something_that_is_no_mapping_is_refused() -> None:
    assert "mapping" in pointers([1, 2])[""]


def test_a_point_has_one_name_however_it_is_written() -> None:
    short = TrainingConfig.model_validate({"loss": {"name": "ce_gppo", "epsilon": 0.2}, "seed": 7})
    long = TrainingConfig.model_validate({"loss": {"name": "ce_gppo", "epsilon_low": 0.2, "epsilon_high": 0.2}})
    assert config_id(short) == config_id(long)
    other = TrainingConfig.model_validate({"loss": {"name": "ce_gppo", "epsilon": 0.3}})
    assert config_id(short) != config_id(other)


def test_presets_are_spaces_that_training_takes() -> None:
    for preset in ("ce_gppo_beta_grid", "beta_epsilon"):
        assert parse_spec(spec(space={"preset": preset})).space.grid_size() > 1
    assert parse_spec(spec(space={"preset": "seed_ranges"}, search={"strategy": "tpe", "num_configs": 3}))


def test_a_spec_survives_json() -> None:
    one = parse_spec(spec(space={"preset": "beta_epsilon"}, labels={"team": "rl"}))
    assert SweepSpec.model_validate_json(one.model_dump_json()) == one
    assert SweepSpec.model_validate_json(one.model_dump_json()).digest == one.digest


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"space": {"loss.beta1": {"type": "float", "low": 2, "high": 1}}}, "/space/loss.beta1"),
        ({"space": {"loss.beta1": {"type": "float", "low": 2}}}, "/space/loss.beta1/high"),
        ({"space": {"loss.beta1": {"type": "float", "low": "x", "high": 1}}}, "/space/loss.beta1/low"),
        ({"space": {"loss.beta1": [1, 1]}}, "/space/loss.beta1"),
        ({"space": {"loss.beta1": []}}, "/space/loss.beta1"),
        ({"training": {"loss": {"name": "ce_gppo", "epsilon": 3}}}, "/training/loss"),
        ({"seeds": {"tune": [0, -1]}}, "/seeds/tune/1"),
        ({"seeds": {"confirm": {"top_k": 1}}}, "/seeds/confirm/seeds"),
    ],
)
def test_a_pointer_names_a_place_in_the_document(changes: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        parse_spec({"name": "a", "space": {"loss.beta1": [0, 1]}} | changes)
    assert [error.pointer for error in refused.value.errors] == [pointer]


def test_a_wrong_base_does_not_hide_what_is_wrong_with_the_space() -> None:
    wrong = {"space": {"loss.betta1": [1], "loss.beta2": [-1, 2]}, "training": {"steps": 7}}
    assert set(pointers(spec(**wrong))) == {"/training", "/space/loss.betta1", "/space/loss.beta2"}


def test_a_value_that_training_takes_for_another_is_refused() -> None:
    found = pointers(spec(space={"optimizer.learning_rate": ["1e-4", 2e-4]}))
    assert "'1e-4' is read as 0.0001; write that" in found["/space/optimizer.learning_rate"]


@pytest.mark.parametrize("search", [{"strategy": "grid"}, {"strategy": "tpe", "num_configs": 3}])
def test_a_point_between_the_corners_that_cannot_run_is_refused(search: dict[str, Any]) -> None:
    sizes = {"rollout.prompts_per_minibatch": {"type": "int", "low": 4, "high": 8}}
    assert "prompts_per_minibatch 5" in pointers(spec(space=sizes, search=search))["/space"]
