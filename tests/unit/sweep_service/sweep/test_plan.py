"""What a spec becomes: configs with their roles, trials in their order, the cost."""

from itertools import combinations
from typing import Any

import pytest

from sweep_service.intake.spec_check import parse_spec
from sweep_service.sweep.budget import StageCounts
from sweep_service.sweep.endings import TrialState
from sweep_service.sweep.objective import choose
from sweep_service.sweep.plan import (
    confirm_records,
    first_records,
    make_plan,
    most_points,
    stage_counts,
    trials_to_come,
)
from sweep_service.sweep.records import Role, Stage
from sweep_service.sweep.spec import Baselines, SweepSpec

RANGE = {"type": "float", "low": 0, "high": 1}


def make(**changes: object) -> SweepSpec:
    raw = {
        "name": "s",
        "space": {"loss.beta1": [0, 0.5, 1], "loss.beta2": 1},
        "seeds": {"tune": [0, 1], "confirm": {"top_k": 2, "seeds": [10, 11]}},
    }
    return parse_spec(raw | changes)


def test_first_records_are_baselines_and_grid_seed_by_seed() -> None:
    configs, trials = first_records(make(), "swp")
    assert [config.roles for config in configs] == [(Role.BASELINE,), (Role.DAPO,), *[(Role.SPACE,)] * 3]
    assert [config.params["loss.beta1"] for config in configs] == [0, None, 0, 0.5, 1]
    assert configs[1].training["loss"] == {**configs[1].training["loss"], "name": "dapo", "epsilon_high": 0.28}
    assert [trial.seed for trial in trials] == [0] * 5 + [1] * 5
    assert [trial.number for trial in trials] == list(range(10))
    assert {trial.stage for trial in trials} == {Stage.TUNE}


def test_a_grid_point_that_is_the_baseline_is_one_config_with_two_roles() -> None:
    configs, _ = first_records(make(space={"loss.beta1": [0, 1], "loss.beta2": 0}), "swp")
    assert [config.roles for config in configs] == [(Role.BASELINE, Role.SPACE), (Role.DAPO,), (Role.SPACE,)]


def test_baselines_that_are_one_config_are_named_on_it_alone() -> None:
    plan = make_plan(
        make(training={"loss": {"name": "dapo", "erc": {"mode": "mask"}}}, space={"loss.erc.low": [0.8, 0.9]}), None
    )
    assert plan.first_roles == [[Role.BASELINE, Role.DAPO], [Role.SPACE], [Role.SPACE]]
    assert [params.get("loss.erc.low") for params in plan.first_configs] == [None, 0.8, 0.9]


def test_baselines_can_be_switched_off() -> None:
    off = make(baselines={"ppo_clip": False, "dapo": False, "matched": False})
    assert all(config.roles == (Role.SPACE,) for config in first_records(off, "swp")[0])


def test_confirm_runs_the_best_and_the_baselines_on_fresh_seeds() -> None:
    spec = make()
    configs, _ = first_records(spec, "swp")
    chosen = choose(configs, {config.id: -config.number for config in configs}, 2)
    assert [config.number for config in chosen] == [2, 3]
    changed, trials = confirm_records(spec, "swp", configs, chosen, 10)
    assert [config.roles for config in changed] == [(Role.BASELINE, Role.MATCHED)]
    assert [trial.seed for trial in trials] == [10] * 4 + [11] * 4
    assert trials[0].number == 10


def test_matched_baseline_is_a_config_of_its_own_where_more_than_beta_varies() -> None:
    spec = make(space={"loss.beta1": 0.5, "loss.epsilon": [0.2, 0.3]})
    configs, _ = first_records(spec, "swp")
    best = next(config for config in configs if config.params["loss.epsilon"] == 0.3)
    changed, trials = confirm_records(spec, "swp", configs, [best], 6)
    assert [config.roles for config in changed] == [(Role.MATCHED,)]
    assert changed[0].params == {"loss.beta1": 0.0, "loss.epsilon": 0.3}
    assert len({trial.config_id for trial in trials}) == 4
    assert make_plan(spec, None).trials == {"tune": 8, "confirm": 10}


