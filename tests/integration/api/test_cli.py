"""The command line against a real server: what it prints where, and how it exits."""

import io
import json
import math
import os
import pty
import signal
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from sweep_service.client import Client
from sweep_service.pages.live_sweeps import LiveSweep
from sweep_service.processes.heartbeat import Heartbeat, worker_file
from sweep_service.schemas import SweepView
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.records import SweepState, TrialState
from tests.integration.api.conftest import Served, Sweeps, serving
from tests.integration.api.played_sweep import REPORT, SPEC, claim, fail_first, finish, play, record, whenever_asked
from tests.stored_sweeps import add_missing_evaluations, measure, one_attempt
from tests.waiting import PATIENT_S


def test_json_is_what_the_api_answers(served: Served, sweeps: Sweeps, spec: str) -> None:
    def printed(*arguments: str) -> object:
        return json.loads(sweeps(*arguments, "--json").out)

    planned = served.http.post("/v1/sweeps?validate_only=true", json=SPEC).json()
    assert printed("plan", spec) == planned
    answered = sweeps("submit", spec, "--json")
    submitted = json.loads(answered.out)
    assert [line for line in answered.err.splitlines() if line.startswith("warning: ")] == [
        f"warning: {text}" for text in submitted.pop("warnings")
    ]
    base = f"/sweeps/{submitted['id']}"
    assert submitted == served.get(base)
    finish(served.store, play(served.store, submitted["id"]))
    sweep, best = served.get(base), served.get(f"{base}/best")
    assert printed("watch") == sweep
    assert printed("best") == best
    items = [served.get(f"{base}/{part}")["items"] for part in ("configs", "trials")]
    assert printed("show") == {"sweep": sweep, "best": best, "configs": items[0], "trials": items[1]}
    again = json.loads(sweeps("submit", spec, "--json").out)
    assert printed("cancel", again["id"]) == served.get(f"/sweeps/{again['id']}")
    assert printed("ls", "-n", "1") == served.get("/sweeps", page_size=1)
    assert printed("ls", "-n", "900") == served.get("/sweeps", page_size=900)
    both = (again["id"], submitted["id"])
    assert printed("compare", *both) == served.get("/compare", sweeps=",".join(both))
    for kind in ("models", "datasets", "benchmarks"):
        mine, theirs = printed(kind, "ls"), served.get(f"/{kind}")
        assert isinstance(mine, dict)
        assert isinstance(theirs, dict)
        assert {**mine, "page_size": 0} == {**theirs, "page_size": 0}
    assert printed("datasets", "show", "shop-sums") == served.get("/datasets/shop-sums")


def test_the_file_of_a_spec_is_an_argument_or_an_option(
    served: Served, sweeps: Sweeps, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sweeps("plan", spec).out == sweeps("plan", "-f", spec).out
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(SPEC)))
    assert sweeps("plan", "-").code == 0
    assert sweeps("submit", spec).code == 0
    assert sweeps("submit", "nix.yaml").code == sweeps("probe", "nix.yaml").code == 1
    for command in ("plan", "submit", "probe"):
        assert sweeps(command).code == sweeps(command, spec, "-f", spec).code == 2


def test_the_version_is_told(sweeps: Sweeps) -> None:
    assert sweeps("--version").out == f"sweeps {metadata.version('sweep-service')}\n"


def test_sweeps_are_listed_with_their_labels_and_by_what_is_asked(served: Served, sweeps: Sweeps) -> None:
    for name, labels in (("betas", {"team": "rl"}), ("losses", {"team": "rl", "run": "2"}), ("others", {})):
        served.submit(name=name, labels=labels)
    listed = sweeps("ls").out
    assert "team=rl run=2" in listed or "run=2 team=rl" in listed
    for asked, names in (
        ("ls BET", ["betas"]),
        ("list losses", ["losses"]),
        ("ls --label team=rl", ["losses", "betas"]),
        ("ls --label team=rl --label run=2", ["losses"]),
        ("ls --created-after 1h", ["others", "losses", "betas"]),
        ("ls --created-after 7d", ["others", "losses", "betas"]),
        ("ls --created-before 1h", []),
        ("ls --created-after 2020-01-01 --created-before 2021-01-01T12:00", []),
    ):
        found = json.loads(sweeps(*asked.split(), "--json").out)["items"]
        assert [sweep["name"] for sweep in found] == names, asked
    assert "no such sweeps" in sweeps("ls", "nothing").err
    assert sweeps("ls", "--label", "team").code == 2
    assert "name each once" in sweeps("ls", "--label", "team=a", "--label", "team=b").err
    assert sweeps("ls", "--label", "team=rl", "--label", "team=rl").code == 0
    wrong = sweeps("ls", "--created-after", "yesterday")
    assert (wrong.code, "7d" in wrong.err) == (2, True)


