"""What a report says of hours, and of a tune stage that the budget ended."""

from dataclasses import replace
from typing import Any

import pytest

from sweep_service.report.build import build
from sweep_service.report.model import Caution, Report
from sweep_service.report.render.html import render_html
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.records import Config, Role, Stage, SweepState, Trial, TrialState
from tests.unit.sweep_service.report.report_sweeps import Fate, succeed, sweep_inputs

LIMITS: dict[str, Any] = {"resources": {"gpus": 2}, "budget": {"max_trial_hours": 0.01, "max_gpu_hours": 1}}
CODE = "BUDGET_ENDED_TUNING"


def cut_from(number: int, ending: Ending = Ending.OVER_BUDGET) -> Fate:
    """Tune trials from this one on never began."""

    def fate(config: Config, trial: Trial) -> Trial:
        if trial.stage is Stage.CONFIRM or trial.number < number:
            return succeed(config, trial)
        never = {"state": TrialState.CANCELLED, "ending": ending, "attempts": 0, "held_s": 0.0, "started_at": None}
        return trial.model_copy(update=never)

    return fate


def cautions(report: Report) -> dict[str, Caution]:
    return {caution.code: caution for caution in report.cautions}


def test_hours_are_those_for_which_trials_held_their_gpus() -> None:
    inputs = sweep_inputs(LIMITS)
    told = build(replace(inputs, probe_gpu_hours=0.25)).sweep
    assert told.trial_hours == pytest.approx(len(inputs.trials) * 20 / 3600)  # not the 22 s from start to end
    assert told.gpu_hours == pytest.approx(told.trial_hours * 2 + 0.25)
    assert told.max_gpu_hours == 1
    page = " ".join(render_html(build(inputs)).decode().split())
    assert "that took 8.67 min together, 17.3 min on GPUs of at most 1 h" in page


def test_hours_of_running_trials_count_too() -> None:
    inputs = sweep_inputs(LIMITS, state=SweepState.RUNNING)
    running = [trial.model_copy(update={"state": TrialState.RUNNING}) for trial in inputs.trials]
    report = build(replace(inputs, trials=tuple(running)))
    assert report.sweep.trial_hours == pytest.approx(len(running) * 20 / 3600)
    assert {trial.seconds for trial in report.trials} == {None}


def test_trials_that_the_budget_kept_out_are_counted_once() -> None:
    inputs = sweep_inputs(LIMITS, fate=cut_from(5))
    tune = [trial for trial in inputs.trials if trial.stage is Stage.TUNE]
    found = cautions(build(inputs))
    assert f"The budget of 1 GPU-hours ended the tune stage: {len(tune) - 5} trials did not run." in found[CODE].text
    assert found[CODE].trials == [trial.id for trial in tune[5:]]
    assert "UNFINISHED" not in found


def test_a_user_who_cancels_is_not_the_budget() -> None:
    inputs = sweep_inputs(LIMITS, fate=cut_from(5, Ending.CANCELLED), state=SweepState.CANCELLED)
    assert CODE not in cautions(build(inputs))


def test_configs_that_were_not_proposed_are_counted() -> None:
    spec = LIMITS | {"search": {"strategy": "tpe", "num_configs": 9}}
    inputs = sweep_inputs(spec)
    points = sum(Role.SPACE in config.roles for config in inputs.configs)
    assert CODE not in cautions(build(inputs)), "there was room: the space had no more points"
    full = sweep_inputs(spec | {"budget": LIMITS["budget"] | {"max_gpu_hours": 0.3}})
    assert f"{9 - points} of 9 configs were not proposed" in cautions(build(full))[CODE].text


def test_an_interim_report_does_not_judge_the_budget() -> None:
    assert CODE not in cautions(build(sweep_inputs(LIMITS, fate=cut_from(5), state=SweepState.RUNNING)))


def test_the_method_says_on_which_seeds_configs_were_chosen() -> None:
    whole, cut = build(sweep_inputs(LIMITS)), build(sweep_inputs(LIMITS, fate=cut_from(5)))
    assert whole.method[0] == "Configs were chosen on tune seeds 0, 1 by their mean over these seeds."
    assert cut.method[0].startswith("Configs were chosen on tune seeds 0 by their mean over these seeds. Not every")
    assert "1 config that did not run on all of them" in build(sweep_inputs(LIMITS, fate=cut_from(9))).method[0]


def test_who_was_chosen_is_chosen_on_shared_seeds() -> None:
    whole, cut = sweep_inputs(LIMITS), sweep_inputs(LIMITS, fate=cut_from(5))
    confirmed = [{t.config_id for t in i.trials if t.stage is Stage.CONFIRM} for i in (whole, cut)]
    assert confirmed[0] == confirmed[1]
    assert build(cut).best is not None
