"""Events as a stream: complete, in order, resumable, and gone when the sweep or the server ends."""

import threading
from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest

from sweep_service.api import event_stream
from sweep_service.client import Client
from sweep_service.sweep.records import Event
from tests.integration.api.conftest import Served, serving
from tests.integration.api.played_sweep import finish, play
from tests.waiting import PATIENT_S, in_threads, wait_until

STREAM = {"Accept": "text/event-stream"}


def lines(served: Served, sweep_id: str, last: int | None = None) -> Generator[str]:
    headers = STREAM | ({} if last is None else {"Last-Event-ID": str(last)})
    with served.http.stream("GET", f"/v1/sweeps/{sweep_id}/events", headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        yield from answer.iter_lines()


def test_the_stream_gives_all_events_then_ends(served: Served) -> None:
    sweep_id = served.succeeded()
    stored = served.store.list_events(sweep_id)
    received = list(lines(served, sweep_id))
    assert [line for line in received if line.startswith("id:")] == [f"id: {event.seq}" for event in stored]
    data = [Event.model_validate_json(line[6:]) for line in received if line.startswith('data: {"sweep_id"')]
    assert data == stored
    assert received[-3:] == ["event: end", "data: {}", ""]
    assert any(line.startswith("retry:") for line in received)


def test_a_broken_stream_is_resumed_where_it_broke(served: Served) -> None:
    sweep_id = served.succeeded()
    seen: list[int] = []
    for cut in (1, 7, 2, 1000):
        for line in lines(served, sweep_id, seen[-1] if seen else None):
            if line.startswith("id: "):
                seen.append(int(line[4:]))
                cut -= 1
                if cut == 0:
                    break
    assert seen == [event.seq for event in served.store.list_events(sweep_id)]


def test_following_survives_a_restart_of_the_server(home: Path) -> None:
    with serving(home) as first:
        sweep_id = first.submit()
        port = int(first.url.rpartition(":")[2])
        client = Client(first.url, first.token, patience_s=PATIENT_S)
        events = client.follow(sweep_id)
        seen = [next(events)]
    with serving(home, port) as second:
        finish(second.store, play(second.store, sweep_id))
        seen += events
        assert seen == second.store.list_events(sweep_id)
    client.close()


def test_a_silent_stream_sends_pings(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "PING_S", 0.1)
    sweep_id = served.submit()
    assert next(line for line in lines(served, sweep_id) if line.startswith(":")) == ": ping"


def test_streams_are_limited(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    assert event_stream.MAX_STREAMS <= 100  # each asks the database twice a second
    monkeypatch.setattr(event_stream, "MAX_STREAMS", 1)
    sweep_id = served.submit()
    open_stream = lines(served, sweep_id)
    next(open_stream)
    answer = served.http.get(f"/v1/sweeps/{sweep_id}/events", headers=STREAM)
    assert (answer.status_code, answer.json()["code"]) == (429, "TOO_MANY_STREAMS")
    open_stream.close()

    def is_free() -> bool:
        with served.http.stream("GET", f"/v1/sweeps/{sweep_id}/events", headers=STREAM) as answer:
            return answer.status_code == 200

    wait_until("a closed stream no longer counts", is_free)


def test_of_streams_that_are_opened_at_once_no_more_than_the_limit_are(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "MAX_STREAMS", 3)
    sweep_id = served.submit()
    asked = threading.Barrier(12)

    def status(_: int) -> int:
        with served.http.stream("GET", f"/v1/sweeps/{sweep_id}/events", headers=STREAM) as answer:
            asked.wait(PATIENT_S)  # until all have their answers, those that have a place keep it
            return answer.status_code

    assert Counter(in_threads(12, status)) == {200: 3, 429: 9}
    wait_until("their places are free", lambda: in_threads(3, lambda _: status_alone(served, sweep_id)) == [200] * 3)


def status_alone(served: Served, sweep_id: str) -> int:
    with served.http.stream("GET", f"/v1/sweeps/{sweep_id}/events", headers=STREAM) as answer:
        return answer.status_code