def test_a_report_is_built_anew_listed_and_taken_by_its_digest(served: Served, sweeps: Sweeps, spec: str) -> None:
    sweep_id, store = sweeps("submit", "-f", spec).out.strip(), served.store
    assert "there is no final report yet" in sweeps("report", "--list").err
    finish(store, play(store, sweep_id))
    newer = {"md": b"newer", "json": b'{"report_version":10}'}
    for says in (f"the one before is kept: sweeps report {sweep_id} --digest digest", "it is the same as before"):
        with whenever_asked(store, sweep_id, lambda: store.put_report(sweep_id, "new" + "0" * 61, newer)):
            ran = sweeps("report", "--anew", "--format", "md", "--timeout", str(PATIENT_S))
        assert (ran.code, ran.out) == (0, "newer")
        assert says in ran.err
    assert sweeps("report", "--digest", "dig", "--format", "md").out.encode() == REPORT["md"]
    assert sweeps("report", "--digest", "new", "--format", "md").out == "newer"
    _, first, second = [line.split() for line in sweeps("report", "--list").out.splitlines()]
    assert (first[0], first[3:]) == ("new000000000", ["10", "stands"])
    assert (second[0], second[3:5]) == ("digest", ["unknown", "until"])
    assert json.loads(sweeps("report", "--list", "--json").out) == served.get(f"/sweeps/{sweep_id}/reports")
    missing = sweeps("report", "--digest", "x")
    assert (missing.code, f"sweeps report {sweep_id} --list" in missing.err) == (5, True)
    assert sweeps("report", "--json").code == sweeps("report", "--list", "--anew").code == 2


def test_a_server_that_is_away_and_a_token_that_is_missing_or_wrong_have_exit_codes(
    sweeps: Sweeps, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "other").write_text("x" * 40)
    for token in ("/nowhere/token", str(home / "other")):
        monkeypatch.setenv("SWEEPS_TOKEN_FILE", token)
        ran = sweeps("ls")
        assert (ran.code, "SWEEPS_TOKEN_FILE" in ran.err) == (4, True), token
    monkeypatch.setenv("SWEEPS_URL", "http://127.0.0.1:9")
    assert sweeps("ls").code == 10


def test_a_name_comes_before_a_part_of_an_id_which_must_fit_one_sweep(served: Served, sweeps: Sweeps) -> None:
    named, other = (served.submit(name=name) for name in ("swp", "newer"))
    assert named in sweeps("show", "swp").out
    assert other in sweeps("show", other[-8:]).out
    assert sweeps("cancel", "swp_").code == 1
    assert sweeps("cancel", "").code == 5
    assert {sweep["desired_state"] for sweep in served.get("/sweeps")["items"]} == {"RUN"}


def test_a_probe_is_found_by_its_name_only_if_no_real_sweep_has_it(served: Served, sweeps: Sweeps) -> None:
    lonely = served.submit(name="lonely", probe="only")
    assert lonely in sweeps("show").out  # there is no other sweep yet
    real, probe = served.submit(), served.submit(probe="only")
    assert real in sweeps("show", "played").out
    assert real in sweeps("show").out
    assert lonely in sweeps("show", "lonely").out
    assert probe in sweeps("show", probe).out
    assert probe in sweeps("show", probe[-8:]).out
    listed = {line.split()[0]: line for line in sweeps("ls").out.splitlines()[1:]}
    assert [("(probe)" in listed[sweep_id]) for sweep_id in (lonely, real, probe)] == [True, False, True]
    assert sweeps("cancel", "played").code == 0
    assert served.store.get_sweep(probe).state is SweepState.QUEUED


