import itertools
import math
import subprocess
import sys

import pytest
from pydantic import ValidationError

from search_spaces.distributions import Categorical, Fixed, Float
from search_spaces.space import SearchSpace

GRID = SearchSpace.model_validate(
    {
        "loss.beta2": 1.0,
        "loss.beta1": [0, 0.5, 1],
        "loss.epsilon": {"type": "float", "low": 0.15, "high": 0.3, "step": 0.05},
    }
)


def test_bare_values_are_fixed_and_bare_lists_categorical() -> None:
    assert GRID.root["loss.beta2"] == Fixed(value=1.0)
    assert GRID.root["loss.beta1"] == Categorical(choices=(0, 0.5, 1))
    assert GRID.root["loss.epsilon"] == Float(low=0.15, high=0.3, step=0.05)
    assert GRID.names == ("loss.beta1", "loss.beta2", "loss.epsilon")
    assert GRID.varied == ("loss.beta1", "loss.epsilon")


def test_a_name_may_begin_like_another() -> None:
    both = {"loss.beta1": [0, 1], "loss.beta1_end": [0.5, 2]}
    assert SearchSpace.model_validate(both).names == tuple(both)


def test_a_dump_reads_back_the_same_and_order_of_writing_does_not_matter() -> None:
    assert SearchSpace.model_validate_json(GRID.model_dump_json()) == GRID
    backwards = SearchSpace.model_validate(dict(reversed(GRID.model_dump().items())))
    assert backwards.model_dump_json() == GRID.model_dump_json()


def test_the_grid_is_every_combination_with_the_last_name_fastest() -> None:
    points = list(GRID.grid())
    assert len(points) == GRID.grid_size() == 12
    assert [(p["loss.beta1"], p["loss.epsilon"]) for p in points] == list(
        itertools.product([0, 0.5, 1], [0.15, 0.2, 0.25, 0.3])
    )
    assert all(GRID.contains(point) and point["loss.beta2"] == 1.0 for point in points)
    with pytest.raises(IndexError, match="points 0 to 11, not 12"):
        GRID.point(12)


def test_an_enormous_grid_is_counted_and_entered_without_being_made() -> None:
    space = SearchSpace.model_validate({f"p{i}": {"type": "int", "low": 1, "high": 10**9} for i in range(9)})
    assert space.grid_size() == 10**81
    assert next(space.grid()) == dict.fromkeys(space.names, 1)
    assert space.point(10**81 - 1) == dict.fromkeys(space.names, 10**9)


def test_a_grid_over_a_continuum_names_the_parameters() -> None:
    space = SearchSpace.model_validate({"a": [1], "b": {"type": "float", "low": 0, "high": 1}})
    assert space.size is None
    for use in (space.grid_size, space.grid):
        with pytest.raises(ValueError, match="a grid needs a step, or a list of values, for b"):
            use()


def test_few_corners_are_all_combinations_of_edges() -> None:
    assert {(p["loss.beta1"], p["loss.epsilon"]) for p in GRID.corners()} == set(
        itertools.product([0, 0.5, 1], [0.15, 0.3])
    )


def test_many_corners_hold_every_edge_and_stay_few() -> None:
    space = SearchSpace.model_validate({f"p{i}": list(range(20)) for i in range(10)})
    corners = list(space.corners())
    assert len(corners) == 2 + 10 * 19
    assert all(space.contains(corner) for corner in corners)
    assert all({corner[name] for corner in corners} == set(range(20)) for name in space.names)


def test_the_empty_space_has_one_point() -> None:
    space = SearchSpace({})
    assert list(space.grid()) == list(space.corners()) == [{}]
    assert space.grid_size() == math.prod([]) == 1


def test_contains_wants_exactly_the_names() -> None:
    point = GRID.point(5)
    assert GRID.contains(point)
    assert not GRID.contains(point | {"more": 1})
    assert not GRID.contains({name: point[name] for name in GRID.varied})
    assert not GRID.contains(point | {"loss.epsilon": 0.17})


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"loss beta": 1}, "'loss beta' is not a dotted name such as loss.beta1"),
        ({"loss.": 1}, "is not a dotted name"),
        ({"loss": "grpo", "loss.beta1": 1}, "loss is set as a whole, so loss.beta1 cannot be set too"),
        ({f"p{i}": 1 for i in range(65)}, "65 parameters are more than 64"),
        ({"a": {"low": 0, "high": 1}}, "there is no type, but a distribution's type is float, int, categorical, fixed"),
        ({"a": {"type": "uniform"}}, "the type is 'uniform', but a distribution's type is"),
    ],
)
def test_impossible_spaces_are_refused_with_the_reason(raw: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        SearchSpace.model_validate(raw)


def test_importing_space_and_presets_loads_no_optuna() -> None:
    code = "import sys, search_spaces.space, search_spaces.presets; assert 'optuna' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
