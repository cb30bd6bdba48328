"""The typed client against a real server: its verbs, its errors, its patience."""

import http.server
import json
import math
import threading
from collections.abc import Callable, Iterator
from inspect import getmembers, isfunction, signature
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import update

from sweep_service.auth import TokenError
from sweep_service.client import Client, Refused, TooLate, Unauthorized, Unreachable, connection
from sweep_service.errors import (
    Conflict,
    IdempotencyKeyReused,
    InvalidSpec,
    NoLog,
    NotFound,
    NotReady,
    ReportFailed,
    ServiceError,
)
from sweep_service.store import Store
from sweep_service.store.tables import reports
from sweep_service.sweep.records import Event, SweepState, TrialState
from sweep_service.sweep.spec import SweepSpec
from tests.integration.api.conftest import Served, serving
from tests.integration.api.played_sweep import REPORT, SPEC, VERDICT, claim, finish, play, whenever_asked
from tests.waiting import PATIENT_S

UNKNOWN = "swp_00000000000000000000000000"


def test_every_question_about_a_sweep(served: Served, client: Client) -> None:
    plan = client.plan(SPEC)
    sweep = client.submit(SweepSpec.model_validate(SPEC))
    assert (sweep.spec_digest, plan.configs) == (plan.spec_digest, 4)
    finish(served.store, play(served.store, sweep.id))
    assert list(client.sweeps([SweepState.RUNNING])) == []
    (diverged,) = client.trials(sweep.id, [TrialState.DIVERGED])
    assert diverged.objective == 0
    assert len(list(client.configs(sweep.id))) == 4
    (curve,) = client.curves(sweep.id, ["entropy"], [diverged.id], last=2)
    assert curve.steps == [79, 80]
    assert len(list(client.config_curves(sweep.id, ["entropy", "loss"]))) == 8
    assert len(list(client.samples(sweep.id))) == 72
    assert list(client.events(sweep.id, after=3)) == served.store.list_events(sweep.id)[3:]
    assert client.report(sweep.id, "md") == REPORT["md"]
    assert yaml.safe_load(client.best_yaml(sweep.id)) == client.best(sweep.id).training
    assert client.schema()["title"] == "SweepSpec"
    client.check_ready()


def test_every_method_takes_a_sweeps_name_in_place_of_its_id(served: Served, client: Client) -> None:
    sweep = client.submit(SPEC | {"name": "by-name"})
    fence = play(served.store, sweep.id)
    others: dict[str, list[Any]] = {
        "curves": [["entropy"]],
        "config_curves": [["entropy"]],
        "benchmark_problems": ["none"],
        "benchmark_samples": ["none"],
        "add_benchmarks": [{"names": ["arithmetic"]}],
        "extend": [{"resources": {"max_parallel": 3}}],
    }
    apart = {
        "pause",
        "resume",
        "wait",
        "cancel",
        "delete",
        "follow",
        "follow_runner_log",
        "report_anew",
        "report_so_far",
    }

    def answer(name: str, which: str) -> object:
        try:
            answered = getattr(client, name)(which, *others.get(name, []))
            return list(islice(answered, 3)) if isinstance(answered, Iterator) else answered
        except (Conflict, NotReady, Refused, NoLog, NotFound) as error:
            return type(error), str(error)

    methods = [name for name, method in getmembers(Client, isfunction) if "sweep_id" in signature(method).parameters]
    asked = [name for name in methods if not name.startswith("_") and name not in apart]
    assert len(asked) > 20
    for name in asked:
        assert answer(name, "by-name") == answer(name, sweep.id), name
    assert client.pause("by-name").desired_state == "PAUSE"
    assert client.wait("by-name", until=lambda view: view.desired_state == "PAUSE").id == sweep.id
    assert client.resume(sweep.id[-6:]).desired_state == "RUN"
    newest = client.submit(SPEC | {"name": "by-name"}).id
    assert client.get("by-name").id == newest
    for end_first in (lambda: None, lambda: (finish(served.store, fence), client.cancel(newest))):
        end_first()
        for change in (client.pause, client.delete, client.retry_failed):
            with pytest.raises(ServiceError, match=r"^2 sweeps .*give the id of the one that you mean"):
                change("by-name")


def test_a_list_of_several_pages_comes_whole(served: Served, client: Client) -> None:
    sweep = client.submit(SPEC | {"seeds": {"tune": list(range(200))}})
    trials = list(client.trials(sweep.id))
    assert [trial.number for trial in trials] == list(range(800))


