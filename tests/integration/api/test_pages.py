"""The status page without a browser: who may see it, what it says, what it never runs, and what a viewer is told."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from sweep_service.auth import sign_in_key
from sweep_service.pages import live_sweeps, page_curves, session
from sweep_service.pages.rendering import render as page_render
from sweep_service.service import SweepService
from sweep_service.sweep.endings import Ending, TrialState
from sweep_service.sweep.records import SweepState
from tests.integration.api.conftest import Served, serving
from tests.integration.api.played_sweep import SPEC, claim, finish, play, record

CANARY = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'{{7*7}}"
ESCAPED = "&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror=alert(2)&gt;&#34;&#39;{{7*7}}"


def anybody(served: Served) -> httpx.Client:
    return httpx.Client(base_url=served.url, headers={"Origin": served.url}, timeout=30, trust_env=False)


def sign_in(http: httpx.Client, given: str, **fields: str) -> httpx.Response:
    return http.post("/login", data={"token": given, **fields})


@pytest.fixture
def visitor(served: Served) -> Iterator[httpx.Client]:
    """A browser that is signed in."""
    with anybody(served) as http:
        assert sign_in(http, served.token).status_code == 303
        yield http


@pytest.fixture
def stranger(served: Served) -> Iterator[httpx.Client]:
    """A browser that is not."""
    with anybody(served) as http:
        yield http


def submitted(served: Served, **changes: Any) -> str:
    return served.service.submit(SPEC | changes)[0].id


@pytest.mark.parametrize("path", ["/", "/sweeps/{}", "/sweeps/{}/report", "/sweeps/{}/spec"])
def test_a_page_asks_strangers_to_sign_in_and_leads_back(served: Served, stranger: httpx.Client, path: str) -> None:
    path = path.format(submitted(served))
    answer = stranger.get(path)
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/login?next={path}")
    back = sign_in(stranger, served.token, next=path)
    assert (back.status_code, back.headers["Location"]) == (303, path)


@pytest.mark.parametrize("what", ["live", "events"])
def test_data_are_refused_to_strangers(served: Served, stranger: httpx.Client, what: str) -> None:
    answer = stranger.get(f"/sweeps/{submitted(served)}/{what}")
    assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHENTICATED")


def test_a_stranger_cancels_nothing(served: Served, stranger: httpx.Client) -> None:
    sweep_id = submitted(served)
    assert stranger.post(f"/sweeps/{sweep_id}/cancel").status_code == 303
    assert served.service.get(sweep_id).desired_state == "RUN"


def test_the_cookie_does_not_tell_the_token_and_scripts_cannot_read_it(served: Served, stranger: httpx.Client) -> None:
    cookie = sign_in(stranger, served.token).headers["Set-Cookie"]
    port = served.url.rpartition(":")[2]
    assert re.fullmatch(rf"sweeps_{port}=\d+\.[0-9a-f]{{64}}; HttpOnly; Path=/; SameSite=strict", cookie)
    assert served.token not in cookie
    assert sign_in_key(served.token).partition("_")[2] not in cookie


def test_the_cookie_is_secure_behind_https(served: Served, stranger: httpx.Client) -> None:
    object.__setattr__(served.service.settings, "url", "https://sweeps.example")
    assert "; Secure" in sign_in(stranger, served.token).headers["Set-Cookie"]


@pytest.mark.parametrize("wrong", ["", "nonsense", "sweeps_", "signin_"])
def test_a_wrong_token_is_told_and_sets_nothing(served: Served, stranger: httpx.Client, wrong: str) -> None:
    answer = sign_in(stranger, wrong)
    assert answer.status_code == 401
    assert "not this server&#39;s token" in answer.text or "not this server's token" in answer.text
    assert "Set-Cookie" not in answer.headers
    assert stranger.get("/").status_code == 303


def test_the_printed_key_opens_the_page_and_not_the_api(served: Served, stranger: httpx.Client) -> None:
    key = sign_in_key(served.token)
    assert sign_in(stranger, key).status_code == 303
    assert stranger.get("/").status_code == 200
    assert stranger.get("/v1/sweeps").status_code == 401
    assert stranger.get("/v1/sweeps", headers={"Authorization": f"Bearer {key}"}).status_code == 401


def test_the_cookie_opens_no_route_of_the_api(visitor: httpx.Client, served: Served) -> None:
    for path in ("/v1/sweeps", f"/v1/sweeps/{submitted(served)}", "/v1/schemas/sweep"):
        assert visitor.get(path).status_code == 401
    assert visitor.post("/v1/sweeps", json=SPEC).status_code == 401


def test_a_cookie_is_refused_when_it_was_changed_is_old_or_of_another_token() -> None:
    cookie = session.new_cookie("secret", 1_000_000)
    assert session.is_valid(cookie, "secret", 1_000_000 + session.MAX_AGE_S)
    assert not session.is_valid(cookie, "secret", 1_000_001 + session.MAX_AGE_S)
    assert not session.is_valid(cookie, "secret", 1_000_000 - 61)
    assert not session.is_valid(cookie, "other", 1_000_000)
    assert not session.is_valid(cookie.replace("1000000", "1000001"), "secret", 1_000_000)
    assert not any(session.is_valid(broken, "secret", 0) for broken in ("", ".", "1000000", "é.é", cookie + "0"))


def test_signing_out_ends_it(visitor: httpx.Client) -> None:
    assert visitor.get("/session").json() == {"signed_in": True}
    assert visitor.post("/logout").headers["Location"] == "/login"
    assert visitor.get("/session").json() == {"signed_in": False}
    assert visitor.get("/").status_code == 303


@pytest.mark.parametrize(
    "origin", [None, "null", "http://127.0.0.1:1", "http://localhost", "https://evil.example", "http://127.0.0.1.evil"]
)
def test_a_form_from_anywhere_else_changes_nothing(visitor: httpx.Client, served: Served, origin: str | None) -> None:
    sweep_id = submitted(served)
    del visitor.headers["Origin"]
    headers = {} if origin is None else {"Origin": origin}
    for path in (f"/sweeps/{sweep_id}/cancel", "/logout", "/login"):
        answer = visitor.post(path, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "FOREIGN_ORIGIN"), path
    assert served.service.get(sweep_id).desired_state == "RUN"


@pytest.mark.parametrize(("scheme", "status"), [("https", 303), ("http", 403)])
def test_behind_https_a_form_of_the_same_host_without_it_changes_nothing(
    served: Served, stranger: httpx.Client, scheme: str, status: int
) -> None:
    object.__setattr__(served.service.settings, "url", f"https://{served.url.partition('//')[2]}")
    stranger.headers["Origin"] = f"{scheme}://{served.url.partition('//')[2]}"
    assert sign_in(stranger, served.token).status_code == status


def test_the_process_is_alive_while_all_its_threads_are_busy(
    stranger: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastapi.routing.run_in_threadpool", lambda *_given: pytest.fail("asked for a thread"))
    assert stranger.get("/livez").json() == {"status": "ok"}


@pytest.mark.parametrize(
    "asked", ["//evil.example", "https://evil.example", "/\\evil.example", "/v1/sweeps", "/sweeps/x/cancel", "/\n/evil"]
)
def test_signing_in_leads_to_our_own_pages_only(served: Served, stranger: httpx.Client, asked: str) -> None:
    assert sign_in(stranger, served.token, next=asked).headers["Location"] == "/"
    assert 'data-next="/"' in stranger.get("/login", params={"next": asked}).text


def test_a_large_form_is_refused(stranger: httpx.Client) -> None:
    assert sign_in(stranger, "x" * 10_000).status_code == 413


def test_a_form_of_many_fields_is_no_error_of_the_server(stranger: httpx.Client) -> None:
    assert sign_in(stranger, "nonsense", **{f"field{number}": "1" for number in range(50)}).status_code == 401


def test_an_unexpected_error_carries_the_headers_of_every_answer(
    visitor: httpx.Client, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served.service, "sweeps", lambda *_given: 1 / 0)
    answer = visitor.get("/")
    assert (answer.status_code, answer.json()["code"]) == (500, "UNEXPECTED")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'"


@pytest.mark.parametrize("odd", ["%00", "swp_a%00", "SWP_A", "swp_" + "a" * 37, "swp_a%0A"])
def test_an_odd_id_never_reaches_the_database(
    visitor: httpx.Client, served: Served, monkeypatch: pytest.MonkeyPatch, odd: str
) -> None:
    monkeypatch.setattr(served.store, "get_sweep", lambda sweep_id: pytest.fail(f"asked for {sweep_id!r}"))
    monkeypatch.setattr(served.store, "list_sweeps", lambda *given: pytest.fail(f"asked for {given!r}"))
    for path in ("", "/spec", "/report", "/live", "/events"):
        assert visitor.get(f"/sweeps/{odd}{path}").status_code == 404
    assert visitor.post(f"/sweeps/{odd}/cancel").status_code == 404
    assert visitor.get(f"/?before={odd}").status_code == 422


def test_every_page_forbids_what_it_does_not_need(visitor: httpx.Client, served: Served) -> None:
    sweep_id = submitted(served)
    for path in ("/", "/login", f"/sweeps/{sweep_id}", f"/sweeps/{sweep_id}/spec", "/sweeps/swp_none"):
        headers = visitor.get(path).headers
        assert headers["Content-Security-Policy"] == (
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
            "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        )
        assert headers["Cache-Control"] == "no-store"
        assert headers["Referrer-Policy"] == "same-origin"
        assert headers["X-Content-Type-Options"] == "nosniff"


def test_pages_load_our_own_files_only_and_those_are_kept(visitor: httpx.Client, served: Served) -> None:
    for path in ("/", "/login", f"/sweeps/{submitted(served)}"):
        page = visitor.get(path).text
        loaded = re.findall(r'<(?:script|link|img)[^>]* (?:src|href)="([^"]*)"', page)
        assert {address.partition("?")[0] for address in loaded} <= {f"/static/{n}" for n in NAMES}
        assert not re.search(r"<script(?! src)| style=| on\w+=", page)
        for address in loaded:
            answer = visitor.get(address)
            assert answer.status_code == 200
            assert "immutable" in answer.headers["Cache-Control"]
    assert visitor.get("/static/../render.py").status_code == 404


NAMES = ("page.css", "page.js", "icon.svg")


def test_the_list_shows_sweeps_newest_first_in_pages(
    visitor: httpx.Client, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "No sweeps yet" in visitor.get("/").text
    ids = [submitted(served, name=f"sweep-{number}") for number in range(53)][::-1]
    first = visitor.get("/").text
    assert re.findall(r'href="/sweeps/(swp_\w+)"', first) == ids[:50]
    (older,) = re.findall(r'href="(/\?before=\w+)"', first)
    second = visitor.get(older).text
    assert re.findall(r'href="/sweeps/(swp_\w+)"', second) == ids[50:]
    assert "Older sweeps" not in second
    assert sign_in(visitor, served.token, next=older).headers["Location"] == older


def test_a_sweep_that_is_not_there_is_told(visitor: httpx.Client) -> None:
    for path in ("/sweeps/swp_none", "/sweeps/swp_none/report", "/sweeps/swp_none/spec", "/sweeps/%3Cb%3E"):
        answer = visitor.get(path)
        assert answer.status_code == 404
        assert "No such sweep" in answer.text
        assert "<b>" not in answer.text
    assert visitor.post("/sweeps/swp_none/cancel").status_code == 404
    assert visitor.get("/sweeps/swp_none/live").json()["code"] == "NOT_FOUND"
    assert visitor.get("/sweeps/swp_none/events").json()["code"] == "NOT_FOUND"


def test_texts_of_users_stay_texts(visitor: httpx.Client, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep_id = submitted(served, labels={"why": CANARY})
    stored_configs = served.store.list_configs
    hostile = {"params": {"loss.beta1": CANARY}}
    monkeypatch.setattr(
        served.store, "list_configs", lambda *given: [c.model_copy(update=hostile) for c in stored_configs(*given)]
    )
    fence = claim(served.store, sweep_id)
    first, second, *_ = served.store.list_trials(sweep_id)
    attempt = served.store.start_attempt(fence, first.id, "/nowhere/{attempt}")
    samples = [{"prompt": CANARY, "completion": CANARY, "reward": 1.0}]
    warning = {"code": CANARY, "message": CANARY, "evidence": {CANARY: CANARY}, "step": 8}
    evaluation = {"type": "evaluation", "time": 1.0, "step": 8, "metrics": {"eval/avg_at_k": 0.5}}
    written = {"type": "samples", "time": 1.0, "step": 8, "samples": samples}
    served.store.ingest(fence, attempt, 0, 9, [{"type": "warning", "time": 1.0, **warning}, evaluation, written])
    progress = {"type": "progress", "time": 1.0, "phase": CANARY, "done": 1, "total": 2}
    failing = served.store.start_attempt(fence, second.id, "/nowhere/{attempt}")
    served.store.ingest(fence, failing, 0, 1, [progress])
    served.store.finish_attempt(fence, attempt, Ending.FAILED, CANARY, 0)
    page, spec = visitor.get(f"/sweeps/{sweep_id}").text, visitor.get(f"/sweeps/{sweep_id}/spec").text
    served.store.set_sweep_state(fence, SweepState.FAILED, CANARY)
    news = visitor.get(f"/sweeps/{sweep_id}/live").json()
    inserted = "".join(news["parts"].values()) + "".join(row[3] for row in news["rows"])
    for text in (page, spec, inserted, visitor.get("/").text):
        assert "<script>alert" not in text
        assert "<img src=x" not in text
    assert page.count(ESCAPED) >= 8
    assert inserted.count(ESCAPED) >= 8


def test_a_page_says_how_it_stands(visitor: httpx.Client, served: Served) -> None:
    sweep_id = submitted(served)
    finish(served.store, play(served.store, sweep_id))
    page = visitor.get(f"/sweeps/{sweep_id}").text
    trials = served.store.list_trials(sweep_id)
    assert [page.count(f'<tr id="{trial.id}"') for trial in trials] == [1] * len(trials)
    assert "SUCCEEDED" in page
    assert "the loss is NaN at step 80" in page
    assert f'href="/sweeps/{sweep_id}/report"' in page
    assert "Cancel this sweep" not in page


def test_the_report_is_as_isolated_as_that_of_the_api(visitor: httpx.Client, served: Served) -> None:
    sweep_id = submitted(served)
    waiting = visitor.get(f"/sweeps/{sweep_id}/report")
    assert (waiting.status_code, waiting.headers["Refresh"]) == (202, "2")
    assert "script-src 'self'" in waiting.headers["Content-Security-Policy"]
    finish(served.store, play(served.store, sweep_id))
    mine, theirs = visitor.get(f"/sweeps/{sweep_id}/report"), served.http.get(f"/v1/sweeps/{sweep_id}/report")
    assert mine.content == theirs.content
    assert mine.headers["Content-Security-Policy"] == theirs.headers["Content-Security-Policy"]
    assert mine.headers["Content-Security-Policy"].startswith("sandbox allow-scripts; default-src 'none'")


def test_cancelling_stops_the_sweep_and_shows_it(visitor: httpx.Client, served: Served) -> None:
    sweep_id = submitted(served, labels={"note": "CANCELLING"})
    assert "Cancel this sweep" in visitor.get(f"/sweeps/{sweep_id}").text
    assert not visitor.get(f"/sweeps/{sweep_id}/live").json()["cancelling"]
    answer = visitor.post(f"/sweeps/{sweep_id}/cancel")
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/sweeps/{sweep_id}")
    page = visitor.get(f"/sweeps/{sweep_id}").text
    assert "CANCELLING" in page
    assert "Cancel this sweep" not in page
    assert visitor.get(f"/sweeps/{sweep_id}/live").json()["cancelling"]
    fence = claim(served.store, sweep_id)
    finish(served.store, fence, SweepState.CANCELLED)
    assert visitor.post(f"/sweeps/{sweep_id}/cancel").status_code == 303
    other = submitted(served)
    finish(served.store, play(served.store, other))
    refused = visitor.post(f"/sweeps/{other}/cancel")
    assert refused.status_code == 409
    assert "already ended" in refused.text


class Viewer:
    """What a page's script does with answers: it keeps points by number, and begins anew when told everything."""

    def __init__(self, http: httpx.Client, sweep_id: str) -> None:
        self.http, self.path, self.cursor = http, f"/sweeps/{sweep_id}/live", ""
        self.points: dict[tuple[str, str, str], dict[int, tuple[float, ...]]] = {}
        self.rows: dict[str, str] = {}
        self.told: list[int] = []

    def ask(self, *, lost: bool = False) -> None:
        """Ask once; a lost answer is not seen."""
        news = self.http.get(self.path, params={"after": self.cursor}).raise_for_status().json()
        if lost:
            return
        if news["full"]:
            self.points = {}
        self.cursor = news["cursor"]
        self.told.append(sum(len(points) for *_, points in news["lines"]))
        for config, stage, key, points in news["lines"]:
            self.points.setdefault((config, stage, key), {}).update((n, tuple(point)) for n, *point in points)
        self.rows |= {row[0]: row[1] for row in news["rows"]}

    def drawn(self) -> dict[tuple[str, str, str], list[tuple[float, ...]]]:
        return {line: [points[n] for n in sorted(points)] for line, points in self.points.items()}