SPACES: dict[str, dict[str, Any]] = {
    "betas": {"space": {"loss.beta1": [0, 0.5, 1], "loss.beta2": [0, 1]}},
    "rates": {"space": {"loss.beta1": [0.25, 0.5], "optimizer.learning_rate": [1e-4, 2e-4, 3e-4]}},
    "rates of which none is the base's": {"space": {"loss.beta1": 0.5, "optimizer.learning_rate": [2e-4, 3e-4]}},
    "PPO clip in the grid": {
        "space": {"loss.beta1": [0, 0.5], "loss.beta2": 0, "optimizer.learning_rate": [1e-4, 2e-4]}
    },
    "PPO clip alone": {"space": {"loss.beta1": 0, "loss.beta2": 0, "optimizer.learning_rate": [1e-4, 2e-4]}},
    "epsilons": {"space": {"loss.beta1": [0.5, 1], "loss.epsilon": [0.2, 0.25, 0.3]}},
    "losses": {"space": {"loss.name": ["ce_gppo", "cispo", "gspo"]}},
    "losses and rates": {"space": {"loss.name": ["cispo", "gspo"], "optimizer.learning_rate": [1e-4, 2e-4]}},
    "bounds of DAPO": {"training": {"loss": {"name": "dapo"}}, "space": {"loss.epsilon_high": [0.2, 0.28, 0.4]}},
    "a rate beside the space": {"space": {"loss.beta1": [0.5, 1], "optimizer.learning_rate": 2e-4}},
}


@pytest.mark.parametrize("top_k", [1, 2, 3])
@pytest.mark.parametrize("changes", SPACES.values(), ids=SPACES)
def test_a_plan_counts_the_most_confirm_trials_that_any_choice_leads_to(changes: dict[str, Any], top_k: int) -> None:
    spec = make(**changes, seeds={"tune": [0], "confirm": {"top_k": 1, "seeds": [10, 11]}})
    top_k = min(top_k, most_points(spec))
    spec = make(**changes, seeds={"tune": [0], "confirm": {"top_k": top_k, "seeds": [10, 11]}})
    configs, _ = first_records(spec, "swp")
    contenders = choose(configs, {config.id: 0 for config in configs}, len(configs))
    choices = combinations(contenders, min(top_k, len(contenders)))
    made = [len(confirm_records(spec, "swp", configs, chosen, 0)[1]) for chosen in choices]
    planned = make_plan(spec, None).trials["confirm"]
    assert max(made) <= planned
    assert max(made) == planned or len(contenders) <= top_k  # all are chosen, one's matched baseline among them
    without = spec.model_copy(update={"baselines": Baselines(matched=False)})
    assert stage_counts(without).confirm <= stage_counts(spec).confirm
    assert not any(confirm_records(without, "swp", configs, contenders, 0)[0])


@pytest.mark.parametrize(
    ("space", "matched"),
    [
        ({"loss.beta1": RANGE, "loss.beta2": RANGE}, 0),
        ({"loss.beta1": RANGE, "optimizer.learning_rate": {"type": "float", "low": 1e-5, "high": 1e-3}}, 3),
        ({"loss.epsilon": RANGE | {"low": 0.1, "high": 0.3}}, 3),
        ({"loss.beta1": RANGE, "steps": [480, 960]}, 1),
        ({"loss.beta1": RANGE, "steps": [960, 1920]}, 2),
    ],
)
def test_matched_baselines_of_a_continuum_are_as_many_as_configs_are_chosen(
    space: dict[str, object], matched: int
) -> None:
    seeds = {"tune": [0], "confirm": {"top_k": 3, "seeds": [10]}}
    spec = make(space=space, search={"strategy": "random", "num_configs": 9}, seeds=seeds)
    assert stage_counts(spec).confirm == 3 + 2 + matched


