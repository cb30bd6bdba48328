"""A trainer of one's own in a whole installation: refused until the operator allows it, then swept to its report."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sweep_service.cli.spec_file import read_spec
from sweep_service.client import Client
from sweep_service.errors import InvalidSpec, ServiceError
from sweep_service.settings import Settings
from sweep_service.sweep.records import SweepState
from tests.sweep_stack import serving
from tests.waiting import wait_until

SPEC = Path(__file__).parents[2] / "examples" / "own_trainer.yaml"


@pytest.fixture
def allowed(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    monkeypatch.setenv("SWEEPS_TRAINER_COMMANDS", "/bin/true, python3 -m examples.own_trainer")
    with serving(settings):
        yield settings


@pytest.mark.long
def test_an_allowed_program_is_swept_from_submission_to_report_and_mlflow(allowed: Settings) -> None:
    raw: dict[str, Any] = read_spec(SPEC)
    with Client(allowed.url, allowed.token_file.read_text().strip()) as client:
        other = raw | {"trainer": raw["trainer"] | {"command": ["python3", "-c", "print()"]}}
        with pytest.raises(InvalidSpec, match="SWEEPS_TRAINER_COMMANDS"):
            client.submit(other)
        plan = client.plan(raw)
        assert (plan.baselines, plan.steps_per_trial, plan.trials) == (["baseline"], 200, {"tune": 6, "confirm": 12})
        sweep_id = client.submit(raw).id
        wait_until("it has ended", lambda: client.get(sweep_id).state.is_over)
        sweep = client.get(sweep_id)
        assert sweep.state is SweepState.SUCCEEDED, sweep.message
        assert sweep.verdict is not None
        assert sweep.verdict.outcome == "BETTER"
        assert "beta=1 is better than the baseline (beta=0)" in sweep.verdict.sentence
        best = client.best(sweep_id)
        assert best.training == {"learning_rate": 0.3, "evaluate_every": 25, "beta": 1, "steps": 200, "seed": 10}
        assert json.loads(client.best_yaml(sweep_id)) == best.training  # what the program reads
        assert b"python3 -m examples.own_trainer --config best.yaml" in client.report(sweep_id, "html")
        with pytest.raises(ServiceError, match="benchmarks cannot measure"):
            client.add_benchmarks(sweep_id, {"names": ["expressions"]})
        database = allowed.home / "mlflow" / "mlflow.db"
        wait_until("MLflow shows it whole", lambda: _finished(database) == 18 + 3 + 1)
        assert client.plan(raw).basis == "earlier trials of this command"


def _finished(database: Path) -> int:
    """Count the runs that MLflow has as finished: of trials, of configs, and the sweep's."""
    with closing(sqlite3.connect(database)) as connection:
        (count,) = connection.execute("select count(*) from runs where status = 'FINISHED'").fetchone()
        return count