def stored(service: SweepService, sweep_id: str) -> dict[tuple[str, str, str], list[tuple[float, ...]]]:
    """The same from the store, by the way that programs take."""
    found: dict[tuple[str, str, str], list[tuple[float, ...]]] = {}
    for curve in service.config_curves(sweep_id, ["entropy", "reward/mean", "eval/avg_at_k"]):
        rows = zip(curve.steps, curve.mean, curve.low, curve.high, curve.n, strict=True)
        found[curve.config_id, curve.stage, curve.key] = [
            (step, *(pytest.approx(value, rel=1e-5) for value in (mean, low, high)), n)
            for step, mean, low, high, n in rows
            if n
        ]
    return found


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every question reads the store anew."""
    monkeypatch.setattr("sweep_service.pages.live_sweeps.READ_EVERY_S", 0.0)


@pytest.mark.usefixtures("unhurried")
def test_answers_that_are_lost_or_repeated_leave_no_gap_and_double_nothing(
    visitor: httpx.Client, served: Served
) -> None:
    sweep_id = submitted(served)
    fence = claim(served.store, sweep_id)
    steady, unlucky = Viewer(visitor, sweep_id), Viewer(visitor, sweep_id)
    for number, trial in enumerate(served.store.list_trials(sweep_id)[:4]):
        attempt = served.store.start_attempt(fence, trial.id, "/nowhere/{attempt}")
        for begin in range(1, 80, 20):
            record(served.store, fence, attempt, trial, range(begin, begin + 20))
            steady.ask()
            unlucky.ask(lost=(begin // 20 + number) % 3 != 0)
        served.store.finish_attempt(fence, attempt, Ending.SUCCEEDED, None, 3)
    unlucky.ask()
    steady.ask()
    assert steady.drawn() == unlucky.drawn() == stored(served.service, sweep_id)
    assert steady.told[-2] <= 3 * 25, "an answer repeats what the viewer has"
    assert steady.told[-1] == 0
    assert set(steady.rows.values()) == {"ended", "waiting"}


@pytest.mark.usefixtures("unhurried")
def test_a_repeated_step_replaces_the_earlier_one(visitor: httpx.Client, served: Served) -> None:
    sweep_id = submitted(served)
    fence = claim(served.store, sweep_id)
    trial = served.store.list_trials(sweep_id)[0]
    viewer = Viewer(visitor, sweep_id)
    attempt = served.store.start_attempt(fence, trial.id, "/nowhere/{attempt}")
    record(served.store, fence, attempt, trial, range(1, 31))
    viewer.ask()
    served.store.finish_attempt(fence, attempt, Ending.CRASHED, "killed", 3)
    attempt = served.store.start_attempt(fence, trial.id, "/nowhere/{attempt}")
    events = [
        {"type": "step", "time": 1.0, "step": step, "metrics": {"entropy": 9.0, "reward/mean": None}}
        for step in range(21, 41)
    ]
    served.store.ingest(fence, attempt, 0, 1, events)
    viewer.ask()
    assert (
        viewer.drawn()[trial.config_id, "tune", "entropy"]
        == stored(served.service, sweep_id)[trial.config_id, "tune", "entropy"]
    )


@pytest.mark.usefixtures("unhurried")
def test_a_viewer_goes_on_after_a_restart_of_the_server(home: Any) -> None:
    with serving(home) as first:
        sweep_id = submitted(first)
        fence = claim(first.store, sweep_id)
        trial, other, *_ = first.store.list_trials(sweep_id)
        attempt = first.store.start_attempt(fence, trial.id, "/nowhere/{attempt}")
        record(first.store, fence, attempt, trial, range(1, 41))
        port = int(first.url.rpartition(":")[2])
        http = anybody(first)
        sign_in(http, first.token)
        viewer = Viewer(http, sweep_id)
        viewer.ask()
        assert viewer.drawn() == stored(first.service, sweep_id)
        http.close()
    with serving(home, port) as second:
        record(second.store, fence, attempt, trial, range(41, 81))
        attempt = second.store.start_attempt(fence, other.id, "/nowhere/{attempt}")
        record(second.store, fence, attempt, other, range(1, 41))
        with anybody(second) as http:
            sign_in(http, second.token)
            viewer.http = http
            viewer.ask()
        assert viewer.drawn() == stored(second.service, sweep_id)


@pytest.mark.usefixtures("unhurried")
def test_a_large_sweep_comes_in_parts(visitor: httpx.Client, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweep_service.pages.live_sweeps._FIRST_POINTS", 2)
    monkeypatch.setattr("sweep_service.pages.live_sweeps._MORE_POINTS", 3)
    sweep_id = submitted(served)
    finish(served.store, play(served.store, sweep_id))
    viewer, answers = Viewer(visitor, sweep_id), 0
    while visitor.get(viewer.path, params={"after": viewer.cursor}).json()["next_s"] == 0:
        viewer.ask()
        answers += 1
    viewer.ask()
    assert answers > 2
    assert viewer.drawn() == stored(served.service, sweep_id)


def test_many_viewers_ask_no_more_of_the_store_than_one(
    visitor: httpx.Client, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweep_service.pages.live_sweeps.READ_EVERY_S", 3600.0)
    sweep_id = submitted(served)
    viewers = [Viewer(visitor, sweep_id) for _ in range(5)]
    viewers[0].ask()
    reads: list[str] = []
    listed = served.store.list_trials
    monkeypatch.setattr(served.store, "list_trials", lambda *given: (reads.append("read"), listed(*given))[1])
    for viewer in viewers:
        viewer.ask()
    assert reads == []
    assert all(viewer.rows == viewers[0].rows for viewer in viewers)


@pytest.mark.usefixtures("unhurried")
def test_rows_that_have_not_changed_are_not_rendered_again(
    visitor: httpx.Client, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep_id = submitted(served)
    fence = claim(served.store, sweep_id)
    viewer = Viewer(visitor, sweep_id)
    viewer.ask()
    rendered: list[str] = []
    monkeypatch.setattr(
        live_sweeps, "render", lambda name, **given: (rendered.append(name), page_render(name, **given))[1]
    )
    trial = served.store.list_trials(sweep_id)[0]
    served.store.start_attempt(fence, trial.id, "/nowhere/{attempt}")
    viewer.ask()
    assert rendered.count("trial") == 1
    assert viewer.rows[trial.id] == "running"


def test_events_have_no_names_so_that_a_browser_hands_all_of_them_over(visitor: httpx.Client, served: Served) -> None:
    sweep_id = submitted(served)
    finish(served.store, play(served.store, sweep_id))
    numbers = [event.seq for event in served.store.list_events(sweep_id)]
    lines = visitor.get(f"/sweeps/{sweep_id}/events?after=3").text.splitlines()
    assert [int(line[4:]) for line in lines if line.startswith("id: ")] == numbers[3:]
    assert [line for line in lines if line.startswith("event:")] == ["event: end"]
    assert json.loads(next(line for line in lines if line.startswith("data: "))[6:])["seq"] == 4
    resumed = visitor.get(f"/sweeps/{sweep_id}/events?after=3", headers={"Last-Event-ID": "7"}).text.splitlines()
    assert [int(line[4:]) for line in resumed if line.startswith("id: ")] == numbers[7:]


def test_trials_that_ended_stand_apart(visitor: httpx.Client, served: Served) -> None:
    sweep_id = submitted(served)
    fence = claim(served.store, sweep_id)
    trials = served.store.list_trials(sweep_id)
    running = served.store.start_attempt(fence, trials[0].id, "/nowhere/{attempt}")
    record(served.store, fence, running, trials[0], range(1, 41))
    page = visitor.get(f"/sweeps/{sweep_id}").text
    groups = {name: page.index(f'id="{name}"') for name in ("running", "ended", "waiting")}
    assert groups["running"] < page.index(f'id="{trials[0].id}"') < groups["ended"]
    assert groups["waiting"] < page.index(f'id="{trials[1].id}"')
    assert [trial.state for trial in trials[1:]] == [TrialState.PENDING] * (len(trials) - 1)


def test_thinning_keeps_small_sweeps_whole_and_large_ones_light() -> None:
    assert page_curves.thinning(240, 17) == 1
    assert page_curves.thinning(1000, 17) == 5
    assert page_curves.thinning(1000, 1000) == 25