def test_errors_are_those_of_the_service(served: Served, client: Client) -> None:
    id_ = client.submit(SPEC, "key").id
    asks: list[tuple[type[Exception], Callable[[], object]]] = [
        (NotFound, lambda: client.get(UNKNOWN)),
        (NotFound, lambda: next(client.trials("a/b?c=d"))),
        (NotFound, lambda: next(client.follow(UNKNOWN))),
        (NotReady, lambda: client.best(id_)),
        (NotReady, lambda: client.report(id_)),
        (IdempotencyKeyReused, lambda: client.submit(SPEC | {"name": "b"}, "key")),
    ]
    for error, ask in asks:
        with pytest.raises(error):
            ask()
    with pytest.raises(InvalidSpec) as refused:
        client.submit({"name": "?", "space": {}})
    assert "/name" in {error.pointer for error in refused.value.errors}
    served.store.set_report_failure(id_, "MemoryError")
    with pytest.raises(ReportFailed, match="MemoryError"):
        client.report(id_, timeout_s=None)
    with pytest.raises(Refused) as refusal:
        list(client.curves(id_, []))
    assert refusal.value.problem.code == "INVALID_REQUEST"


def test_what_json_does_not_have_is_refused_with_its_place(client: Client) -> None:
    with pytest.raises(InvalidSpec) as caught:
        client.submit(SPEC | {"space": {"loss.beta1": [0.0, math.inf]}, "name": "\udcff"})
    assert {error.pointer for error in caught.value.errors} == {"/name", "/space/loss.beta1/1"}
    with pytest.raises(InvalidSpec) as caught:
        client.add_benchmarks("swp_0", {"names": ["arithmetic"], "temperature": math.nan})
    assert caught.value.summary == "the benchmarks cannot be added, for one reason"
    assert str(caught.value) == "/temperature: nan is not a number that JSON has; give a finite one"


def test_a_wrong_token_and_another_server_are_told_apart(served: Served) -> None:
    with Client(served.url, "wrong") as stranger, pytest.raises(Unauthorized, match="SWEEPS_TOKEN_FILE"):
        next(stranger.sweeps())
    other = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    with (
        Client(f"http://127.0.0.1:{other.server_port}", "token", patience_s=0) as lost,
        pytest.raises(Refused, match="not a sweeps server"),
    ):
        lost.get(UNKNOWN)
    other.shutdown()
    other.server_close()


def test_a_server_that_is_away_is_waited_for_then_given_up(home: Path) -> None:
    with serving(home) as running:
        url, token = running.url, running.token
    with Client(url, token, patience_s=0.5) as client, pytest.raises(Unreachable, match="sweeps serve"):
        client.get(UNKNOWN)

    submitted: list[str] = []
    patient = Client(url, token, patience_s=PATIENT_S)
    thread = threading.Thread(target=lambda: submitted.append(patient.submit(SPEC).id))
    thread.start()
    with serving(home, int(url.rpartition(":")[2])) as running:
        thread.join(PATIENT_S)
        assert [sweep.id for sweep in running.store.list_sweeps(10)] == submitted
    patient.close()


def test_waiting_ends_with_the_sweep_and_tells_every_event(served: Served, client: Client) -> None:
    sweep = client.submit(SPEC)
    with pytest.raises(TooLate, match="it goes on"):
        client.wait(sweep.id, timeout_s=0, poll_s=0.01)
    thread = threading.Thread(target=lambda: finish(served.store, play(served.store, sweep.id)))
    thread.start()
    events: list[Event] = []
    ended = client.wait(sweep.id, on_event=events.append, poll_s=0.01)
    thread.join()
    assert ended.state is SweepState.SUCCEEDED
    assert events == served.store.list_events(sweep.id)


def test_a_report_is_waited_for(served: Served, client: Client) -> None:
    sweep = client.submit(SPEC)
    thread = threading.Thread(target=lambda: finish(served.store, play(served.store, sweep.id)))
    thread.start()
    assert client.report(sweep.id, "json", timeout_s=PATIENT_S) == REPORT["json"]
    thread.join()