def test_a_worker_that_does_not_run_fails_its_check(sweeps: Sweeps, home: Path) -> None:
    ran = sweeps("worker", "--check")
    assert ran.code == 1
    assert ran.err.startswith("error: no worker runs on ")
    Heartbeat(worker_file(home)).beat()
    assert sweeps("worker", "--check").code == 0


def test_a_port_that_a_command_does_not_use_is_told(sweeps: Sweeps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWEEPS_PORT", "1")
    monkeypatch.setenv("SWEEPS_STORAG", "x")
    ran = sweeps("ls")
    assert (ran.code, "SWEEPS_PORT=1 has no effect here" in ran.err) == (0, True)
    assert "SWEEPS_STORAG has no effect: it is no setting; SWEEPS_STORAGE may be meant" in ran.err
    assert "SWEEPS_PORT=1 has no effect here" in sweeps("doctor").out


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("PORT", "many", "error: SWEEPS_PORT=many: "),
        ("MLFLOW_URL", "http://me:PASSWORD@[::1", "write http://host:port"),
        ("MLFLOW_URL", "http://me:PASS/WORD@host", "%2F for a slash in a password"),
        ("MLFLOW_PUBLIC_URL", "http://me:PASSWORD@host:nope", "write http://host:port"),
        ("DATABASE_URL", "postgresql+psycopg://u:PASSWORD@h:nope/db", "write sqlite:////path/sweeps.db or postgresql"),
        ("DATABASE_URL", "mysql://u:PASSWORD@h/db", "write sqlite:////path/sweeps.db or postgresql"),
        ("DATABASE_URL", "PASSWORD", "write sqlite:////path/sweeps.db or postgresql"),
        ("URL", "http://[::1", "write http://host:port"),
        ("DATABASE_URL_FILE", "/nowhere/file", "cannot be read: No such file"),
    ],
)
def test_a_wrong_setting_is_named_without_its_password(
    sweeps: Sweeps, monkeypatch: pytest.MonkeyPatch, name: str, value: str, remedy: str
) -> None:
    monkeypatch.setenv("SWEEPS_MLFLOW_LOGIN", "me:SECOND")
    monkeypatch.setenv(f"SWEEPS_{name}", value)
    ran = sweeps("ls")
    assert ran.code == 2
    assert f"SWEEPS_{name}" in ran.err
    assert remedy in ran.err
    assert not any(word in ran.err + ran.out for word in ("PASS", "WORD", "SECOND"))


def test_submitting_once_more_with_the_same_key_waits_for_the_same_sweep(
    served: Served, sweeps: Sweeps, spec: str
) -> None:
    first = sweeps("submit", "-f", spec, "--key", "k").out
    finish(served.store, play(served.store, first.strip()))
    again = sweeps("submit", "-f", spec, "--key", "k", "--wait")
    assert (again.code, again.out) == (0, first)


def test_new_seeds_follow_the_largest_of_both_stages_and_a_confirm_stage_can_be_added(
    served: Served, sweeps: Sweeps
) -> None:
    sweep_id = served.submit()
    assert sweeps("extend", sweep_id).code == 2
    assert sweeps("extend", sweep_id, "--top-k", "2").code == 3  # of which seeds?
    for options, change, tune, confirm in (
        ("--tune-seeds 2 --confirm-seeds 2 --top-k 1", "is 1, and was 0", (0, 1, 4, 5), (2, 3)),
        ("--confirm-seeds 1 --top-k 2", "is 2, and was 1", (0, 1, 4, 5), (2, 3, 6)),
    ):
        ran = sweeps("extend", sweep_id, *options.split())
        assert (ran.code, f"seeds.confirm.top_k {change}\n" in ran.err) == (0, True)
        seeds = served.store.get_sweep(sweep_id).spec.seeds
        assert seeds.confirm is not None
        assert (seeds.tune, seeds.confirm.seeds) == (tune, confirm)
    assert seeds.confirm.top_k == 2


