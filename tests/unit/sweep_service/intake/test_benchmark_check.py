"""What a spec may say of benchmarks."""

from pathlib import Path
from typing import Any

import pytest

from sweep_service.intake.whole_check import check_spec
from sweep_service.sweep.spec import SweepSpec
from tests.model_folders import model_files, write_model
from tests.refusals import refusals
from trainers.catalog.add_from_disk import add_local_model

RAW: dict[str, Any] = {
    "name": "measured",
    "training": {"steps": 16},
    "space": {"loss.beta1": [0, 0.5]},
    "seeds": {"tune": [0], "confirm": {"seeds": [7]}},
}


def refused(cache: Path, benchmarks: Any, **changes: Any) -> dict[str, str]:
    return refusals(RAW | {"benchmarks": benchmarks} | changes, cache, check=check_spec)


@pytest.mark.parametrize("benchmarks", ["expressions", ["expressions"], {"names": ["expressions"]}])
def test_one_name_and_a_list_of_names_stand_for_benchmarks_with_their_own_settings(
    tmp_path: Path, benchmarks: Any
) -> None:
    spec = check_spec(RAW | {"benchmarks": benchmarks}, tmp_path)
    assert spec.benchmarks is not None
    assert spec.benchmarks.model_dump() == {
        "names": ("expressions",),
        "of": "confirmed",
        "at": "end",
        "samples": None,
        "longest": None,
        "temperature": None,
        "top_p": None,
        "resources": {"cpus": None, "gpus": None},
    }
    assert SweepSpec.model_validate(spec.model_dump(mode="json")) == spec


def test_a_benchmark_that_nobody_added_is_refused(tmp_path: Path) -> None:
    (told,) = refused(tmp_path, ["expressions", "aime24", "aime25"]).items()
    assert told[0] == "/benchmarks/names"
    assert told[1].startswith("aime25 is not in the catalog of benchmarks")


def test_names_and_steps_stand_once(tmp_path: Path) -> None:
    assert "repeat" in refused(tmp_path, ["expressions", "expressions"])["/benchmarks"]
    assert "repeat" in refused(tmp_path, {"names": ["expressions"], "at": [8, 8]})["/benchmarks/at"]


def test_a_step_after_the_last_is_refused(tmp_path: Path) -> None:
    found = refused(tmp_path, {"names": ["expressions"], "at": [8, 16, 17]})
    assert found == {"/benchmarks/at": "17: trials have 16 steps; name steps from 1 to that"}


def test_without_a_confirm_stage_there_are_no_confirmed_models(tmp_path: Path) -> None:
    found = refused(tmp_path, ["expressions"], seeds={"tune": [0, 1]})
    assert found["/benchmarks/of"].startswith("confirmed: there is no confirm stage")
    assert check_spec(RAW | {"seeds": {"tune": [0]}, "benchmarks": {"names": ["expressions"], "of": "all"}}, tmp_path)


@pytest.mark.parametrize("names", [["arithmetic"], ["expressions", "arithmetic"]])
def test_what_configs_are_chosen_by_is_no_benchmark_of_the_same_sweep(names: list[str], tmp_path: Path) -> None:
    task = {"name": "word_problems", "reward": "number", "validation": {"benchmark": "arithmetic"}}
    found = refused(tmp_path, names, training={"task": task})
    assert found["/benchmarks/names"].startswith("arithmetic is what configs are chosen by")


def test_a_completion_must_fit_the_models_context(tmp_path: Path) -> None:
    add_local_model(write_model(tmp_path / "m", model_files(max_position_embeddings=1024)), tmp_path / "cache", "small")
    training = {"model": {"name": "pretrained", "model": "small"}, "rollout": {"max_completion_tokens": 64}}
    words = {"name": "word_problems", "data": {"ref": "shop-sums"}, "max_prompt_tokens": 512}
    changes = {"training": training | {"task": words}}
    found = refused(tmp_path / "cache", {"names": ["arithmetic"], "longest": 1024}, **changes)
    assert found["/benchmarks/longest"].startswith(
        "arithmetic allows completions of 1024 tokens, and small has a context"
    )
    assert check_spec(RAW | {"benchmarks": ["arithmetic"]} | changes, tmp_path / "cache")


def test_the_benchmarks_of_a_sweep_are_kept_out_of_its_training(tmp_path: Path) -> None:
    task = {"name": "expressions", "apart_from": ["arithmetic"]}
    spec = check_spec(RAW | {"benchmarks": ["expressions", "arithmetic"], "training": {"task": task}}, tmp_path)
    assert spec.base.task.model_dump()["apart_from"] == ("arithmetic", "expressions")
    assert spec.bind({"loss.beta1": 0.5}).task == spec.base.task
    countdown = check_spec(RAW | {"benchmarks": ["arithmetic"], "training": {"task": {"name": "countdown"}}}, tmp_path)
    assert countdown.base.task.name == "countdown"
