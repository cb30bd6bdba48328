"""One command runs a whole installation: a sweep goes from its submission to its report."""

import os
import subprocess
import sys

from sweep_service.auth import read_token
from sweep_service.client import Client
from sweep_service.report import Report
from sweep_service.settings import Settings
from sweep_service.sweep.records import SweepState, TrialState
from tests.sweep_stack import serving, small_sweep, unused_port
from tests.waiting import PATIENT_S


def test_a_sweep_gets_its_report_and_a_second_serve_of_the_same_home_says_so(settings: Settings) -> None:
    with serving(settings), Client(settings.url, read_token(settings.token_file)) as client:
        sweep_id = client.submit(small_sweep("whole", resources={"max_parallel": 1})).id
        os.environ["SWEEPS_PORT"] = str(unused_port())
        second = subprocess.run([sys.executable, "-m", "sweep_service", "serve"], capture_output=True, text=True)
        sweep = client.wait(sweep_id, 150)
        trials = list(client.trials(sweep_id))
        report = Report.model_validate_json(client.report(sweep_id, "json", timeout_s=PATIENT_S))
    assert second.returncode == 1
    assert second.stderr.count("\n") == 1
    assert f"uses {settings.home}" in second.stderr
    assert (sweep.state, sweep.message) == (SweepState.SUCCEEDED, None)
    assert [trial.state for trial in trials] == [TrialState.SUCCEEDED] * 2
    assert {trial.id for trial in report.trials} == {trial.id for trial in trials}
