"""What a sweep may be given more of, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from search_spaces.strategies import DRAWING
from sweep_service.errors import InvalidSpec, SpecError
from sweep_service.intake import data_check
from sweep_service.intake.added_check import check_extension
from sweep_service.intake.spec_check import parse_spec
from sweep_service.sweep.spec import Seeds, SweepSpec
from tests.refusals import refusals
from tests.unit.trainers.tasks.chats import add_dataset
from trainers.config import TrainingConfig, WordProblemsTask

SPEC: dict[str, Any] = {
    "name": "betas",
    "training": {"steps": 16},
    "space": {"loss.beta1": [0.0, 0.5, 1.0], "loss.beta2": 1},
    "seeds": {"tune": [3, 1], "confirm": {"top_k": 1, "seeds": [7]}},
}


DRAWN: dict[str, Any] = {
    "space": {"loss.beta1": {"type": "float", "low": 0, "high": 1}, "loss.beta2": 1},
    "search": {"strategy": "random", "num_configs": 3},
}
CACHE = Path("/nowhere")
"""A catalog without entries."""


def spec_of(**changes: Any) -> SweepSpec:
    return parse_spec(SPEC | changes)


def told_of(request: Any, spec: SweepSpec, cache: Path = CACHE) -> dict[str, str]:
    """Return why an extension is refused, by pointer."""
    with pytest.raises(InvalidSpec) as refused:
        check_extension(request, spec, cache)
    assert refused.value.what == "the sweep cannot be extended"
    return {error.pointer: error.detail for error in refused.value.errors}


@pytest.mark.parametrize(
    ("request_", "changes"),
    [
        ({}, {}),
        ({"seeds": {"tune": [1, 3]}}, {}),  # the same seeds in another order are no change
        ({"seeds": {"tune": [5, 1, 3]}}, {"seeds": {"tune": [3, 1, 5], "confirm": {"top_k": 1, "seeds": [7]}}}),
        (
            {"seeds": {"confirm": {"seeds": [8, 7], "top_k": 2}}},
            {"seeds": {"tune": [3, 1], "confirm": {"top_k": 2, "seeds": [7, 8]}}},
        ),
        ({"resources": {"max_parallel": 3}}, {"resources": {"max_parallel": 3}}),
        (
            {"retries": {"max_crashes": 0}, "budget": {"max_trial_hours": 2}},
            {"retries": {"max_crashes": 0}, "budget": {"max_trial_hours": 2}},
        ),
        ({"space": {"loss.beta1": [1, 0.5, 0]}}, {}),  # nor the same values in another order
        ({"space": {"loss.beta1": {"type": "float", "low": 0, "high": 1, "step": 0.5}}}, {}),  # or written otherwise
        ({"space": {"loss.beta2": [1]}}, {}),
        (
            {"space": {"loss.beta1": [0, 0.5, 0.75, 1]}},
            {"space": {"loss.beta1": [0, 0.5, 0.75, 1], "loss.beta2": 1}},
        ),
        (
            {"space": {"loss.beta1": {"type": "float", "low": 0, "high": 1, "step": 0.25}, "loss.beta2": [0, 1]}},
            {"space": {"loss.beta1": {"type": "float", "low": 0, "high": 1, "step": 0.25}, "loss.beta2": [0, 1]}},
        ),
    ],
)
def test_an_extension_gives_the_spec_that_one_would_have_submitted(
    request_: dict[str, Any], changes: dict[str, Any]
) -> None:
    assert check_extension(request_, spec_of(), CACHE) == spec_of(**changes)


def test_a_search_gets_more_configs_of_the_same_space() -> None:
    spec = spec_of(**DRAWN)
    more = spec_of(**DRAWN | {"search": {"strategy": "random", "num_configs": 7}})
    assert check_extension({"search": {"num_configs": 7}}, spec, CACHE) == more
    assert check_extension({"search": {"num_configs": 3}, "space": {"loss.beta2": 1}}, spec, CACHE) == spec


def test_null_lifts_a_limit_and_what_is_left_out_stays() -> None:
    limited = spec_of(resources={"max_parallel": 2}, budget={"max_trial_hours": 1, "max_wait_hours": 2})
    given = check_extension({"resources": {"max_parallel": None}, "budget": {"max_wait_hours": None}}, limited, CACHE)
    assert given == spec_of(budget={"max_trial_hours": 1})


def test_null_for_what_is_no_limit_is_refused_with_all_else_that_is_wrong() -> None:
    nulls = {"seeds": {"tune": None, "confirm": {"seeds": None, "top_k": None}}, "search": {"num_configs": None}}
    told = told_of(nulls | {"space": None, "retries": {"max_crashes": None}}, spec_of())
    places = ["/search/num_configs", "/seeds/confirm/seeds", "/seeds/confirm/top_k", "/seeds/tune", "/space"]
    assert sorted(told) == ["/retries/max_crashes", *places]
    assert {told[place] for place in places} == {"null is no value here; leave it out, and what the sweep has stays"}
    for part in ("seeds", "search", "budget", "resources", "retries"):
        assert list(told_of({part: None}, spec_of())) == [f"/{part}"]
    assert list(told_of({"seeds": {"confirm": None}}, spec_of())) == ["/seeds/confirm"]


@pytest.mark.parametrize(
    ("request_", "pointers"),
    [
        ({"seeds": {"tune": [3]}}, ["/seeds/tune"]),
        ({"seeds": {"confirm": {"seeds": [8], "top_k": 1}}}, ["/seeds/confirm/seeds"]),
        ({"seeds": {"tune": [3], "confirm": {"seeds": [8]}}}, ["/seeds/confirm/seeds", "/seeds/tune"]),
        ({"seeds": {"tune": [3, 1, 7]}}, ["/seeds"]),  # it is a confirm seed
        ({"seeds": {"tune": [3, 1, 5, 5]}}, ["/seeds"]),
        ({"space": {"loss.beta1": [2]}}, ["/space/loss.beta1"]),
        ({"space": {"loss.beta1": [0, 0.5, 1, -1]}}, ["/space/loss.beta1"]),  # training takes no -1
        ({"space": {"loss.beta1": {"type": "float", "low": 0, "high": 1}}}, ["/space/loss.beta1"]),  # is no grid
        ({"space": {"loss.beta1": [0, 0.5, 1, 1]}}, ["/space/loss.beta1"]),
        ({"search": {"num_configs": 4}, "space": {"loss.beta2": 2}}, ["/search/num_configs", "/space/loss.beta2"]),
        ({"search": {"strategy": "tpe", "seed": 1}}, ["/search/seed", "/search/strategy"]),
        ({"seeds": {"tune": []}}, ["/seeds/tune"]),
        ({"resources": {"max_parallel": 0, "gpus": 2}}, ["/resources/gpus", "/resources/max_parallel"]),
        ([], [""]),
        (7, [""]),
    ],
)
def test_what_takes_away_or_cannot_be_is_refused_with_its_place(request_: Any, pointers: list[str]) -> None:
    assert sorted(told_of(request_, spec_of())) == pointers


TWO = {"seeds": {"tune": [0], "confirm": {"top_k": 2, "seeds": [7]}}}
STEPPED = {"type": "float", "low": 0, "high": 0.5, "step": 0.25}


@pytest.mark.parametrize(
    ("request_", "changes", "place", "words"),
    [
        ({"seeds": {"confirm": {"top_k": 1}}}, TWO, "/seeds/confirm/top_k", "1 is less than 2, as it was"),
        (
            {"space": {"loss.beta1": [0, 0.75]}},
            {},
            "/space/loss.beta1",
            "[0, 0.75] lacks [0.5, 1.0] of before; give these, too",
        ),
        ({"space": {"loss.beta1": STEPPED}}, {}, "/space/loss.beta1", "lacks [1.0] of before"),
        ({"space": {"steps": [8]}}, {}, "/space/steps", "it is not in the sweep's space (loss.beta1, loss.beta2)"),
        ({"space": {"steps": [8]}}, {}, "/space/steps", "; submit a new sweep"),
        ({"space": {"beta1": [0.75]}}, {}, "/space/beta1", "; did you mean loss.beta1?"),
        ({"lr": 1}, {}, "/lr", "'training.optimizer.learning_rate' of the spec stays as it is"),
        ({"labels": {"a": "b"}}, {}, "/labels", "stays as it is; here one gives space, search, seeds, budget, res"),
        ({"search": {"strategy": "tpe"}}, {}, "/search/strategy", "stays as it is; here one gives search.num_configs"),
        ({"search": {"configs": 9}}, {}, "/search/configs", "did you mean 'search.num_configs'?"),
        ({"search": {"num_configs": 9}}, {}, "/search/num_configs", "give a parameter of the space more values"),
        ({"search": {"num_configs": 5000}}, DRAWN, "/seeds", "more than 3000"),
    ],
)
def test_a_refusal_says_what_is_missing_or_what_would_help(
    request_: dict[str, Any], changes: dict[str, Any], place: str, words: str
) -> None:
    told = told_of(request_, spec_of(**changes))
    assert list(told) == [place]
    assert words in told[place]


def test_no_more_is_confirmed_than_the_sweep_can_have() -> None:
    place = "/seeds/confirm/top_k"
    told = told_of({"seeds": {"confirm": {"top_k": 99}}}, spec_of())
    assert told == {
        place: "99 is more than the sweep can confirm: it has 3 configs to choose from; give at most 3, or more values "
        "in space as well"
    }
    both = {"seeds": {"confirm": {"top_k": 4}}, "space": {"loss.beta1": [0, 0.5, 0.75, 1]}}
    assert check_extension(both, spec_of(), CACHE).seeds.confirm is not None
    drawn = told_of({"seeds": {"confirm": {"top_k": 4}}}, spec_of(**DRAWN))
    assert "a larger search.num_configs" in drawn[place]
    assert check_extension({"seeds": {"confirm": {"top_k": 4}}, "search": {"num_configs": 4}}, spec_of(**DRAWN), CACHE)


def test_a_sweep_that_was_stored_with_too_many_to_confirm_is_extended_and_mended() -> None:
    confirm = {"top_k": 99, "seeds": [7]}
    stored = spec_of().model_copy(update={"seeds": Seeds.model_validate({"tune": [3, 1], "confirm": confirm})})
    assert check_extension({"seeds": {"tune": [3, 1, 5]}}, stored, CACHE).seeds.tune == (3, 1, 5)
    mended = check_extension({"seeds": {"confirm": {"top_k": 3}}}, stored, CACHE)
    assert mended.seeds.confirm is not None
    assert mended.seeds.confirm.top_k == 3
    assert told_of({"seeds": {"confirm": {"top_k": 2}}}, stored) == {
        "/seeds/confirm/top_k": "2 is less than 3, as it was"
    }


def test_a_sweep_that_was_stored_with_two_names_of_one_task_is_extended_but_none_like_it_is_submitted() -> None:
    tasks = {"task": [{"name": "expressions"}, {"name": "expressions", "apart_from": ["arithmetic"]}]}
    raw = {"name": "s", "training": {"steps": 16}, "space": tasks, "seeds": {"tune": [0]}}
    raw |= {"benchmarks": {"names": ["arithmetic"], "of": "all"}}
    assert "are the same value" in " ".join(refusals(raw).values())
    assert check_extension({"seeds": {"tune": [0, 1]}}, SweepSpec.model_validate(raw), CACHE).seeds.tune == (0, 1)


def test_more_to_confirm_than_there_can_be_is_refused_at_submission() -> None:
    told = refusals(SPEC | {"seeds": {"confirm": {"top_k": 4, "seeds": [7]}}})
    assert list(told) == ["/seeds/confirm/top_k"]
    assert told["/seeds/confirm/top_k"].startswith("4 is more than the sweep can confirm: it h")
    one = spec_of(space={"loss.beta1": 0.5, "loss.beta2": 1}, seeds={"confirm": {"seeds": [7]}})  # the default is 2
    assert one.seeds.confirm is not None


@pytest.mark.parametrize("strategy", DRAWING)
def test_a_search_that_tries_all_points_of_its_space_gets_no_more(strategy: str) -> None:
    spec = spec_of(search={"strategy": strategy, "num_configs": 3})
    told = told_of({"search": {"num_configs": 4}}, spec)["/search/num_configs"]
    assert told.startswith("4: the sweep tries all 3 points of its space; for a larger space submit a new sweep")
    assert check_extension({"search": {"num_configs": 3}, "seeds": {"tune": [3, 1, 5]}}, spec, CACHE)


@pytest.mark.parametrize("strategy", DRAWING)
def test_a_search_keeps_its_space_and_its_configs(strategy: str) -> None:
    spec = spec_of(**DRAWN | {"search": {"strategy": strategy, "num_configs": 3}})
    wider = {"loss.beta1": {"type": "float", "low": 0, "high": 2}}
    told = told_of({"search": {"num_configs": 2}, "space": wider}, spec)
    assert told["/search/num_configs"] == "2 is less than 3, as it was"
    assert f"strategy {strategy} has drawn its configs from the space of before" in told["/space/loss.beta1"]


def test_data_that_only_new_values_name_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = list[str]()

    def read(config: TrainingConfig, *_: object) -> str:
        assert isinstance(config.task, WordProblemsTask)
        begun.append(config.task.data.answer)
        if begun[-1] == "words":
            raise InvalidSpec([SpecError("/training/task/reward", "many is not one number")])
        return "too many rows"

    monkeypatch.setattr(data_check, "_read", read)
    add_dataset(tmp_path, "rows", {"train": [{"problem": "1?", "answer": "1", "words": "many", "value": "1"}]})
    training = {"steps": 16, "task": {"name": "word_problems", "data": {"ref": "rows"}, "reward": "number"}}
    spec = spec_of(training=training, space={"loss.beta1": [0], "task.data.answer": ["answer"]})
    assert check_extension({"space": {"loss.beta1": [0, 1]}}, spec, tmp_path)
    assert begun == []
    assert check_extension({"space": {"task.data.answer": ["answer", "value"]}}, spec, tmp_path)
    words = {"task.data.answer": ["answer", "words"]}
    for added, place in ((words, "/space/task.data.answer"), (words | {"loss.beta1": [0, 1]}, "/space")):
        assert told_of({"space": added}, spec, tmp_path) == {place: "many is not one number"}
    assert begun == ["value", "words", "words"]


def test_a_value_that_the_catalog_lacks_is_refused_with_its_place() -> None:
    training = {"steps": 16, "model": {"name": "pretrained", "model": "small"}}
    spec = spec_of(training=training, space={"model.model": ["small", "large"]})
    told = told_of({"space": {"model.model": ["small", "large", "huge"]}}, spec)
    assert "huge is not in the catalog of models" in told["/space/model.model"]
    assert check_extension({"seeds": {"tune": [3, 1, 5]}}, spec, CACHE).seeds.tune == (3, 1, 5)
