"""From the rows of a real store to a kept report."""

from pathlib import Path
from typing import Any

from sweep_service.finalize import build_report, gather
from sweep_service.records import DesiredState, Outcome, Stage, Sweep, SweepState, TrialState
from sweep_service.report import Report, build
from sweep_service.settings import Settings
from sweep_service.spec import SweepSpec
from sweep_service.store import Fence, Store, open_store
from tests.unit.sweep_service.report_sweeps import SPEC, sweep_inputs


def fill(store: Store) -> str:
    """Store the made-up sweep as a runner would."""
    inputs = sweep_inputs()
    spec = SweepSpec.model_validate(SPEC)
    sweep = Sweep(
        id="swp_test",
        name=spec.name,
        state=SweepState.QUEUED,
        desired_state=DesiredState.RUN,
        created_at=1e9,
        spec=spec,
        spec_digest=spec.digest,
    )
    tune = [trial for trial in inputs.trials if trial.stage is Stage.TUNE]
    confirm = [trial for trial in inputs.trials if trial.stage is Stage.CONFIRM]
    pending = {"state": TrialState.PENDING, "step": 0, "attempts": 0, "started_at": None, "ended_at": None}
    store.create_sweep(sweep, inputs.configs, [trial.model_copy(update=pending) for trial in tune])
    claimed = store.claim("test", 60)
    assert claimed is not None
    fence = Fence(sweep.id, claimed.epoch)
    store.set_sweep_state(fence, SweepState.RUNNING)
    store.add_configs(fence, [], [trial.model_copy(update=pending) for trial in confirm])
    for trial in inputs.trials:
        attempt = store.start_attempt(fence, trial.id, "/nowhere/{attempt}")
        events: dict[tuple[str, int], dict[str, Any]] = {}
        for key in ("entropy", "reward/mean", "eval/avg_at_k"):
            kind = "evaluation" if key.startswith("eval/") else "step"
            series = inputs.get(trial.id, key)
            assert series is not None
            for step, value in zip(series.steps.tolist(), series.values.tolist(), strict=True):
                event = {"type": kind, "step": step, "time": 1e9 + step, "metrics": {}}
                events.setdefault((kind, step), event)["metrics"][key] = value
        store.ingest(fence, attempt, 0, 100, list(events.values()))
        store.finish_attempt(fence, attempt, Outcome.SUCCEEDED, None, 3)
    store.set_sweep_state(fence, SweepState.FINALIZING)
    return sweep.id


def test_a_report_is_built_from_the_store_and_kept(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'sweeps.db'}")
    settings = Settings(home=tmp_path, mlflow_url="http://127.0.0.1:5000")
    sweep_id = fill(store)
    digest, contents = build_report(store, sweep_id, settings)
    assert set(contents) == {"html", "json", "md", "yaml"}
    assert build_report(store, sweep_id, settings) == (digest, contents)
    report = Report.model_validate_json(contents["json"])
    assert report == build(gather(store, sweep_id, settings))
    assert report.inputs_digest == digest
    assert report.verdict.outcome == "TIED"
    assert "torch" in report.versions
    store.put_report(sweep_id, digest, contents)
    assert store.get_report(sweep_id, "html") == contents["html"]
    assert store.report_digest(sweep_id) == digest
    store.close()
