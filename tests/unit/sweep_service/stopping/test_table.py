"""Rows of a sweep as a rule sees them, and its judgements as rows."""

from dataclasses import replace
from typing import Any, get_args

import pytest

from sweep_service.intake.spec_check import parse_spec
from sweep_service.stopping.table import RULES, judge, standing_of
from sweep_service.sweep.early_stopping import EarlyStopping
from sweep_service.sweep.plan import first_records
from sweep_service.sweep.records import Config, Curve, Judgement, Role, Stage, Trial, TrialState
from sweep_service.sweep.spec import SweepSpec

SEEDS = [7, 3, 5, 1]


def rows(rule: object = "paired", **changes: Any) -> tuple[SweepSpec, list[Config], list[Trial]]:
    raw = {
        "name": "s",
        "training": {"steps": 16},
        "space": {"loss.beta1": [0, 0.5, 1], "loss.beta2": 1},
        "seeds": {"tune": SEEDS, "confirm": {"top_k": 2, "seeds": [10, 11, 12]}},
        "early_stopping": rule,
    }
    spec = parse_spec(raw | changes)
    return spec, *first_records(spec, "swp")


def evaluated(trials: list[Trial], value: float = 0.5) -> list[Curve]:
    of_part = "eval/tune_part/avg_at_k"
    points: dict[str, Any] = {"steps": [4, 8, 12, 16], "times": [0] * 4, "values": [0.1, None, 0.3, value]}
    return [
        Curve(trial_id=one.id, config_id=one.config_id, seed=one.seed, stage=one.stage, key=key, **points)
        for one in trials
        for key in ("eval/avg_at_k", of_part)
    ]


def ended(trial: Trial, state: TrialState = TrialState.SUCCEEDED) -> Trial:
    return trial.model_copy(update={"state": state, "step": 16})


def test_a_rule_sees_the_points_of_the_space_and_no_baseline() -> None:
    spec, configs, trials = rows()
    seen = standing_of(spec, configs, trials, [], [])
    roles = {config.id: config.roles for config in configs}
    assert [roles[config_id] for config_id in seen.runs] == [(Role.SPACE,)] * 3
    assert (seen.seeds, seen.total_steps, seen.last, seen.top_k) == (tuple(SEEDS), 16, 3, 2)
    assert not any(seen.runs.values()), "no run has begun"


def test_a_rule_sees_evaluations_results_and_ends() -> None:
    spec, configs, trials = rows()
    mine = [trial for trial in trials if trial.config_id == next(c.id for c in configs if c.is_contender)]
    done, failed, diverged, runs = mine
    given = [
        ended(done),
        ended(failed, TrialState.FAILED),
        ended(diverged, TrialState.DIVERGED),
        runs.model_copy(update={"state": TrialState.RUNNING, "step": 12}),
    ]
    found = standing_of(spec, configs, given, evaluated(given), []).runs[done.config_id]
    assert list(found) == SEEDS
    assert (found[7].steps, found[7].values) == ([4, 12, 16], [0.1, 0.3, 0.5])
    assert [found[seed].result for seed in SEEDS] == [pytest.approx(0.3), None, 0.0, None]
    assert [found[seed].is_over for seed in SEEDS] == [True, True, True, False]
    assert [found[seed].ruined for seed in SEEDS] == [False, False, True, False]
    assert found[1].value_at(12, 1) == 0.3


def test_a_rule_judges_by_the_problems_that_choose() -> None:
    spec, configs, trials = rows()
    curves = [
        one.model_copy(update={"values": [0.9] * 4}) if one.key == "eval/avg_at_k" else one for one in evaluated(trials)
    ]
    seen = standing_of(spec, configs, [ended(trial) for trial in trials], curves, [])
    results = [run.result for runs in seen.runs.values() for run in runs.values()]
    assert results == [pytest.approx(0.3)] * 12