def test_limits_are_set_and_lifted(served: Served, sweeps: Sweeps) -> None:
    limits = {"budget": {"max_trial_hours": 1, "max_wait_hours": 2}, "resources": {"max_parallel": 2}}
    sweep_id = served.submit(**limits)
    options = ("--max-wait-hours", "--max-trial-hours", "--max-parallel", "--max-failed-trials")
    for given, limit, change in (
        ("3", 3, "budget.max_wait_hours is 3, and was 2\n"),
        ("none", None, "retries.max_failed_trials is without a limit, and was 3\n"),
    ):
        ran = sweeps("extend", sweep_id, *(word for option in options for word in (option, given)))
        assert (ran.code, change in ran.err) == (0, True)
        spec = served.store.get_sweep(sweep_id).spec
        assert (spec.budget.max_wait_hours, spec.budget.max_trial_hours) == (limit, limit)
        assert (spec.retries.max_failed_trials, spec.resources.max_parallel) == (limit, limit)
    for wrong in (("--max-wait-hours", "inf"), ("--max-wait-hours", "long"), ("--max-parallel", "1.5")):
        refused = sweeps("extend", sweep_id, *wrong)
        assert (refused.code, "none for no limit" in " ".join(refused.err.split())) == (2, True)


def test_a_retry_waits_for_the_report_that_is_being_built(
    served: Served, sweeps: Sweeps, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep_id = served.submit()
    fail_first(served.store, sweep_id)
    fence = play(served.store, sweep_id)
    served.store.set_sweep_state(fence, SweepState.FINALIZING)
    refused = served.http.post(f"/v1/sweeps/{sweep_id}/retry-failed").json()["detail"]
    assert f"takes seconds, and ten minutes at most; ask again when it has ended: sweeps watch {sweep_id}" in refused
    wait = Client.wait

    def built(client: Client, *given: Any, **options: Any) -> SweepView:
        served.store.set_sweep_state(fence, SweepState.SUCCEEDED)
        return wait(client, *given, **options)

    monkeypatch.setattr(Client, "wait", built)
    ran = sweeps("retry", sweep_id)
    assert (ran.code, "its report is being built; this goes on once that is done" in ran.err) == (0, True)
    assert "1 trial waits again" in ran.err


def test_a_larger_limit_names_the_way_to_let_trials_and_evaluations_go_on(served: Served, sweeps: Sweeps) -> None:
    measured = {"benchmarks": {"names": ["arithmetic"], "of": "all"}, "budget": {"max_trial_hours": 0.001}}
    sweep_id, store = served.submit(**measured), served.store
    fence, late = claim(store, sweep_id), store.list_trials(sweep_id)[0]
    one_attempt(store, fence, late.id, Ending.TIMED_OUT, more_held_s=4.0)
    store.release_lease(fence)
    fence = play(store, sweep_id)
    evaluation, *others = add_missing_evaluations(store, fence)
    one_attempt(store, fence, evaluation.id, Ending.TIMED_OUT, more_held_s=4.0)
    for other in others:
        measure(store, fence, other, {"arithmetic": 1})
    finish(store, fence)
    said = sweeps("extend", sweep_id, "--max-trial-hours", "1").err
    assert f"1 trial and 1 evaluation had used up the old limit; let them go on: sweeps retry {sweep_id}" in said
    assert f"1 trial and 1 evaluation wait again: {late.id}, {evaluation.id}; " in sweeps("retry", sweep_id).err


def test_a_sweep_that_makes_its_model_says_so(served: Served, sweeps: Sweeps) -> None:
    sweep_id = served.submit()
    fence = claim(served.store, sweep_id)
    trial, other, late, *_ = served.store.list_trials(sweep_id)
    attempt, waiting = (served.store.start_attempt(fence, one.id, "/nowhere/{attempt}") for one in (trial, other))
    made = {"type": "progress", "time": 1.0, "phase": "warm start", "done": 63, "total": 2400}
    served.store.ingest(fence, attempt, 0, 1, [made])
    awaited = {"type": "progress", "time": 1.0, "phase": "waiting for another run's warm start", "done": 0, "total": 1}
    served.store.ingest(fence, waiting, 0, 1, [awaited])
    one_attempt(served.store, fence, late.id, Ending.TIMED_OUT, [made | {"done": 7}])
    text = "warm start 63/2400: supervised training makes the model before the first update"
    assert f"now          {text}" in sweeps("show").out
    assert text in LiveSweep(served.service, sweep_id).page()
    step = {"type": "step", "time": 2.0, "step": 1, "metrics": {"entropy": 1.0}}
    served.store.ingest(fence, attempt, 1, 2, [step])
    assert text not in sweeps("show").out


def test_a_grid_is_given_values_and_a_search_configs(served: Served, sweeps: Sweeps) -> None:
    grid = served.submit()
    ran = sweeps("extend", grid, "--values", "loss.beta1=0.75,0.9", "--values", "loss.beta2=0.5")
    assert (ran.code, f"{grid} is extended and QUEUED" in ran.err) == (0, True)
    assert "loss.beta1 also takes 0.75, 0.9\n  loss.beta2 also takes 0.5\n" in ran.err
    space = served.store.get_sweep(grid).spec.space.root
    assert list(space["loss.beta1"].edges) == [0, 0.5, 1, 0.75, 0.9]
    assert list(space["loss.beta2"].edges) == [1, 0.5]
    assert "nothing has changed" in sweeps("extend", grid, "--values", "loss.beta1=0.9,0").err
    refused = sweeps("extend", grid, "--values", "loss.beta1=false")  # which Python takes for 0
    assert (refused.code, "/space/loss.beta1" in refused.err) == (3, True)
    for wrong in ("loss.beta1", "loss.beta1=", "=1", "loss.beta1=[1", "loss.beta1={a: 1}"):
        assert sweeps("extend", grid, "--values", wrong).code == 2, wrong
    refused = sweeps("extend", grid, "--configs", "20", "--values", "loss.epsilon=0.1")
    assert refused.code == 3
    assert "/search/num_configs  20: a grid tries every point of its space" in refused.err
    assert "/space/loss.epsilon  it is not in the sweep's space" in refused.err
    drawn = served.submit(search={"strategy": "random", "num_configs": 2})
    assert sweeps("extend", drawn, "--configs", "3").code == 0
    assert served.store.get_sweep(drawn).spec.search.num_configs == 3
    assert "leave it out for more configs of the same space" in sweeps("extend", drawn, "--values", "loss.beta1=2").err


def test_the_report_of_a_running_sweep_is_waited_for(served: Served, sweeps: Sweeps) -> None:
    sweep_id, store = served.submit(), served.store
    late = sweeps("report", "--timeout", "0")
    assert (
        late.code,
        f"{sweep_id} is QUEUED, and has an interim" in late.err,
        "sweeps worker --check" in late.err,
    ) == (9, True, True)
    claim(store, sweep_id)
    with whenever_asked(store, sweep_id, lambda: store.put_interim_report(sweep_id, "one", REPORT)):
        ran = sweeps("report", "--format", "md")
    assert (ran.code, ran.out.encode()) == (0, REPORT["md"])
    assert f"waiting: the interim report of sweep {sweep_id} has not been built yet; Ctrl-C" in ran.err
    final = sweeps("report", "--final", "--timeout", "0")
    assert (final.code, "RUNNING, and has a final report only once" in final.err) == (9, True)


@pytest.mark.parametrize(
    ("command", "goes_on"),
    [
        ("report", "a worker builds it all the same: sweeps report swp_"),
        ("submit spec.yaml --wait", "Follow it again: sweeps watch swp_"),
        ("pause demo --wait", "the sweep is being paused. Look at it: sweeps show swp_"),
        ("delete demo --yes --wait", "it goes on"),
    ],
)
def test_ctrl_c_ends_a_wait_and_says_what_goes_on(
    served: Served, sweeps: Sweeps, spec: str, monkeypatch: pytest.MonkeyPatch, command: str, goes_on: str
) -> None:
    fence = claim(served.store, served.submit(name="demo"))
    if command.startswith("delete"):
        finish(served.store, fence)

    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)
    ran = sweeps(*command.split())
    assert (ran.code, goes_on in ran.err) == (130, True)


