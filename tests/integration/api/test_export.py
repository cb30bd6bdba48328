"""`sweeps best --export`: the policy of the best config as a model folder."""

import json
from pathlib import Path

import pytest
import yaml

from sweep_service.settings import Settings
from sweep_service.sweep.records import SweepState
from sweep_service.worker.reports.contents import build_report
from tests.integration.api.conftest import Served, Sweeps
from tests.integration.api.played_sweep import play
from tests.integration.trainers.tiny_models import save_tiny_model
from trainers.config import TrainingConfig
from trainers.policy.checkpoints import write_state


@pytest.mark.long
def test_the_best_configs_policy_is_exported_whole_or_not_at_all(
    served: Served, sweeps: Sweeps, spec: str, home: Path, tmp_path: Path
) -> None:
    sweep_id = sweeps("submit", "-f", spec).out.strip()
    fence = play(served.store, sweep_id)
    checkpoint = tmp_path / "step-80"
    best = served.service.best(sweep_id).config_id
    for trial in served.store.list_trials(sweep_id):
        if trial.config_id == best:
            (attempt,) = [a for a in served.store.list_attempts(sweep_id) if a.trial_id == trial.id]
            event = {"type": "checkpoint", "time": 1.0, "step": 80, "path": str(checkpoint)}
            served.store.ingest(fence, attempt, 80_000, 80_001, [event])
    served.store.set_sweep_state(fence, SweepState.FINALIZING)
    assert sweeps("best", "--export", "model").code == 6  # no report yet
    served.store.put_report(sweep_id, "digest", build_report(served.store, sweep_id, Settings(home=home))[1])
    served.store.set_sweep_state(fence, SweepState.SUCCEEDED)

    away = sweeps("best", "--export", "model")
    assert away.code == 1
    assert f"left its policy at {checkpoint}, which this machine does not have" in away.err
    save_tiny_model(checkpoint)
    write_state(checkpoint, TrainingConfig(), {"step": 80})
    assert "choose one of 0, 1" in sweeps("best", "--export", "model", "--seed", "7").err
    assert sweeps("best", "--export", "model", "--adapter").code == 1
    assert sweeps("best", "--adapter").code == 2
    assert not [entry.name for entry in home.iterdir() if "model" in entry.name]

    ran = sweeps("best", "--export", "model")
    assert (ran.code, ran.out) == (0, f"{home / 'model'}\n")
    assert "tune trial" in ran.err
    assert {"README.md", "best.yaml", "config.json", "model.safetensors"} <= {
        f.name for f in (home / "model").iterdir()
    }
    assert sweep_id in (home / "model" / "README.md").read_text().replace("\\", "")
    assert yaml.safe_load((home / "model" / "best.yaml").read_text())["loss"]["beta1"] == 0
    assert "exists already" in sweeps("best", "--export", "model").err
    trials = json.loads(sweeps("show", "--json").out)["trials"]
    assert {trial["checkpoint"]["path"] for trial in trials if trial["config_id"] == best} == {str(checkpoint)}
