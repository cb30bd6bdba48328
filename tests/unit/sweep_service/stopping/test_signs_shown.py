"""What is done for signs of health: which configs are dropped, and which runs end as ruined."""

from typing import Any

import pytest

from sweep_service.health.signs import ANSWERS_LOST
from sweep_service.stopping.signs_shown import dropped_for, ruin, signs_shown, stopping_sign
from sweep_service.stopping.table import judge, standing_of
from sweep_service.sweep.records import Config, Judgement, Stage, Trial, TrialState, TrialWarning
from sweep_service.sweep.spec import SweepSpec
from tests.unit.sweep_service.health.test_signs import run
from tests.unit.sweep_service.stopping.test_table import ended, evaluated, rows

LOST = [0.5, 0.6, 0.6, 0.6, 0.0, 0.0]
STOP = {"entropy_collapse": "stop", "dead_groups": "pause"}


def warned(*codes: str) -> list[TrialWarning]:
    return [TrialWarning(code=code, message="because", evidence={}, step=12) for code in codes]


def space(rule: object = None, **health: str) -> tuple[SweepSpec, list[Config], list[Trial]]:
    spec, configs, trials = rows(rule, health=health)
    return spec, configs, [one.model_copy(update={"state": TrialState.RUNNING, "step": 12}) for one in trials]


def dropped(
    spec: SweepSpec, configs: list[Config], trials: list[Trial], trial: Trial, *codes: str, judged: Any = ()
) -> list[Judgement]:
    standing = standing_of(spec, configs, trials, evaluated(trials), judged)
    sign = stopping_sign(spec, trial, warned(*codes))
    return dropped_for(trial, sign, standing) if sign else []


def contenders(configs: list[Config], trials: list[Trial]) -> list[Trial]:
    """The first trial of each point of the space."""
    return [next(one for one in trials if one.config_id == config.id) for config in configs if config.is_contender]


def test_a_sign_that_is_to_stop_it_drops_the_config_with_its_last_value() -> None:
    spec, configs, trials = space(**STOP)
    trial = contenders(configs, trials)[1]
    (found,) = dropped(spec, configs, trials, trial, "LENGTH_HACKING", "ENTROPY_COLLAPSE", "DEAD_GROUPS")
    assert (found.config_id, found.dropped, found.seed, found.mark) == (trial.config_id, True, trial.seed, 12)
    assert (found.sign, found.value, found.bound) == ("ENTROPY_COLLAPSE", 0.5, None)
    assert found.message == f"ENTROPY_COLLAPSE at step 12 of seed {trial.seed}: because"


@pytest.mark.parametrize("codes", [["LENGTH_HACKING"], ["DEAD_GROUPS"], [ANSWERS_LOST], []], ids=str)
def test_other_signs_drop_nothing(codes: list[str]) -> None:
    spec, configs, trials = space(**STOP, answers_lost="stop")
    assert dropped(spec, configs, trials, contenders(configs, trials)[1], *codes) == []


def test_neither_baselines_nor_confirm_trials_nor_the_last_configs_are_dropped() -> None:
    spec, configs, trials = space(**STOP)
    first, second, third = contenders(configs, trials)
    baseline = next(one for one in trials if one.config_id not in {t.config_id for t in (first, second, third)})
    assert dropped(spec, configs, trials, baseline, "ENTROPY_COLLAPSE") == []
    confirm = first.model_copy(update={"stage": Stage.CONFIRM})
    assert dropped(spec, configs, trials, confirm, "ENTROPY_COLLAPSE") == []
    gone = dropped(spec, configs, trials, first, "ENTROPY_COLLAPSE")
    assert dropped(spec, configs, trials, second, "ENTROPY_COLLAPSE", judged=gone) == [], "top_k 2 are left"
    assert dropped(spec, configs, trials, first, "ENTROPY_COLLAPSE", judged=gone) == []
    back = [gone[0].model_copy(update={"taken_back": True})]
    assert dropped(spec, configs, trials, first, "ENTROPY_COLLAPSE", judged=back) == []


def test_of_ruined_configs_so_many_are_left_as_are_chosen() -> None:
    spec, configs, trials = space(**STOP)
    ruined = [one.model_copy(update={"state": TrialState.DIVERGED}) if one.seed == 7 else one for one in trials]
    judged: list[Judgement] = []
    for trial in contenders(configs, ruined):
        judged += dropped(spec, configs, ruined, trial, "ENTROPY_COLLAPSE", judged=judged)
    assert len(judged) == 1, "top_k 2 of 3 are left, though all have a ruined run"


def test_before_a_whole_window_only_lost_answers_are_a_sign() -> None:
    whole = [1.0] * 5
    assert signs_shown(run(group__zero_spread_share=whole[:4])) == []
    assert [one.code for one in signs_shown(run(group__zero_spread_share=whole))] == ["DEAD_GROUPS"]
    assert [one.code for one in signs_shown(run(eval__avg_at_k=[0.5]))] == []
    assert signs_shown(run(clip_fraction__low=[0.9] * 24)) == []
    assert [one.code for one in signs_shown(run(clip_fraction__low=[0.9] * 25))] == ["CLIP_DOMINATED"]


def test_a_rule_judges_what_a_sign_has_left() -> None:
    spec, configs, trials = rows("rungs", health=STOP)
    trials = [ended(trial) for trial in trials]
    first, *_ = contenders(configs, trials)
    gone = dropped(spec, configs, trials, first, "ENTROPY_COLLAPSE")
    judged = judge(spec, configs, trials, evaluated(trials), gone)
    assert {one.mark for one in judged} == {1}, "the step of a sign is no look of the rule"
    assert first.config_id not in {one.config_id for one in judged}


def test_ruin_ends_a_run_where_it_is_asked_for_or_a_rule_stops() -> None:
    lost = run(eval__avg_at_k=LOST)
    assert ruin(rows(None)[0], lost) is None
    assert ruin(rows("paired")[0], run(eval__avg_at_k=LOST[:4])) is None
    for spec in (rows("paired")[0], rows(None, health={"answers_lost": "stop"})[0]):
        assert ruin(spec, lost) == (
            "ruined: at step 50 held-out accuracy was 0.200 in the last evaluations, after 0.600 at its best"
        )
    assert ruin(rows("paired", health={"answers_lost": "warn"})[0], lost) is None


def test_a_warning_for_each_sign_says_the_step_that_was_seen() -> None:
    (found,) = signs_shown(run(eval__avg_at_k=LOST))
    assert (found.code, found.step) == (ANSWERS_LOST, 50)
    assert found.message.startswith("at step 50 held-out")
