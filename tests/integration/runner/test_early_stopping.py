"""Rules that drop configs in a real runner: what is trained, what is stored, and the same after kills."""

import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sweep_service.service import SweepService
from sweep_service.settings import Settings
from sweep_service.store import Fence, Store
from sweep_service.sweep.endings import Ending, TrialState
from sweep_service.sweep.records import Judgement, Stage, SweepState
from tests.sweep_stack import runner, submit_and_claim
from tests.waiting import PATIENT_S, wait_until

pytestmark = pytest.mark.long

PROGRAM = """
import json, random, sys, time
from functools import partial
from pathlib import Path
options = {name: Path(value) for name, value in zip(sys.argv[1::2], sys.argv[2::2])}
config, output = json.loads(options["--config"].read_text()), options["--output"]
events = (output / "events.jsonl").open("a")
dice = random.Random(f"{config['quality']} {config['seed']}")
end = config["quality"] + random.Random(config["seed"]).gauss(0, 0.05) + dice.gauss(0, 0.01)
for step in range(1, config["steps"] + 1):
    time.sleep(config["step_s"])
    print(json.dumps({"type": "step", "step": step, "metrics": {"reward/mean": end}}), file=events, flush=True)
    right = round(1000 * end * step / config["steps"])
    counts = {"one": [right, 1000], "two": [right, 1000]}
    print(json.dumps({"type": "evaluation", "step": step, "problems": counts}), file=events, flush=True)
print(json.dumps({"type": "finished"}), file=events, flush=True)
"""
QUALITIES = [0.2, 0.55, 0.5, 0.3, 0.56]
"""Worth of each config; a run's error has a standard deviation of 0.01."""
STEPS = 8


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, trainer_commands=sys.executable)


def sweep(folder: Path, rule: object, seeds: int = 5, step_s: float = 0.0, **changes: Any) -> dict[str, Any]:
    (folder / "program.py").write_text(PROGRAM)
    return {
        "name": "dropped",
        "trainer": {
            "command": [sys.executable, str(folder / "program.py")],
            "steps": STEPS,
            "baseline": {"quality": 0.1},
        },
        "training": {"step_s": step_s},
        "space": {"quality": QUALITIES},
        "early_stopping": rule,
        "seeds": {"tune": list(range(seeds)), "confirm": {"top_k": 1, "seeds": [10, 11, 12]}},
        "resources": {"cpus": 1, "max_parallel": 2},
    } | changes


def run(settings: Settings, store: Store, fence: Fence, ray: Mapping[str, str]) -> None:
    with runner(settings, fence, ray) as process:
        assert process.wait(PATIENT_S) == 0, (settings.storage / fence.sweep_id / "runner.log").read_text()


def tuned(store: Store, sweep_id: str) -> dict[float, list[TrialState]]:
    """Return the states of each config's tune trials, by quality."""
    states: dict[str, list[TrialState]] = {}
    for trial in store.list_trials(sweep_id):
        if trial.stage is Stage.TUNE:
            states.setdefault(trial.config_id, []).append(trial.state)
    return {config.params["quality"]: states[config.id] for config in store.list_configs(sweep_id)}


def drops(store: Store, sweep_id: str) -> list[tuple[float, int]]:
    """Return the quality of each dropped config, and after how many seeds it was dropped."""
    quality = {config.id: config.params["quality"] for config in store.list_configs(sweep_id)}
    return [(quality[one.config_id], one.mark) for one in store.judgements(sweep_id) if one.dropped]


def test_paired_trains_no_further_seed_of_what_is_proved_worse(
    settings: Settings, store: Store, ray: Mapping[str, str], tmp_path: Path
) -> None:
    fence = submit_and_claim(store, sweep(tmp_path, "paired"))
    run(settings, store, fence, ray)
    sweep_id, states = fence.sweep_id, tuned(store, fence.sweep_id)
    assert store.get_sweep(sweep_id).state is SweepState.FINALIZING
    assert dict(drops(store, sweep_id)) == {0.2: 3, 0.3: 3, 0.5: 3}
    for quality in (0.55, 0.56, 0.1):  # the two best ones, and the baseline, the worst of all
        assert states[quality] == [TrialState.SUCCEEDED] * 5
    for quality in (0.2, 0.3, 0.5):
        assert states[quality][:3] == [TrialState.SUCCEEDED] * 3
        assert states[quality][4] is TrialState.EARLY_STOPPED
    stopped = [trial for trial in store.list_trials(sweep_id) if trial.state is TrialState.EARLY_STOPPED]
    assert {trial.ending for trial in stopped} == {Ending.EARLY_STOPPED}
    assert all("proves it worse" in (trial.message or "") for trial in stopped)
    confirmed = {trial.config_id for trial in store.list_trials(sweep_id) if trial.stage is Stage.CONFIRM}
    assert {config.params["quality"] for config in store.list_configs(sweep_id) if config.id in confirmed} == {
        0.56,
        0.1,
    }
    told = [event.data for event in store.list_events(sweep_id) if event.type == "config.dropped"]
    assert [Judgement.model_validate(data) for data in told] == [j for j in store.judgements(sweep_id) if j.dropped]