def test_plan_counts_what_first_and_confirm_records_make() -> None:
    plan = make_plan(make(), 0.05)
    assert plan.configs == 5
    assert plan.trials == {"tune": 10, "confirm": 8}
    assert plan.hours_unit == "CPU-hours"
    assert plan.hours > 18 * 480 * 0.05 / 3600
    searched = make_plan(make(space={"loss.beta1": RANGE}, search={"strategy": "tpe", "num_configs": 7}), None)
    assert searched.configs == 9
    assert searched.trials["tune"] == 18


def test_plan_warns_of_what_the_report_could_not_say() -> None:
    words = " ".join(make_plan(make(seeds={"tune": [0]}, baselines={"ppo_clip": False}), None).warnings)
    assert "one tune seed" in words
    assert "no confirm stage" in words
    assert "no PPO-clip baseline" in words


def test_plan_warns_of_a_warm_up_as_long_as_the_run() -> None:
    def told(warmup_steps: int, **changes: object) -> bool:
        training = {"steps": 16, "optimizer": {"warmup_steps": warmup_steps}}
        warnings = make_plan(make(training=training, **changes), None).warnings
        return any("the learning rate never gets to its value" in warning for warning in warnings)

    assert (told(40), told(16), told(15)) == (True, True, False)


def test_plan_warns_where_the_untrained_policy_is_averaged() -> None:
    def told(steps: int, last: int) -> bool:
        training = {"steps": steps, "evaluation": {"every_steps": 12}, "optimizer": {"warmup_steps": 0}}
        warnings = make_plan(make(training=training, objective={"last": last}), None).warnings
        return any("and one of before training, which is then averaged, too" in warning for warning in warnings)

    assert (told(24, 3), told(32, 3), told(8, 1), told(8, 2)) == (True, False, False, True)


def test_plan_warns_of_a_cost_that_nothing_is_known_of() -> None:
    large = make(training={"model": {"name": "pretrained", "model": "large"}})
    assert "far too low" in make_plan(large, None).warnings[0]
    assert not any(
        "far too low" in warning
        for plan in (make_plan(large, 90), make_plan(make(), None))
        for warning in plan.warnings
    )


def test_threads_follow_the_cpus() -> None:
    _, trials = first_records(make(resources={"cpus": 2.5}), "swp")
    assert {trial.threads for trial in trials} == {2}


def test_a_chosen_point_that_is_the_dapo_baseline_is_confirmed_once() -> None:
    spec = make(
        training={"loss": {"name": "dapo", "epsilon_high": 0.25}}, space={"loss.epsilon_high": [0.2, 0.28, 0.4]}
    )
    configs, _ = first_records(spec, "swp")
    (both,) = [config for config in configs if config.roles == (Role.DAPO, Role.SPACE)]
    _, trials = confirm_records(spec, "swp", configs, [both], 9)
    assert len({(trial.config_id, trial.seed) for trial in trials}) == len(trials) == 4


@pytest.mark.parametrize(
    ("planned", "tuned", "tuning", "confirm", "to_come"),
    [
        ((4, 2), 1, 3, 0, 2),  # the confirm stage
        ((4, 2), 1, 0, 0, 5),  # proposals besides
        ((4, 2), 4, 0, 2, 0),
        ((4, 3), 4, 0, 2, 0),  # an arm of the most is another one's
        ((4, 3), 3, 0, 2, 1),  # it was given a point more, for which the confirm stage may grow
        ((4, 3), 3, 1, 2, 1),
        ((3, 2), 4, 0, 0, 2),
        ((0, 0), 2, 1, 2, 0),  # it trains no more
    ],
)
def test_trials_to_come_are_proposals_and_the_confirm_stage_counted_once(
    planned: tuple[int, int], tuned: int, tuning: int, confirm: int, to_come: int
) -> None:
    counts = {
        (Stage.TUNE, TrialState.SUCCEEDED): tuned,
        (Stage.TUNE, TrialState.RUNNING): tuning,
        (Stage.CONFIRM, TrialState.PENDING): confirm,
    }
    assert trials_to_come(StageCounts(*planned), counts) == to_come