def test_a_sweep_without_a_confirm_stage_keeps_one_config_and_one_without_a_rule_all() -> None:
    spec, configs, trials = rows(seeds={"tune": SEEDS})
    assert standing_of(spec, configs, trials, [], []).top_k == 1
    plain = spec.model_copy(update={"early_stopping": None})
    assert judge(plain, configs, [ended(trial) for trial in trials], evaluated(trials), []) == []


def test_runs_that_the_budget_has_cancelled_are_waited_for() -> None:
    spec, configs, trials = rows("rungs")
    given = [ended(one, TrialState.CANCELLED if one.seed == SEEDS[0] else TrialState.SUCCEEDED) for one in trials]
    assert standing_of(spec, configs, given, evaluated(given), []).next_look([1]) is None
    assert judge(spec, configs, given, evaluated(given), []) == []


def test_nothing_is_judged_once_configs_are_chosen() -> None:
    spec, configs, trials = rows("rungs")
    given = [ended(trial) for trial in trials]
    curves = [one.model_copy(update={"values": [0.1 * configs[-1].number] * 4}) for one in evaluated(given)]
    confirm = given[0].model_copy(update={"id": "trl_fresh", "stage": Stage.CONFIRM, "seed": 10})
    assert judge(spec, configs, [*given, confirm], curves, []) == []


def test_a_baseline_that_is_a_point_is_never_judged() -> None:
    clip_higher = {"name": "dapo", "epsilon_high": 0.28}
    space = {"loss.epsilon_high": [0.2, 0.28, 0.3, 0.35]}
    spec, configs, trials = rows(training={"steps": 16, "loss": clip_higher}, space=space)
    both = [config.id for config in configs if {Role.DAPO, Role.SPACE} <= {*config.roles}]
    assert both
    assert not {*both} & standing_of(spec, configs, trials, [], []).runs.keys()


def test_a_drop_says_in_words_why() -> None:
    spec, configs, trials = rows(seeds={"tune": SEEDS})
    values = {config.id: 0.9 - 0.3 * place for place, config in enumerate(c for c in configs if c.is_contender)}
    curves = [
        one.model_copy(
            update={"values": [values[one.config_id] + 0.001 * (one.seed % 3) * round(10 * values[one.config_id])] * 4}
        )
        for one in evaluated([trial for trial in trials if trial.config_id in values])
    ]
    found = judge(spec, configs, [ended(trial) for trial in trials], curves, [])
    best, middle, worst = found
    assert (best.dropped, best.message) == (False, "")
    assert middle.dropped
    assert worst.dropped
    number = next(config.number for config in configs if config.id == worst.rival)
    assert worst.message.startswith(f"after 3 tune seeds it is {-worst.value:.3g} below config {number}, and 0.0")
    assert worst.message.endswith(" proves it worse")
    assert judge(spec, configs, [ended(trial) for trial in trials], curves, found) == [], "nothing is judged twice"


def test_every_rule_that_a_spec_may_name_has_its_row() -> None:
    assert [*RULES] == [*get_args(get_args(EarlyStopping)[0])]


@pytest.mark.parametrize("kind", RULES, ids=lambda kind: kind.__name__)
def test_every_rule_has_words_without_a_value_too(kind: type[EarlyStopping]) -> None:
    said = Judgement(config_id="a", dropped=True, seed=3, mark=120, value=0.25, bound=0.5, rival="b")
    words = RULES[kind].words
    assert "0.25" in words(said, {"b": "config 1"})
    assert words(said.model_copy(update={"value": None, "bound": None, "rival": None}), {})


def test_the_order_of_seeds_is_that_of_the_spec() -> None:
    spec, configs, trials = rows("rungs", seeds={"tune": SEEDS})
    first = [ended(trial) for trial in trials if trial.seed == SEEDS[0]]
    seen = standing_of(spec, configs, first, evaluated(first), [])
    assert seen.next_look([1, 2]) == 1
    assert replace(seen, seeds=[3, 7, 5, 1]).next_look([1, 2]) is None
