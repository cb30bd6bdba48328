"""Logs of trials and runners over REST, by the client, the command line and the status page."""

import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sweep_service.client import Client
from sweep_service.errors import NoLog, NotReady
from sweep_service.schemas import LogPart
from sweep_service.store import Fence
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.records import Attempt, SweepState, Trial
from tests.integration.api.conftest import Served, Sweeps
from tests.integration.api.played_sweep import claim
from tests.waiting import PATIENT_S, wait_until


class Running:
    """A sweep whose first trial runs, as far as the store and the storage know."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.sweep_id = served.submit()
        self.fence: Fence = claim(served.store, self.sweep_id)
        self.trial: Trial = served.store.list_trials(self.sweep_id)[0]

    @property
    def url(self) -> str:
        return f"/v1/trials/{self.trial.id}/logs"

    def attempt(self, printed: bytes | None) -> Attempt:
        """Begin an attempt, which has printed this; None: it has made no log."""
        folder = self.served.service.settings.storage / self.sweep_id / self.trial.id / "{attempt}"
        attempt = self.served.store.start_attempt(self.fence, self.trial.id, str(folder))
        Path(attempt.directory).mkdir(parents=True)
        if printed is not None:
            self.write(attempt, printed)
        return attempt

    @staticmethod
    def write(attempt: Attempt, printed: bytes) -> None:
        with (Path(attempt.directory) / "stderr.log").open("ab") as file:
            file.write(printed)

    def end(self, attempt: Attempt, ending: Ending, max_crashes: int = 3) -> None:
        self.served.store.finish_attempt(self.fence, attempt, ending, "it ended", max_crashes)


@pytest.fixture
def running(served: Served) -> Running:
    return Running(served)


def test_a_log_comes_as_it_is_with_its_place(served: Served, running: Running) -> None:
    raw = b"\x1b[31mred\x1b[0m \xff\x00\r50%\nlast\n"
    attempt = running.attempt(raw)
    answer = served.http.get(running.url)
    assert (answer.status_code, answer.content) == (200, raw)
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    told = {name: value for name, value in answer.headers.items() if name.startswith("log-")}
    size = str(len(raw))
    assert told == {
        "log-attempt": "1",
        "log-attempts": "1",
        "log-offset": "0",
        "log-next-offset": size,
        "log-size": size,
        "log-ended": "false",
        "log-over": "false",
    }
    part = served.http.get(running.url, params={"offset": 5, "limit": 3})
    assert (part.content, part.headers["Log-Next-Offset"]) == (raw[5:8], "8")
    assert served.http.get(running.url, params={"tail": 1}).content == b"last\n"
    assert served.http.head(running.url).headers["Log-Size"] == size
    running.end(attempt, Ending.SUCCEEDED)
    ended = served.http.get(running.url)
    assert (ended.headers["Log-Ended"], ended.headers["Log-Over"]) == ("true", "true")


def test_each_attempt_has_its_log(served: Served, running: Running, client: Client) -> None:
    running.end(running.attempt(b"first"), Ending.CRASHED)
    running.attempt(b"second")
    assert served.http.get(running.url).text == "second"
    first = client.trial_log(running.trial.id, attempt=1)
    assert (first.content, first.attempts, first.ended, first.over) == (b"first", 2, True, False)
    with pytest.raises(NoLog, match="has no attempt 3; its newest is attempt 2"):
        client.trial_log(running.trial.id, attempt=3)


@pytest.mark.parametrize(
    ("parameters", "names"),
    [
        ({"limit": (1 << 20) + 1}, "limit"),
        ({"limit": 0, "attempt": 0}, "limit"),
        ({"tail": 5, "offset": 3}, "tail"),
        ({"offset": -1}, "offset"),
        ({"offset": 2**63}, "offset"),
        ({"lines": 5}, "lines"),
    ],
)
def test_a_wrong_part_is_refused(served: Served, running: Running, parameters: dict[str, int], names: str) -> None:
    answer = served.http.get(running.url, params=parameters)
    assert (answer.status_code, answer.json()["code"]) == (422, "INVALID_REQUEST")
    assert names in {error["parameter"] for error in answer.json()["errors"]}


def test_a_log_that_is_not_there_is_explained(served: Served, running: Running) -> None:
    early = served.http.get(running.url)
    assert (early.status_code, early.json()["code"]) == (409, "NOT_READY")
    attempt = running.attempt(None)
    waiting = served.http.get(running.url)
    assert (waiting.status_code, "stderr.log" in waiting.json()["detail"]) == (409, True)
    running.end(attempt, Ending.FAILED)
    gone = served.http.get(running.url)
    assert (gone.status_code, gone.json()["code"]) == (404, "NO_LOG")
    assert "SWEEPS_STORAGE" in gone.json()["detail"]
    (Path(attempt.directory) / "stderr.log").symlink_to("/etc/passwd")
    link = served.http.get(running.url)
    assert (link.status_code, link.json()["code"]) == (404, "NO_LOG")
    for unknown in ("trl_0", "evl_0", "swp_0", "x" * 99):
        assert served.http.get(f"/v1/trials/{unknown}/logs").json()["code"] == "NOT_FOUND"
    never = served.store.list_trials(running.sweep_id)[1]
    served.store.end_waiting(running.fence, Ending.CANCELLED)
    ended = served.http.get(f"/v1/trials/{never.id}/logs")
    assert (ended.status_code, "ended as CANCELLED" in ended.json()["detail"]) == (404, True)


def test_a_runner_has_a_log_too(served: Served, running: Running, client: Client) -> None:
    url = f"/v1/sweeps/{running.sweep_id}/logs"
    assert served.http.get(url).json()["code"] == "NOT_READY"
    log = served.service.settings.storage / running.sweep_id / "runner.log"
    log.parent.mkdir(parents=True)
    log.write_text("one\ntwo\n")
    answer = served.http.get(url, params={"tail": 1})
    assert (answer.text, answer.headers["Log-Over"]) == ("two\n", "false")
    assert "Log-Attempt" not in answer.headers
    served.store.set_sweep_state(running.fence, SweepState.FAILED)
    assert [part.content for part in client.follow_runner_log(running.sweep_id, poll_s=0)] == [b"one\ntwo\n"]


def test_following_goes_on_through_all_attempts(running: Running, client: Client) -> None:
    parts, waits = list[LogPart](), list[str]()

    def follow() -> None:
        for part in client.follow_trial_log(running.trial.id, on_wait=waits.append, poll_s=0.02):
            parts.append(part)

    def has_come(attempt: int, content: bytes) -> Callable[[], bool]:
        return lambda: b"".join(part.content for part in parts if part.attempt == attempt) == content

    follower = threading.Thread(target=follow, daemon=True)
    follower.start()
    wait_until("it waits for the first attempt", lambda: waits)
    first = running.attempt(b"a\n")
    wait_until("the first line", has_come(1, b"a\n"))
    running.write(first, b"b\ndies")
    running.end(first, Ending.CRASHED)
    wait_until("the rest", has_come(1, b"a\nb\ndies"))
    second = running.attempt(b"again\n")
    wait_until("the second attempt", has_come(2, b"again\n"))
    running.end(second, Ending.SUCCEEDED)
    follower.join(PATIENT_S)
    assert not follower.is_alive()
    assert "no attempt of it has begun" in waits[0]


def test_following_one_attempt_ends_with_it(running: Running, client: Client) -> None:
    running.end(running.attempt(b"x" * 3_000_000), Ending.CRASHED)
    parts = list(client.follow_trial_log(running.trial.id, attempt=1, poll_s=0))
    assert [len(part.content) for part in parts] == [1 << 20, 1 << 20, 3_000_000 - 2 * (1 << 20)]
    with pytest.raises(NotReady):
        client.runner_log(running.sweep_id)


def test_the_command_prints_logs(running: Running, sweeps: Sweeps) -> None:
    trial_id = running.trial.id
    running.end(running.attempt(b"first\n"), Ending.CRASHED)
    running.end(running.attempt(b"one\ntwo"), Ending.FAILED)
    for name in (trial_id, trial_id[-6:], f"…{trial_id[-6:]}"):
        ran = sweeps("logs", name)
        assert (ran.code, ran.out, ran.err) == (0, "one\ntwo", "attempt 2 of 2\n"), name
    assert sweeps("logs", trial_id, "--tail", "1").out == "two"
    assert sweeps("logs", trial_id, "--attempt", "1").out == "first\n"
    followed = sweeps("logs", trial_id, "--follow", "--attempt", "1")
    assert (followed.code, followed.out) == (0, "first\n")
    wrong = sweeps("logs", trial_id, "--attempt", "3")
    assert (wrong.code, "has no attempt 3" in wrong.err) == (5, True)
    assert sweeps("logs", "trl_nothing").code == 5
    assert sweeps("logs", "nothing").code == 5
    assert sweeps("logs", "--attempt", "1").code == 2
    log = running.served.service.settings.storage / running.sweep_id / "runner.log"
    log.touch()
    empty = sweeps("logs", "played")
    assert (empty.code, empty.out) == (0, "")
    assert "the log is empty; trials have their own" in empty.err


def test_a_terminal_gets_no_escape_sequences(running: Running, sweeps: Sweeps, monkeypatch: pytest.MonkeyPatch) -> None:
    running.end(running.attempt(b"\x1b]0;owned\x07\x1b[31mred\x1b[2J\xc3\xa4\n\r1%\r100%"), Ending.FAILED)
    assert sweeps("logs", running.trial.id).out.startswith("\x1b]0;owned")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert sweeps("logs", running.trial.id).out == "red\N{LATIN SMALL LETTER A WITH DIAERESIS}\n\r1%\r100%\n"


def test_the_page_shows_the_end_of_a_log(served: Served, running: Running) -> None:
    lines = "".join(f"line {number}\n" for number in range(500))
    attempt = running.attempt(f"{lines}\x1b[31m<script>alert(1)</script>\r<b>bar\n".encode())
    url = f"/trials/{running.trial.id}/log"
    with served.browser() as http:
        answer = http.get(url)
        assert (answer.status_code, answer.headers["Location"]) == (303, f"/login?next={url}")
        http.post("/login", data={"token": served.token})
        page = http.get(url).text
        assert "line 301\n" in page
        assert "line 300\n" not in page
        assert "<b>" not in page
        assert "&lt;b&gt;bar" in page
        assert "\x1b" not in page
        assert f"sweeps logs {running.trial.id} --follow" in page
        running.end(attempt, Ending.FAILED)
        assert http.get(f"/sweeps/{running.sweep_id}").text.count(f'href="{url}"') == 2  # the failure and its row
        assert http.get(f"/trials/{served.store.list_trials(running.sweep_id)[1].id}/log").status_code == 200
        for nothing in ("trl_0", "x", "swp_0"):
            assert http.get(f"/trials/{nothing}/log").status_code == 404
