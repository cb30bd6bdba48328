import json
import math
from collections.abc import Callable

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from search_spaces import sampling
from search_spaces.sampling import Observation, propose
from search_spaces.space import Point, SearchSpace
from search_spaces.strategies import DRAWING, STRATEGIES, Strategy

SMALL = SearchSpace.model_validate(
    {"a": [True, "x", None], "b": {"type": "int", "low": 0, "high": 4, "step": 2}, "c": "fixed"}
)
MIXED = SearchSpace.model_validate(
    {
        "beta": {"type": "float", "low": 0, "high": 1},
        "epsilon": {"type": "float", "low": 0.15, "high": 0.3, "step": 0.01},
        "kind": ["grpo", "dapo"],
        "rate": {"type": "float", "low": 1e-6, "high": 1e-3, "log": True},
        "width": {"type": "int", "low": 1, "high": 64, "log": True},
        "steps": 480,
    }
)
SQUARE = SearchSpace.model_validate({name: {"type": "float", "low": 0, "high": 1} for name in ("x", "y")})
every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)
every_drawing_strategy = pytest.mark.parametrize("strategy", DRAWING)


def peak(point: Point) -> float:
    """A smooth hill with its top, 0, at (0.8, 0.3)."""
    return -math.hypot(float(point["x"] or 0) - 0.8, float(point["y"] or 0) - 0.3)


def sweep(
    space: SearchSpace, strategy: Strategy, count: int, seed: int = 0, value: Callable[[Point], float] = lambda _: 0.0
) -> list[Observation]:
    """Propose and complete one point after the other."""
    history: list[Observation] = []
    while len(history) < count and (point := propose(space, strategy, seed, history)) is not None:
        history.append(Observation(len(history), point, value(point), "complete"))
    return history


def keys(history: list[Observation]) -> list[str]:
    return [json.dumps(observation.params) for observation in history]


def test_a_grid_is_exact_in_order_and_ends() -> None:
    history = sweep(SMALL, "grid", 99)
    assert keys(history) == [json.dumps(point) for point in SMALL.grid()]
    assert len(history) == SMALL.grid_size() == 9
    assert propose(SMALL, "grid", 0, history) is None


@every_drawing_strategy
def test_a_range_of_two_numbers_ends(strategy: Strategy) -> None:
    space = SearchSpace.model_validate({"x": {"type": "float", "low": 0, "high": 5e-324}})
    assert 1 <= len(sweep(space, strategy, 9)) <= 2


def test_a_grid_skips_what_is_running_failed_or_done_whatever_the_order() -> None:
    points = list(SMALL.grid())
    history = [
        Observation(7, points[0], None, "failed"),
        Observation(2, points[3], None, "running"),
        Observation(3, points[1], 0.5, "complete"),
    ]
    assert propose(SMALL, "grid", 0, history) == points[2]


@every_drawing_strategy
def test_a_small_space_is_exhausted_without_repeats(strategy: Strategy) -> None:
    history = sweep(SMALL, strategy, 99, value=lambda point: float(point["b"] == 2))
    assert len(set(keys(history))) == len(history) == 9
    assert all(SMALL.contains(observation.params) for observation in history)
    assert propose(SMALL, strategy, 0, history) is None


@every_drawing_strategy
def test_points_are_plain_values_of_the_space(strategy: Strategy) -> None:
    history = sweep(MIXED, strategy, 25, value=lambda point: float(point["beta"] or 0))
    assert len(set(keys(history))) == 25
    for observation in history:
        assert MIXED.contains(observation.params)
        assert [type(observation.params[name]) for name in MIXED.names] == [float, float, str, float, int, int]


@every_strategy
def test_the_same_arguments_give_the_same_point_also_after_json(strategy: Strategy) -> None:
    history = sweep(SMALL, strategy, 5, seed=3, value=lambda point: float(point["b"] or 0))
    again = [
        Observation(item.number, json.loads(key), item.value, item.state)
        for item, key in zip(history, keys(history), strict=True)
    ]
    assert propose(SMALL, strategy, 3, history) == propose(SMALL, strategy, 3, again[::-1])


@every_drawing_strategy
def test_seeds_differ(strategy: Strategy) -> None:
    assert propose(SQUARE, strategy, 0, []) != propose(SQUARE, strategy, 1, [])


def test_random_is_what_one_uninterrupted_optuna_study_proposes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "_MAX_DRAWS", 3)  # beyond what has been proposed, however much that is
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=5))
    trials = [study.ask() for _ in range(12)]
    points = [{name: trial.suggest_float(name, 0, 1) for name in ("x", "y")} for trial in trials]
    assert [item.params for item in sweep(SQUARE, "random", 12, seed=5)] == points


