"""Plausible specs, drawn by lot, go through a whole installation to a report.

DRAWN_SPECS=20 draws more than the usual two; what became of each is printed (pytest -s).
"""

import os
import random
import time
from typing import Any

import pytest

from sweep_service.auth import read_token
from sweep_service.client import Client
from sweep_service.intake.spec_check import parse_spec
from sweep_service.report import Report
from sweep_service.settings import Settings
from sweep_service.sweep.plan import make_plan
from sweep_service.sweep.records import SweepState
from tests.plausible_specs import plausible_specs
from tests.sweep_stack import serving
from tests.waiting import PATIENT_S

NUMBER = int(os.environ.get("DRAWN_SPECS", "2"))
MOST_UPDATES, MOST_TOKENS = 240, 4_000_000
"""Of all trials together."""

pytestmark = [pytest.mark.hunt, pytest.mark.timeout(300 + 1200 * NUMBER)]


def runs_here(raw: dict[str, Any]) -> bool:
    """Tell whether two cores run this in minutes: the tiny policy, few updates, few tokens."""
    if raw["training"]["model"]["name"] != "tiny_qwen2" or raw["resources"]["cpus"] > 2:
        return False
    spec = parse_spec(raw)
    rollout, trials = spec.base.rollout, sum(make_plan(spec, None).trials.values())
    completions = spec.base.steps * rollout.prompts_per_minibatch * rollout.completions_per_prompt
    few = trials * spec.base.steps <= MOST_UPDATES
    return few and trials * completions * rollout.max_completion_tokens <= MOST_TOKENS


def test_drawn_specs_go_to_a_report(settings: Settings) -> None:
    here = [raw for raw in plausible_specs(seed=2, number=6000) if runs_here(raw)]
    drawn = random.Random(12).sample(here, 20)
    if len(drawn) > NUMBER:  # without the warm start of word problems, which takes minutes
        drawn = [raw for raw in drawn if raw["training"]["task"]["name"] == "expressions"][:NUMBER]
    with serving(settings), Client(settings.url, read_token(settings.token_file)) as client:
        for raw in drawn:
            began = time.monotonic()
            sweep = client.wait(client.submit(raw).id, 1200)
            assert (sweep.state, sweep.message) == (SweepState.SUCCEEDED, None), raw
            report = Report.model_validate_json(client.report(sweep.id, "json", timeout_s=PATIENT_S))
            training = raw["training"]
            what = f"{raw['name']}: {training['loss']['name']}, {training['task']['name']}, {raw['search']['strategy']}"
            ended = f"{len(report.trials)} trials, {report.verdict.outcome.value}"
            print(f"{what}, {training['steps']} steps: {ended}; {time.monotonic() - began:.0f} s")
            assert {trial.state.value for trial in report.trials} <= {"SUCCEEDED", "DIVERGED"}