def test_a_running_trial_that_is_stopped_saves_first(served: Served, sweeps: Sweeps) -> None:
    sweep_id = served.submit()
    fence = claim(served.store, sweep_id)
    bare, evaluated, *_ = served.store.list_trials(sweep_id)
    for trial in (bare, evaluated):
        served.store.start_attempt(fence, trial.id, "/nowhere/{attempt}")
    record(served.store, fence, served.store.attempts_of(evaluated.id)[0], evaluated, range(1, 41))
    said = sweeps("stop", bare.id).err
    assert "is being stopped: it saves first, within ten minutes" in said
    assert "the evaluations that it has recorded count (none so far, at step 0)" in said
    assert "count (2 so far, at step 40)" in sweeps("stop", evaluated.id).err
    assert "then it ends and has no result" in sweeps("stop", evaluated.id, "--discard").err
    (attempt,) = served.store.attempts_of(evaluated.id)
    served.store.finish_attempt(fence, attempt, Ending.STOPPED, None, 3)
    sweeps("retry", evaluated.id)
    value = 0.2 + 0.25 * (1 - math.exp(-1))
    assert f"is STOPPED and its result is eval/avg_at_k {value:.3f}" in sweeps("stop", evaluated.id).err


def test_a_terminal_gets_live_bars_and_ctrl_c_detaches(served: Served, sweeps: Sweeps, home: Path) -> None:
    sweep_id = served.submit()
    fence = claim(served.store, sweep_id)
    trial = served.store.list_trials(sweep_id)[0]
    served.store.start_attempt(fence, trial.id, "/nowhere")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "sweep_service", "watch"]
    with subprocess.Popen(command, stderr=theirs, stdout=subprocess.PIPE, env=os.environ | {"TERM": "xterm"}) as watch:
        os.close(theirs)
        shown = b""
        while b"1 running" not in shown or b"seed 0 tune" not in shown:
            shown += os.read(ours, 65536)
        watch.send_signal(signal.SIGINT)
        while b"detached" not in shown:
            shown += os.read(ours, 65536)
        assert watch.wait(PATIENT_S) == 130
    os.close(ours)
    assert served.store.get_sweep(sweep_id).desired_state == "RUN"


