"""A trainer of one's own, from submission to a report: killed in mid-run, paused and resumed, and one that errs."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from sweep_service.cli.spec_file import read_spec
from sweep_service.processes.child_processes import is_alive
from sweep_service.report import Report
from sweep_service.report.model import Outcome
from sweep_service.service import SweepService, best_yaml
from sweep_service.settings import Settings
from sweep_service.store import Fence, Store
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.records import Sweep, SweepState, TrialState
from sweep_service.worker.reports.contents import build_report
from tests.sweep_stack import program_below, runner, submit_and_claim
from tests.waiting import PATIENT_S, wait_until

EXAMPLES = Path(__file__).parents[3] / "examples"
STEPS = 50


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, trainer_commands=f"{sys.executable}")


def example(**changes: Any) -> dict[str, Any]:
    """Return the example's sweep, shortened, with this interpreter."""
    raw: dict[str, Any] = read_spec(EXAMPLES / "own_trainer.yaml")
    raw["trainer"] |= {"command": [sys.executable, *raw["trainer"]["command"][1:]], "steps": STEPS}
    raw["training"] |= {"evaluate_every": 10}
    return raw | changes


def curves(store: Store, fence: Fence) -> list[tuple[int, str, list[int], list[float | None]]]:
    numbers = {trial.id: trial.number for trial in store.list_trials(fence.sweep_id)}
    found = store.curves(fence.sweep_id, ["reward/mean", "eval/avg_at_k", "eval/confirm_part/avg_at_k"])
    return sorted((numbers[curve.trial_id], curve.key, curve.steps, curve.values) for curve in found)


def run(settings: Settings, store: Store, fence: Fence, ray: Mapping[str, str]) -> None:
    with runner(settings, fence, ray) as process:
        assert process.wait(PATIENT_S) == 0


def test_the_examples_sweep_ends_with_a_verdict(settings: Settings, store: Store, ray: Mapping[str, str]) -> None:
    fence = submit_and_claim(store, example(seeds={"tune": [0], "confirm": {"top_k": 1, "seeds": [10, 11, 12]}}))
    run(settings, store, fence, ray)
    assert store.get_sweep(fence.sweep_id).state is SweepState.FINALIZING
    trials = store.list_trials(fence.sweep_id)
    assert {trial.state for trial in trials} == {TrialState.SUCCEEDED}, [trial.message for trial in trials]
    assert len(trials) == 3 + 2 * 3
    for curve in store.curves(fence.sweep_id, ["reward/mean"]):
        assert curve.steps == list(range(1, STEPS + 1))
    _, contents, _ = build_report(store, fence.sweep_id, settings)
    report = Report.model_validate_json(contents["json"])
    assert report.verdict.outcome is Outcome.AHEAD, report.verdict.sentence
    assert report.best is not None
    assert report.best.params == {"beta": 1}
    assert "-m examples.own_trainer" in report.best.provenance["program"]
    assert json.loads(report.best.yaml)["beta"] == 1
    best = SweepService(store, settings).best(fence.sweep_id)
    assert json.loads(best_yaml(best)) == json.loads(report.best.yaml)  # what the program reads
    assert report.best.provenance.keys().isdisjoint({"data", "model", "packages"})  # of which nothing is known
    assert "loss" not in report.verdict.sentence
    assert "BASELINE_MISSING" not in {caution.code for caution in report.cautions}
    assert report.halves  # the problems that chose beta did not measure it


@pytest.mark.long
def test_killed_and_paused_in_mid_run_it_ends_as_undisturbed(
    settings: Settings, store: Store, ray: Mapping[str, str]
) -> None:
    """The example goes on exactly where its checkpoint was: its program is killed, its runner, and its sweep paused."""
    one = {"space": {"beta": [1]}, "seeds": {"tune": [0]}, "search": {"strategy": "grid"}}
    quick = submit_and_claim(store, example(**one))
    run(settings, store, quick, ray)
    store.set_sweep_state(quick, SweepState.SUCCEEDED)
    store.release_lease(quick)

    raw = example(**one)
    slow = submit_and_claim(store, raw | {"training": raw["training"] | {"step_s": 0.3}})
    first, taken = store.list_trials(slow.sweep_id)[0].id, list[Sweep]()

    def has_trained(number: int) -> bool:
        """Return whether this attempt runs and has told something."""
        running = [attempt for attempt in store.attempts_of(first) if attempt.ending is None]
        return store.get_trial(first).attempts == number and any(attempt.events_offset for attempt in running)

    with runner(settings, slow, ray) as process:
        wait_until("it is beyond a checkpoint", lambda: store.get_trial(first).step > 12)
        (attempt, *_) = store.list_attempts(slow.sweep_id, running_only=True)
        assert attempt.trial_id == first
        assert attempt.pid is not None
        program_below(attempt.pid).kill()
        wait_until("it goes on", lambda: has_trained(2))
        process.kill()
        process.wait()
    wait_until("its lease is over", lambda: taken.extend(filter(None, [store.claim("test", 60)])) or taken)
    slow = Fence(taken[0].id, taken[0].epoch)
    with runner(settings, slow, ray) as process:
        wait_until("it goes on", lambda: has_trained(3))
        store.request_pause(slow.sweep_id)
        assert process.wait(PATIENT_S) == 0
    killed, lost, paused = store.attempts_of(first)
    assert (killed.ending, lost.ending, paused.ending) == (Ending.KILLED, Ending.LOST, Ending.PAUSED)
    assert "signal 9" in (killed.message or "")
    assert not any(is_alive(a.host, a.pid, a.pid_started_at) for a in (killed, lost, paused))
    checkpoint = store.newest_checkpoint(first)
    assert checkpoint is not None
    assert checkpoint.step == store.get_trial(first).step  # it has saved at the pause, so nothing is trained again
    slow = go_on(store, slow)
    run(settings, store, slow, ray)
    assert store.attempts_of(first)[-1].ending is Ending.SUCCEEDED
    assert curves(store, slow) == curves(store, quick)


