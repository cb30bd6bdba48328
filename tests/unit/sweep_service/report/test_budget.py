"""What a report says of hours, and of a tune stage that the budget ended."""

from dataclasses import replace

import pytest

from sweep_service.report.build import build
from sweep_service.report.render.html import render_html
from sweep_service.sweep.records import SweepState, TrialState
from tests.unit.sweep_service.report.report_sweeps import sweep_inputs
from tests.unit.sweep_service.report.report_worlds import LIMITS, never_begun


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


def test_the_method_says_on_which_seeds_configs_were_chosen() -> None:
    whole, cut = build(sweep_inputs(LIMITS)), build(sweep_inputs(LIMITS, fate=never_begun(5)))
    assert whole.method[0] == "Configs were chosen on tune seeds 0, 1 by their mean over these seeds."
    assert cut.method[0].startswith("Configs were chosen on tune seeds 0 by their mean over these seeds. Not every")
    assert "1 config that did not run on all of them" in build(sweep_inputs(LIMITS, fate=never_begun(9))).method[0]