def test_a_report_so_far_is_the_interim_one_and_waits_to_be_fresh(served: Served, client: Client) -> None:
    sweep = client.submit(SPEC)
    fence, store = claim(served.store, sweep.id), served.store
    with pytest.raises(NotReady):
        client.report_so_far(sweep.id, timeout_s=0)
    store.put_interim_report(sweep.id, "one", {"html": b"old"})
    age_by(store, sweep.id, 100)
    stale = client.report_so_far(sweep.id, timeout_s=0, fresh_s=60)
    assert (stale.content, stale.interim) == (b"old", True)
    assert 99 <= stale.age_s < 160
    thread = threading.Thread(target=lambda: store.put_interim_report(sweep.id, "two", {"html": b"new"}))
    thread.start()
    assert client.report_so_far(sweep.id, timeout_s=20, fresh_s=60).content == b"new"
    thread.join()
    with pytest.raises(NotReady):
        client.report(sweep.id)
    store.set_sweep_state(fence, SweepState.FINALIZING)
    store.put_report(sweep.id, "three", REPORT)
    assert client.report_so_far(sweep.id) == (REPORT["html"], False, 0)


@pytest.mark.parametrize("outcome", ["BETTER", "WORSE", "EQUIVALENT"])
def test_a_word_of_an_earlier_version_is_not_shown_as_if_it_were_of_this_one(
    served: Served, client: Client, outcome: str
) -> None:
    id_ = served.succeeded()
    for comparison, shown in ((VERDICT["comparison"], False), (VERDICT["comparison"] | {"average_low": 0.1}, True)):
        verdict = VERDICT | {"outcome": outcome, "comparison": comparison}
        served.store.put_report(id_, f"{shown}", REPORT | {"verdict": json.dumps(verdict).encode()})
        sweep = client.get(id_)
        assert (sweep.verdict is not None) is shown
        assert shown or sweep.no_verdict.endswith(f"to have it built by this one: sweeps report {id_} --anew")


def test_a_report_is_built_anew_and_waited_for(served: Served, client: Client) -> None:
    id_, store = served.succeeded(), served.store
    with pytest.raises(NotReady, match="has not been built yet"):
        client.report_anew(id_, timeout_s=0)
    newer = {"md": b"newer", "json": b'{"report_version":10}'}
    with whenever_asked(store, id_, lambda: store.put_report(id_, "newer", newer)):
        built = client.report_anew(id_, timeout_s=PATIENT_S)
    told = [(one.digest, one.report_version, one.superseded_at is None) for one in built.reports]
    assert told == [("newer", 10, True), ("digest", None, False)]  # JSON that no version of the code wrote
    assert (built.building, built.failure) == (False, None)
    assert (client.report(id_, "md"), client.report(id_, "md", digest="digest")) == (b"newer", REPORT["md"])
    with pytest.raises(NotFound):
        client.report(id_, digest="x")
    with (
        whenever_asked(store, id_, lambda: store.set_report_failure(id_, "MemoryError")),
        pytest.raises(ReportFailed, match="could not be built: MemoryError"),
    ):
        client.report_anew(id_, timeout_s=PATIENT_S)
    assert client.report(id_, "md") == b"newer"


def age_by(store: Store, sweep_id: str, seconds: float) -> None:
    """Make a sweep's report older."""
    with store.engine.begin() as connection:
        mine = update(reports).where(reports.c.sweep_id == sweep_id)
        connection.execute(mine.values(created_at=reports.c.created_at - seconds))


def test_the_environment_says_where_and_as_whom(
    served: Served, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWEEPS_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(TokenError, match="sweeps serve"):
        Client.from_env()
    monkeypatch.setenv("SWEEPS_HOME", str(home))
    monkeypatch.setenv("SWEEPS_TRUSTED_USERS", "ann,ben")
    made = list[object]()
    monkeypatch.setattr(connection, "checked_connections", lambda trusted: made.append(trusted) or (lambda _: None))
    with Client.from_env() as default:
        assert made == [["ann", "ben"]]
        assert default.url == "http://127.0.0.1:8080"
    (home / "address.json").write_text(json.dumps({"url": served.url}))
    with Client.from_env() as found:
        assert list(found.sweeps()) == []
    copy = tmp_path / "token"
    copy.write_text(served.token)
    (home / "address.json").write_text("not read where SWEEPS_URL says it")
    monkeypatch.setenv("SWEEPS_TOKEN_FILE", str(copy))
    monkeypatch.setenv("SWEEPS_URL", served.url)
    with Client.from_env() as told:
        assert list(told.sweeps()) == []