def go_on(store: Store, fence: Fence) -> Fence:
    """Resume a paused sweep, and take it over as a worker does."""
    store.release_lease(fence)
    store.request_resume(fence.sweep_id)
    claimed = store.claim("test", 60)
    assert claimed is not None
    return Fence(claimed.id, claimed.epoch)


def program(tmp_path: Path, text: str) -> list[str]:
    """Write a trainer of a few lines, to which `step` writes an event; return its command."""
    head = (
        "import json, os, shutil, signal, sys, time\n"
        "def write(**event):\n"
        "    with open('events.jsonl', 'a') as file: file.write(json.dumps(event) + chr(10))\n"
    )
    (path := tmp_path / "trainer.py").write_text(head + text)
    return [sys.executable, str(path)]


def small(command: list[str], **changes: Any) -> dict[str, Any]:
    trainer = {"command": command, "steps": 2}
    spec = {"name": "small", "trainer": trainer, "space": {"beta": [1]}, "seeds": {"tune": [0]}}
    return spec | {"retries": {"max_crashes": 1}} | changes


ENDS = {
    "no JSON": ("print('hello', file=open('events.jsonl', 'a')); time.sleep(600)", Ending.FAILED, "line 1 of events"),
    "no number": ("write(type='step', step=1, metrics={'loss': float('nan')})", Ending.FAILED, "finite number"),
    "backwards": (
        "write(type='step', step=2); write(type='step', step=1)",
        Ending.FAILED,
        "step 1 does not come after step 2",
    ),
    "huge": ("print('x' * (1 << 21), file=open('events.jsonl', 'a')); time.sleep(600)", Ending.FAILED, "1048576 bytes"),
    "nothing": ("", Ending.FAILED, "after step 0 of 2"),
    "no evaluation": (
        "write(type='step', step=2)",
        Ending.FAILED,
        "wrote no evaluation; configs are compared by eval/avg_at_k",
    ),
    "exception": ("raise ValueError('no such file')", Ending.FAILED, "ValueError: no such file"),
    "said why": ("write(type='failed', message='out of luck'); sys.exit(1)", Ending.FAILED, "out of luck"),
    "diverged": ("write(type='step', step=1); sys.exit(3)", Ending.DIVERGED, None),
    "crash": ("os.kill(os.getpid(), signal.SIGSEGV)", Ending.CRASHED, "signal 11"),
    "no folder": (
        "here = os.getcwd(); os.chdir('/'); shutil.rmtree(here); open(here, 'w').close(); sys.exit(1)",
        Ending.FAILED,
        "events.jsonl is no ordinary file that can be read",
    ),
    "traps": (
        "later = f'../{int(os.path.basename(os.getcwd())) + 1}'; os.mkdir(later)\n"
        "    for name in ('config.yaml', 'stderr.log', 'events.jsonl', 'stop'): os.mkfifo(f'{later}/{name}')\n"
        "    sys.exit(9)",
        Ending.CRASHED,
        "exit code 9",
    ),
    "sparse log": ("os.truncate('stderr.log', 1 << 40); sys.exit(9)", Ending.CRASHED, "exit code 9"),
}


def test_every_way_to_end_is_told_apart(
    settings: Settings, store: Store, ray: Mapping[str, str], tmp_path: Path
) -> None:
    """One program, which ends in another way for each seed; the runner outlives them all."""
    names = list(ENDS)
    cases = "".join(f"if case == {name!r}:\n    {ENDS[name][0] or 'pass'}\n" for name in names)
    text = f"case = {names!r}[json.load(open('config.yaml'))['seed']]\n{cases}"
    fence = submit_and_claim(store, small(program(tmp_path, text), seeds={"tune": list(range(len(names)))}))
    run(settings, store, fence, ray)
    trials = {trial.seed: trial for trial in store.list_trials(fence.sweep_id)}
    for seed, name in enumerate(names):
        _, ending, message = ENDS[name]
        attempts = store.attempts_of(trials[seed].id)
        assert [attempt.ending for attempt in attempts] == [ending] * (2 if ending is Ending.CRASHED else 1), name
        assert (message or "") in (attempts[-1].message or ""), name
    assert build_report(store, fence.sweep_id, settings)