def test_rungs_let_only_the_best_go_on_after_a_quarter_and_half_of_the_seeds(
    settings: Settings, store: Store, ray: Mapping[str, str], tmp_path: Path
) -> None:
    fence = submit_and_claim(store, sweep(tmp_path, "rungs", seeds=4))
    run(settings, store, fence, ray)
    succeeded = {
        quality: sum(state is TrialState.SUCCEEDED for state in states)
        for quality, states in tuned(store, fence.sweep_id).items()
    }
    assert dict(drops(store, fence.sweep_id)).keys() == {0.2, 0.3, 0.5, 0.55}
    assert succeeded[0.56] == succeeded[0.1] == 4
    assert succeeded[0.2] <= 2


@pytest.mark.parametrize("rule", ["median", "asha"])
def test_rules_by_arrival_end_runs_midway(
    settings: Settings, store: Store, ray: Mapping[str, str], tmp_path: Path, rule: str
) -> None:
    wanted = {"rule": rule} | ({"min_runs": 2} if rule == "median" else {})
    raw = sweep(tmp_path, wanted, seeds=1, step_s=1.0, space={"quality": [0.5, 0.55, 0.6, 0.1, 0.12]})
    fence = submit_and_claim(store, raw)
    run(settings, store, fence, ray)
    states = tuned(store, fence.sweep_id)
    assert {quality for quality, _ in drops(store, fence.sweep_id)} >= {0.12}
    stopped = [trial for trial in store.list_trials(fence.sweep_id) if trial.state is TrialState.EARLY_STOPPED]
    assert stopped
    assert all(0 < trial.step < STEPS for trial in stopped)
    assert states[0.6] == [TrialState.SUCCEEDED]


def test_a_config_that_was_dropped_is_taken_back_with_all_its_trials(
    settings: Settings, store: Store, ray: Mapping[str, str], tmp_path: Path
) -> None:
    fence = submit_and_claim(store, sweep(tmp_path, "paired", seeds=5))
    run(settings, store, fence, ray)
    sweep_id, service = fence.sweep_id, SweepService(store, settings)
    store.set_sweep_state(fence, SweepState.SUCCEEDED)
    store.release_lease(fence)
    (config,) = [one for one in store.list_configs(sweep_id) if one.params["quality"] == 0.3]
    stopped = [trial for trial in store.list_trials(sweep_id) if trial.state is TrialState.EARLY_STOPPED]
    mine = [trial for trial in stopped if trial.config_id == config.id]
    assert config.dropped is not None
    service.retry_trial(mine[0].id)
    claimed = store.claim("test", 60)
    assert claimed is not None
    run(settings, store, Fence(sweep_id, claimed.epoch), ray)
    assert tuned(store, sweep_id)[0.3] == [TrialState.SUCCEEDED] * 5
    assert tuned(store, sweep_id)[0.2][4] is TrialState.EARLY_STOPPED
    assert {one.id for one in store.list_configs(sweep_id) if one.dropped} == {
        trial.config_id for trial in stopped if trial.config_id != config.id
    }


def test_killed_at_any_moment_paired_decides_as_if_undisturbed(
    settings: Settings, store: Store, ray: Mapping[str, str], tmp_path: Path
) -> None:
    undisturbed = submit_and_claim(store, sweep(tmp_path, "paired"))
    run(settings, store, undisturbed, ray)
    fence = submit_and_claim(store, sweep(tmp_path, "paired", name="killed"))
    for ended in (4, 11, 18, 20, 23):
        with runner(settings, fence, ray) as process:
            wait_until("trials have ended", partial(_has_ended, store, fence.sweep_id, ended, process))
            process.kill()
        store.release_lease(fence)
        claimed = store.claim("test", 60)
        assert claimed is not None
        fence = Fence(fence.sweep_id, claimed.epoch)
    run(settings, store, fence, ray)
    (found, expected) = (decided(store, sweep_id) for sweep_id in (fence.sweep_id, undisturbed.sweep_id))
    assert found == expected


def decided(store: Store, sweep_id: str) -> list[dict[str, Any]]:
    """Return the judgements of a sweep, with qualities for ids, which differ between sweeps."""
    quality = {config.id: config.params["quality"] for config in store.list_configs(sweep_id)}
    own = [one.model_dump() for one in store.judgements(sweep_id)]
    return [one | {"config_id": quality[one["config_id"]], "rival": quality.get(one["rival"])} for one in own]


def _has_ended(store: Store, sweep_id: str, number: int, process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is not None or sum(one.state.is_over for one in store.list_trials(sweep_id)) >= number
