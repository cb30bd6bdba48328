"""A whole installation sweeps over the parameter of the loss package of docs/losses.md, to its report."""

import json
import os
from pathlib import Path

import pytest

from sweep_service.auth import read_token
from sweep_service.client import Client
from sweep_service.settings import Settings
from sweep_service.store import open_store
from sweep_service.sweep.endings import TrialState
from sweep_service.sweep.records import SweepState
from tests.loss_packages import documented_package, pip_install
from tests.sweep_stack import SMALL_TRAINING, serving
from tests.waiting import wait_until
from trainers.yaml_text import read_yaml_file


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_sweep_over_a_packages_loss_ends_with_a_report(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, site = documented_package(tmp_path), tmp_path / "site"
    pip_install(package, site)
    places = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(places))
    raw = read_yaml_file(package / "sweep.yaml")
    raw["training"] = {**SMALL_TRAINING, **raw["training"]}
    raw["seeds"] = {"tune": [0], "confirm": {"top_k": 1, "seeds": [7, 8, 9]}}
    with serving(settings), Client(settings.url, read_token(settings.token_file)) as client:
        planned = client.plan(raw)
        assert planned.first_labels[-1] == "alpha=1"
        sweep = client.submit(raw)
        store = open_store(settings.database_url)
        wait_until("the sweep has ended", lambda: store.get_sweep(sweep.id).state.is_over)
        assert store.get_sweep(sweep.id).state is SweepState.SUCCEEDED, store.get_sweep(sweep.id).message
        wait_until("the report is there", lambda: store.find_report(sweep.id, "json") is not None)
        report = json.loads(store.get_report(sweep.id, "json"))
        trials = store.list_trials(sweep.id)
        assert {trial.state for trial in trials} == {TrialState.SUCCEEDED}
        versions = [noted for attempts in store.versions(sweep.id).values() for noted in attempts]
        store.close()
    losses = {row["loss"] for row in report["configs"]}
    assert losses == {"tempered", "grpo", "dapo"}
    alphas = [row["params"]["loss.alpha"] for row in report["configs"] if row["loss"] == "tempered"]
    assert sorted(alphas) == [0, 0.5, 1]
    assert len({noted.get("tempered-loss", "") for noted in versions}) == 2  # of its own trials, and of the baselines'
    assert "MIXED_VERSIONS" not in {caution["code"] for caution in report["cautions"]}
    assert report["verdict"]["comparison"]["differs_in"] == ["loss"]