def test_doctor_tells_what_is_wrong(served: Served, sweeps: Sweeps, home: Path) -> None:
    ran = sweeps("doctor", "--json")
    findings = {finding["name"]: finding for finding in json.loads(ran.out)}
    assert ran.code == 0
    assert {findings[name]["verdict"] for name in ("python", "torch", "ray", "token", "api")} == {"ok"}
    (home / "token").chmod(0o644)
    ran = sweeps("doctor")
    assert ran.code == 0
    assert "chmod 600" in ran.out


@pytest.mark.long
def test_the_api_process_starts_refuses_and_stops(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sweep_service", "api"]
    environment = os.environ | {"SWEEPS_HOME": str(tmp_path)}
    refused = subprocess.run([*command, "--host", "0.0.0.0"], env=environment, capture_output=True, text=True)
    assert refused.returncode == 4
    assert "refusing to listen on 0.0.0.0 without a token" in refused.stderr
    assert "Traceback" not in refused.stderr

    with serving(tmp_path / "other") as other:
        port = other.url.rpartition(":")[2]
        busy = subprocess.run([*command, "--port", port], env=environment, capture_output=True, text=True)
        assert busy.returncode == 1
        assert f"cannot listen on 127.0.0.1:{port}" in busy.stderr


@pytest.mark.long
def test_the_api_process_ends_when_asked(tmp_path: Path) -> None:
    with serving(tmp_path / "other") as other:  # to have a port that is free a moment later
        url = other.url
    command = [sys.executable, "-m", "sweep_service", "api", "--port", url.rpartition(":")[2]]
    with subprocess.Popen(command, env=os.environ | {"SWEEPS_HOME": str(tmp_path / "home")}) as process:
        with Client(url, "no token", patience_s=60) as client:
            client.check_ready()
        process.terminate()
        process.wait(PATIENT_S)


@pytest.mark.long
def test_the_client_example_runs(served: Served, sweeps: Sweeps, spec: str, home: Path) -> None:
    example = Path(__file__).parents[3] / "examples" / "client.py"
    with subprocess.Popen([sys.executable, str(example), spec], stdout=subprocess.PIPE, text=True) as run:
        while not (stored := served.store.list_sweeps(1)):
            assert run.poll() is None
        finish(served.store, play(served.store, stored[0].id))
        out, _ = run.communicate(timeout=PATIENT_S)
    assert run.returncode == 0
    assert "SUCCEEDED: beta1=0 beta2=1 has eval/avg_at_k" in out
    assert (home / "report.html").read_bytes() == REPORT["html"]


@pytest.mark.parametrize(("verb", "done"), [("cancel", SweepState.CANCELLED), ("pause", SweepState.PAUSED)])
def test_a_command_waits_until_the_sweep_has_stopped_if_asked(
    served: Served, sweeps: Sweeps, verb: str, done: SweepState
) -> None:
    sweep_id = served.submit()
    fence = claim(served.store, sweep_id)
    late = sweeps(verb, sweep_id, "--wait", "--timeout", "0")
    assert (late.code, f"after 0 s; it will be {done.lower()} all the same" in late.err) == (9, True)
    assert served.store.get_sweep(sweep_id).desired_state == verb.upper()
    served.store.set_sweep_state(fence, done)
    ran = sweeps(verb, "played", "--wait")
    assert (ran.code, f"is {done.lower()}" in ran.err) == (0, True)


def test_a_cancelled_sweep_that_succeeds_first_exits_6(
    served: Served, sweeps: Sweeps, monkeypatch: pytest.MonkeyPatch
) -> None:
    fence = claim(served.store, served.submit())
    ask = Client.cancel

    def too_late(client: Client, sweep_id: str) -> SweepView:
        view = ask(client, sweep_id)
        finish(served.store, fence)
        return view

    monkeypatch.setattr(Client, "cancel", too_late)
    assert sweeps("cancel", "played", "--wait").code == 6


def test_trials_are_named_by_their_last_letters(served: Served, sweeps: Sweeps) -> None:
    sweep_id = served.submit()
    trial_id = served.store.list_trials(sweep_id)[0].id
    for name in (trial_id[-8:], f"…{trial_id[-8:]}"):
        assert trial_id in sweeps("stop", name).err
        assert trial_id in sweeps("retry", name).err
        assert served.store.get_trial(trial_id).state is TrialState.PENDING
    for name in ("played", sweep_id, sweep_id[-8:]):
        ran = sweeps("stop", name)
        assert (ran.code, f"that is a sweep. List its trials: sweeps show {name} --trials" in ran.err) == (5, True)
    for verb in ("stop", "retry"):
        assert "that is an evaluation" in sweeps(verb, f"evl_{trial_id[4:]}").err


def test_a_name_that_several_sweeps_have_is_not_guessed_at(served: Served, sweeps: Sweeps) -> None:
    first, second = (served.submit() for _ in range(2))
    for verb in ("pause", "resume", "cancel", "retry", "extend", "delete"):
        refused = sweeps(verb, "played", *(["--tune-seeds", "1"] if verb == "extend" else []))
        assert refused.code == 1, verb
        assert f"2 sweeps with the name 'played' have not ended, such as {second} and {first}" in refused.err
    assert sweeps("cancel", second[-8:]).code == 0
    said = sweeps("delete", "played", "--yes").err
    assert f"2 sweeps have the name 'played'; this is the newest of them: {second}" in said
    assert served.store.get_sweep(first).desired_state == "RUN"


def test_a_report_is_written_to_a_file_or_printed(served: Served, sweeps: Sweeps, home: Path) -> None:
    sweep_id = served.succeeded()
    path = home / f"played-{sweep_id[-6:]}.html"
    assert sweeps("report").out == f"{path}\n"
    assert path.read_bytes() == REPORT["html"]
    assert sweeps("report", "--format", "json", "-o", "r.json").out == f"{home / 'r.json'}\n"
    assert (home / "r.json").read_bytes() == REPORT["json"]