def test_random_does_not_depend_on_what_became_of_its_points() -> None:
    history = sweep(SQUARE, "random", 6)
    running = [Observation(item.number, item.params, None, "running") for item in history]
    assert propose(SQUARE, "random", 0, history) == propose(SQUARE, "random", 0, running)


def test_tpe_sees_the_whole_history_and_is_asked_in_the_same_space(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every observation has a state, value and params of its own, and they are handed over in another order."""
    studies = list[optuna.Study]()
    new_study = sampling.new_study
    monkeypatch.setattr(sampling, "new_study", lambda sampler: studies.append(new_study(sampler)) or studies[-1])
    points = [item.params for item in sweep(MIXED, "random", 5)]
    history = [
        Observation(0, points[0], 0.25, "complete"),
        Observation(1, points[1], None, "failed"),
        Observation(2, points[2], None, "running"),
        Observation(3, points[3], -1.5, "complete"),
        Observation(4, points[4], 0.75, "pruned", 120),
    ]
    studies.clear()
    propose(MIXED, "tpe", 7, history[::-1])
    (study,) = studies
    told, asked = study.trials[:5], study.trials[5:]
    assert [trial.intermediate_values for trial in told] == [{}, {}, {}, {}, {120: 0.75}]
    assert [(trial.number, trial.state.name, trial.value, trial.params | {"steps": 480}) for trial in told] == [
        (0, "COMPLETE", 0.25, points[0]),
        (1, "FAIL", None, points[1]),
        (2, "RUNNING", None, points[2]),
        (3, "COMPLETE", -1.5, points[3]),
        (4, "PRUNED", None, points[4]),
    ]
    assert [trial.distributions for trial in (*told, *asked)] == 6 * [
        {
            "beta": FloatDistribution(0, 1),
            "epsilon": FloatDistribution(0.15, 0.3, step=0.01),
            "kind": CategoricalDistribution(["grpo", "dapo"]),
            "rate": FloatDistribution(1e-6, 1e-3, log=True),
            "width": IntDistribution(1, 64, log=True),
        }
    ]
    assert study.direction.name == "MAXIMIZE"
    assert isinstance(study.sampler, optuna.samplers.TPESampler)


def test_tpe_proposes_different_points_before_any_result() -> None:
    history: list[Observation] = []
    for number in range(8):
        point = propose(SQUARE, "tpe", 0, history)
        assert point is not None
        history.append(Observation(number, point, None, "running"))
    assert len(set(keys(history))) == 8


def test_tpe_gets_nearer_the_top_than_random() -> None:
    def mean_of_last_ten(strategy: Strategy) -> float:
        runs = [sweep(SQUARE, strategy, 40, seed, peak)[-10:] for seed in range(4)]
        return sum(item.value or 0 for run in runs for item in run) / 40

    assert mean_of_last_ten("tpe") > mean_of_last_ten("random") + 0.15


def test_running_points_repel_tpe() -> None:
    history = sweep(SQUARE, "tpe", 20, value=peak)
    alone = propose(SQUARE, "tpe", 0, history)
    assert alone is not None
    crowd = [Observation(20 + i, alone | {"x": float(alone["x"] or 0) + i * 1e-4}, None, "running") for i in range(10)]
    away = propose(SQUARE, "tpe", 0, [*history, *crowd])
    assert away is not None
    assert max(abs(float(away[name] or 0) - float(alone[name] or 0)) for name in ("x", "y")) > 1e-3


@every_strategy
def test_the_empty_space_has_one_point(strategy: Strategy) -> None:
    assert propose(SearchSpace({}), strategy, 0, []) == {}
    assert propose(SearchSpace({}), strategy, 0, [Observation(0, {}, 1.0, "complete")]) is None


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        (
            Observation(4, {"x": 2.0, "y": 0.5}, 1.0, "complete"),
            r"observation 4 has .*'x': 2.0.* not a point of the space",
        ),
        (Observation(4, {"x": 0.5}, 1.0, "complete"), r"over \['x', 'y'\]"),
        (Observation(4, {"x": 0.5, "y": 0.5}, math.nan, "complete"), "observation 4 is complete with the value nan"),
        (Observation(4, {"x": 0.5, "y": 0.5}, None, "complete"), "tell it a finite one, or failed"),
    ],
)
def test_an_impossible_observation_is_named(observation: Observation, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        propose(SQUARE, "random", 0, [observation])