@pytest.mark.long
def test_a_program_that_does_not_listen_to_sigterm_is_paused_and_goes_on(
    settings: Settings, store: Store, ray: Mapping[str, str], tmp_path: Path
) -> None:
    text = (
        "resumed = '--resume-from' in sys.argv\n"
        "if not resumed:\n"
        "    write(type='step', step=1); open('saved', 'w').write('1')\n"
        "    write(type='checkpoint', step=1, path='saved'); time.sleep(600)\n"
        "assert sys.argv[-1].endswith('/1/saved'), sys.argv\n"
        "write(type='step', step=2); write(type='evaluation', step=2, metrics={'eval/avg_at_k': 0.5})\n"
    )
    fence = submit_and_claim(store, small(program(tmp_path, text)))
    (trial,) = store.list_trials(fence.sweep_id)
    with runner(settings, fence, ray) as process:
        wait_until("it has saved", lambda: store.newest_checkpoint(trial.id))
        store.request_pause(fence.sweep_id)
        assert process.wait(PATIENT_S) == 0
    run(settings, store, go_on(store, fence), ray)
    assert [attempt.ending for attempt in store.attempts_of(trial.id)] == [Ending.PAUSED, Ending.SUCCEEDED]
    (curve,) = store.curves(fence.sweep_id, ["eval/avg_at_k"])
    assert (curve.steps, curve.values) == ([2], [0.5])


@pytest.mark.long
def test_at_its_limit_nothing_of_it_is_left(
    settings: Settings, store: Store, ray: Mapping[str, str], tmp_path: Path
) -> None:
    """Neither the program, which does not listen to SIGTERM, nor what it has started in a session of its own."""
    text = (
        "import subprocess\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
        "write(type='step', step=1, metrics={'child': child.pid})\n"
        "time.sleep(600)\n"
    )
    fence = submit_and_claim(store, small(program(tmp_path, text), budget={"max_trial_hours": 0.002}))
    run(settings, store, fence, ray)
    (attempt,) = store.list_attempts(fence.sweep_id)
    assert attempt.ending is Ending.TIMED_OUT
    (curve,) = store.curves(fence.sweep_id, ["child"])
    assert curve.values[0] is not None
    assert not psutil.pid_exists(int(curve.values[0]))


@pytest.mark.long
def test_a_command_that_the_operator_no_longer_allows_ends_the_sweep(
    settings: Settings, store: Store, ray: Mapping[str, str], tmp_path: Path
) -> None:
    fence = submit_and_claim(store, small(program(tmp_path, "")))
    run(settings.model_copy(update={"trainer_commands": ""}), store, fence, ray)
    sweep = store.get_sweep(fence.sweep_id)
    assert sweep.state is SweepState.FAILED
    assert "SWEEPS_TRAINER_COMMANDS" in (sweep.message or "")
    assert not store.list_attempts(sweep.id)


def test_the_program_sees_its_file_its_folder_and_no_secret_and_keeps_what_it_wrote(
    settings: Settings, store: Store, ray: Mapping[str, str], tmp_path: Path
) -> None:
    text = (
        "os.makedirs('model-2')\n"
        "write(type='step', step=2, metrics={'cwd_is_output': int(sys.argv[4] == os.getcwd())})\n"
        "json.dump([json.load(open(sys.argv[2])), sorted(os.environ), sys.argv], open('seen.json', 'w'))\n"
        "write(type='evaluation', step=2, metrics={'eval/avg_at_k': 0.5})\n"
    )
    raw = small(program(tmp_path, text), training={"model": {"name": "mine", "width": 4}}, space={"model.width": [8]})
    fence = submit_and_claim(store, raw)
    run(settings, store, fence, ray)
    (attempt,) = store.list_attempts(fence.sweep_id)
    assert attempt.ending is Ending.SUCCEEDED, attempt.message
    assert (Path(attempt.directory) / "model-2").is_dir()  # ours of that name would have gone with the sweep's end
    config, names, words = json.loads((Path(attempt.directory) / "seen.json").read_text())
    assert config == {"model": {"name": "mine", "width": 8}, "steps": 2, "seed": 0}
    assert words[1:] == ["--config", f"{attempt.directory}/config.yaml", "--output", attempt.directory]
    assert not {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "SWEEPS_DATABASE_URL", "SWEEPS_MLFLOW_LOGIN"} & set(names)
    assert "OMP_NUM_THREADS" in names
