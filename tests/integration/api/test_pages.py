"""The status page without a browser: who may see it, what it says, what it never runs, and which curves it draws."""

import html
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from sweep_service.auth import sign_in_key
from sweep_service.pages import page_curves, session
from sweep_service.pages.live_sweeps import LiveSweep
from sweep_service.service import SweepService
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.records import Sweep, SweepState
from tests.integration.api.conftest import Served, serving
from tests.integration.api.played_sweep import REPORT, SPEC, claim, finish, play, record
from tests.stored_sweeps import one_attempt, training_events
from tests.waiting import PATIENT_S

THREADS = 40
"""Number of those in which Starlette answers requests."""
CANARY = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'{{7*7}}"
ESCAPED = "&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror=alert(2)&gt;&#34;&#39;{{7*7}}"


def sign_in(http: httpx.Client, given: str, **fields: str) -> httpx.Response:
    return http.post("/login", data={"token": given, **fields})


@pytest.fixture
def stranger(served: Served) -> Iterator[httpx.Client]:
    """A browser that is not signed in."""
    with served.browser() as http:
        yield http


@pytest.mark.parametrize("path", ["/", "/sweeps/{}", "/sweeps/{}/report", "/sweeps/{}/spec"])
def test_a_page_asks_strangers_to_sign_in_and_leads_back(served: Served, stranger: httpx.Client, path: str) -> None:
    path = path.format(served.submit())
    answer = stranger.get(path)
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/login?next={path}")
    back = sign_in(stranger, served.token, next=path)
    assert (back.status_code, back.headers["Location"]) == (303, path)


def test_curves_are_refused_to_strangers(served: Served, stranger: httpx.Client) -> None:
    answer = stranger.get(f"/sweeps/{served.submit()}/curves")
    assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHENTICATED")


def test_the_cookie_does_not_tell_the_token_and_scripts_cannot_read_it(served: Served, stranger: httpx.Client) -> None:
    cookie = sign_in(stranger, served.token).headers["Set-Cookie"]
    port = served.url.rpartition(":")[2]
    assert re.fullmatch(rf"sweeps_{port}=\d+\.[0-9a-f]{{64}}; HttpOnly; Path=/; SameSite=strict", cookie)
    assert served.token not in cookie
    assert sign_in_key(served.token).partition("_")[2] not in cookie


def test_the_cookie_is_secure_behind_https(served: Served, stranger: httpx.Client) -> None:
    object.__setattr__(served.service.settings, "url", "https://sweeps.example")
    assert "; Secure" in sign_in(stranger, served.token).headers["Set-Cookie"]


def test_signing_in_and_refusals_wait_for_no_other_request(
    served: Served, stranger: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All threads of the server read the store for others."""
    sweep_id, reading, go_on = served.submit(), threading.Semaphore(0), threading.Event()
    get_sweep = served.store.get_sweep

    def waits(sweep_id: str) -> Sweep:
        reading.release()
        assert go_on.wait(PATIENT_S)
        return get_sweep(sweep_id)

    monkeypatch.setattr(served.store, "get_sweep", waits)
    with ThreadPoolExecutor(2 * THREADS) as others:
        waiting = [others.submit(served.http.get, f"/v1/sweeps/{sweep_id}") for _ in range(THREADS + 5)]
        try:
            assert all(reading.acquire(timeout=PATIENT_S) for _ in range(THREADS))
            stranger.timeout = 20
            assert stranger.get("/v1/sweeps").status_code == 401
            assert stranger.get("/").status_code == 303
            assert stranger.get("/login").status_code == 200
            assert stranger.get("/session").json() == {"signed_in": False}
            assert sign_in(stranger, served.token).status_code == 303
            assert stranger.post("/logout").status_code == 303
        finally:
            go_on.set()
        assert {one.result().status_code for one in waiting} == {200}


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
    for path in ("/v1/sweeps", f"/v1/sweeps/{served.submit()}", "/v1/schemas/sweep"):
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
    for path in ("", "/spec", "/report", "/curves"):
        assert visitor.get(f"/sweeps/{odd}{path}").status_code == 404
    assert visitor.post(f"/sweeps/{odd}/cancel").status_code == 404
    assert visitor.get(f"/?before={odd}").status_code == 422


def test_every_page_forbids_what_it_does_not_need(visitor: httpx.Client, served: Served) -> None:
    sweep_id = served.submit()
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
    for path in ("/", "/login", f"/sweeps/{served.submit()}"):
        page = visitor.get(path).text
        loaded = re.findall(r'<(?:script|link|img)[^>]* (?:src|href)="([^"]*)"', page)
        assert {address.partition("?")[0] for address in loaded} <= {f"/static/{n}" for n in NAMES}
        assert not re.search(r"<script(?! src)| style=| on\w+=", page)
        for address in loaded:
            answer = visitor.get(address)
            assert answer.status_code == 200
            assert "immutable" in answer.headers["Cache-Control"]
    assert visitor.get("/static/../render.py").status_code == 404


NAMES = ("page.css", "page.js", "icon.svg", "plotly.min.js")


def test_the_list_shows_sweeps_newest_first_in_pages_which_keep_the_search(
    visitor: httpx.Client, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweep_service.api.page_routes._LISTED", 2)
    assert "No sweeps yet" in visitor.get("/").text
    ids = [served.submit(name=name) for name in ("betas-a", "losses", "betas-b", "betas-c")][::-1]
    for query, found in (("", ids), ("text=betas&state=", [ids[0], ids[1], ids[3]])):
        first = visitor.get(f"/?{query}").text
        assert re.findall(r'href="/sweeps/(swp_\w+)"', first) == found[:2]
        (link,) = re.findall(r'href="(/\?before=[^"]*)"', first)
        older = html.unescape(link)
        second = visitor.get(older).text
        assert re.findall(r'href="/sweeps/(swp_\w+)"', second) == found[2:]
        assert "Older sweeps" not in second
        assert sign_in(visitor, served.token, next=older).headers["Location"] == older


def test_the_list_shows_labels_and_filters_by_one(visitor: httpx.Client, served: Served) -> None:
    ids = [served.submit(name=f"s{number}", labels={"team": f"<{number % 2}> &"}) for number in range(4)]
    page = visitor.get("/").text
    (first, *_) = re.findall(r'<a class="label" href="(/\?label=[^"]*)">team=&lt;1&gt; &amp;</a>', page)
    filtered = visitor.get(first).text
    assert re.findall(r'<a class="name" href="/sweeps/(swp_\w+)"', filtered) == [ids[3], ids[1]]
    assert 'name="label"' in filtered
    assert 'value="team=&lt;1&gt; &amp;"' in filtered
    assert "No sweep is like that" in visitor.get("/?label=team=nix").text
    assert visitor.get("/?label=nonsense").status_code == 422


def test_the_list_is_searched(visitor: httpx.Client, served: Served) -> None:
    ids = {name: served.submit(name=name) for name in ("betas", "losses")}
    claim(served.store, ids["betas"])
    for query, names in (
        ("text=BET", {"betas"}),
        ("text=&state=QUEUED&label=&created_after=&created_before=", {"losses"}),
        ("label=team%3Drl&created_after=2020-01-01", {"betas", "losses"}),
        ("created_before=2020-01-01", set[str]()),
    ):
        page = visitor.get(f"/?{query}").text
        assert {name for name, sweep_id in ids.items() if f'href="/sweeps/{sweep_id}"' in page} == names, query
    assert "No sweep is like that" in page
    assert 'value="&lt;b&gt;"' in visitor.get("/", params={"text": "<b>"}).text
    wrong = visitor.get("/?created_after=<b>&state=DONE&label=nonsense")
    assert (wrong.status_code, "text/html" in wrong.headers["Content-Type"], "<b>" in wrong.text) == (422, True, False)
    assert "created_after is &#39;&lt;b&gt;&#39;; give a day, such as 2026-11-23" in wrong.text
    assert "label is &#39;nonsense&#39;; give a name and a text, such as team=rl" in wrong.text
    assert "state is &#39;DONE&#39;; give one of QUEUED, RUNNING" in wrong.text
    assert "Input should be" not in wrong.text
    assert "Submitted on or after" in page
    assert visitor.get(f"/sweeps/{ids['betas']}/report?format=pdf").headers["Content-Type"].startswith("text/html")


def test_texts_of_users_stay_texts(visitor: httpx.Client, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep_id, store = served.submit(labels={"why": CANARY}), served.store
    stored_configs = store.list_configs
    hostile = {"params": {"loss.beta1": CANARY}}
    monkeypatch.setattr(
        store, "list_configs", lambda *given: [c.model_copy(update=hostile) for c in stored_configs(*given)]
    )
    fence = claim(store, sweep_id)
    first, second, *_ = store.list_trials(sweep_id)
    at = {"time": 1.0, "step": 8}
    written = [
        {"type": "warning", "code": CANARY, "message": CANARY, "evidence": {CANARY: CANARY}} | at,
        {"type": "evaluation", "metrics": {"eval/avg_at_k": 0.5}} | at,
        {"type": "samples", "samples": [{"prompt": CANARY, "completion": CANARY, "reward": 1.0}]} | at,
    ]
    one_attempt(store, fence, first.id, Ending.FAILED, written, message=CANARY)
    progress = {"type": "progress", "time": 1.0, "phase": CANARY, "done": 1, "total": 2}
    store.ingest(fence, store.start_attempt(fence, second.id, "/nowhere"), 0, 1, [progress])
    store.set_sweep_state(fence, SweepState.FAILED, CANARY)
    page, spec = visitor.get(f"/sweeps/{sweep_id}").text, visitor.get(f"/sweeps/{sweep_id}/spec").text
    for text in (page, spec, visitor.get("/").text):
        assert "<script>alert" not in text
        assert "<img src=x" not in text
    assert page.count(ESCAPED) == 26


def test_the_page_of_a_spec_shows_the_spec_that_the_api_answers(visitor: httpx.Client, served: Served) -> None:
    sweep_id = served.submit()
    page = visitor.get(f"/sweeps/{sweep_id}/spec").text
    shown = page.partition('<pre class="whole" tabindex="0">')[2].partition("</pre>")[0]
    assert yaml.safe_load(html.unescape(shown)) == served.get(f"/sweeps/{sweep_id}")["spec"]


def test_the_report_is_as_isolated_as_that_of_the_api(visitor: httpx.Client, served: Served) -> None:
    sweep_id = served.submit()
    waiting = visitor.get(f"/sweeps/{sweep_id}/report")
    assert (waiting.status_code, waiting.headers["Refresh"]) == (202, "2")
    assert "script-src 'self'" in waiting.headers["Content-Security-Policy"]
    finish(served.store, play(served.store, sweep_id))
    mine, theirs = visitor.get(f"/sweeps/{sweep_id}/report"), served.http.get(f"/v1/sweeps/{sweep_id}/report")
    assert mine.content == theirs.content
    assert mine.headers["Content-Security-Policy"] == theirs.headers["Content-Security-Policy"]
    assert mine.headers["Content-Security-Policy"].startswith("sandbox allow-scripts; default-src 'none'")


def test_the_page_of_a_report_that_could_not_be_built_says_why(visitor: httpx.Client, served: Served) -> None:
    sweep_id = served.submit()
    served.store.set_report_failure(sweep_id, "KeyError: 'loss'")
    answer = visitor.get(f"/sweeps/{sweep_id}/report")
    assert answer.status_code == 409
    assert "Refresh" not in answer.headers
    assert "could not be built: KeyError" in answer.text


def drawn(visitor: httpx.Client, sweep_id: str) -> dict[tuple[str, str, str], list[tuple[float, ...]]]:
    """Return the points that a page's script is given, by config, stage and metric."""
    lines = visitor.get(f"/sweeps/{sweep_id}/curves").raise_for_status().json()["lines"]
    columns = ("x", "mean", "low", "high", "n")
    return {
        (line["config"], line["stage"], line["key"]): [*zip(*(line[name] for name in columns), strict=True)]
        for line in lines
    }


def newest_chunk(visitor: httpx.Client, sweep_id: str) -> int:
    """Return the number by which a page's script sees that there are new curves."""
    (chunk,) = re.findall(r'data-chunk="(\d+)"', visitor.get(f"/sweeps/{sweep_id}").text)
    return int(chunk)


def groups(visitor: httpx.Client, sweep_id: str) -> dict[str, str]:
    """Return the part of the page's table in which each trial stands."""
    page = visitor.get(f"/sweeps/{sweep_id}").text
    parts = re.findall(r'<tbody id="(\w+)"(.*?)</tbody>', page, re.DOTALL)
    return {trial: part for part, rows in parts for trial in re.findall(r'<tr id="(trl_\w+)"', rows)}


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
def test_curves_are_those_of_the_store_at_any_time(visitor: httpx.Client, served: Served) -> None:
    sweep_id = served.submit()
    fence = claim(served.store, sweep_id)
    chunks = [newest_chunk(visitor, sweep_id)]
    for trial in served.store.list_trials(sweep_id)[:4]:
        attempt = served.store.start_attempt(fence, trial.id, "/nowhere/{attempt}")
        for begin in range(1, 80, 20):
            record(served.store, fence, attempt, trial, range(begin, begin + 20))
            chunks.append(newest_chunk(visitor, sweep_id))
            assert drawn(visitor, sweep_id) == stored(served.service, sweep_id)
        served.store.finish_attempt(fence, attempt, Ending.SUCCEEDED, None, 3)
    assert chunks == sorted(set(chunks)), "the page tells of new curves"
    assert newest_chunk(visitor, sweep_id) == chunks[-1]


def test_a_repeated_step_replaces_the_earlier_one(visitor: httpx.Client, served: Served) -> None:
    sweep_id, store = served.submit(), served.store
    fence, trial = claim(store, sweep_id), store.list_trials(sweep_id)[0]
    attempt = store.start_attempt(fence, trial.id, "/nowhere/{attempt}")
    record(store, fence, attempt, trial, range(1, 31))
    drawn(visitor, sweep_id)
    store.finish_attempt(fence, attempt, Ending.CRASHED, "killed", 3)
    metrics = {"entropy": 9.0, "reward/mean": None}
    events = [{"type": "step", "time": 1.0, "step": step, "metrics": metrics} for step in range(21, 41)]
    one_attempt(store, fence, trial.id, Ending.CRASHED, events)
    line = (trial.config_id, "tune", "entropy")
    assert drawn(visitor, sweep_id)[line] == stored(served.service, sweep_id)[line]


@pytest.mark.usefixtures("unhurried")
def test_who_is_signed_in_sees_the_page_go_on_after_a_restart_of_the_server(home: Path) -> None:
    with serving(home) as first, first.browser() as http:
        sign_in(http, first.token)
        sweep_id = first.submit()
        before, cookies = newest_chunk(http, sweep_id), http.cookies
    with serving(home, int(first.url.rpartition(":")[2])) as second, second.browser() as http:
        http.cookies = cookies
        play(second.store, sweep_id)
        assert newest_chunk(http, sweep_id) > before
        assert drawn(http, sweep_id) == stored(second.service, sweep_id)


@pytest.mark.usefixtures("unhurried")
def test_a_page_tells_the_same_whether_its_viewer_came_early_or_late(served: Served) -> None:
    store, sweep_id = served.store, served.submit()
    early, fence = LiveSweep(served.service, sweep_id), claim(store, sweep_id)
    again, lacking, plain, _, *_ = store.list_trials(sweep_id)
    early.page()
    written = [
        (again, [*training_events(1, 20)]),  # crashes, and has another value for its last step then
        (again, [event | {"metrics": {"entropy": 0.125}} for event in training_events(9, 20, every=99)]),
        (again, [*training_events(9, 12)]),
        (lacking, [*training_events(1, 12), {"type": "step", "step": 13, "time": 1e9, "metrics": {"entropy": 0.25}}]),
        (plain, [*training_events(1, 16)]),
    ]
    for trial, events in written:
        one_attempt(store, fence, trial.id, Ending.CRASHED, events)
        early.page()
    early, late = early._read().rows, LiveSweep(served.service, sweep_id)._read().rows
    assert [(row.entropy, row.reward) for row in late[:3]] == [(0.125, 1.0), (0.25, 0.6), (0.84, 0.8)]
    assert late == early
    assert len({row.objective for row in late}) == 4


@pytest.mark.usefixtures("unhurried")
def test_the_page_of_a_sweep_that_was_given_a_confirm_stage_shows_what_the_api_says(served: Served) -> None:
    store, sweep_id = served.store, served.submit()
    fence = claim(store, sweep_id)
    watched = LiveSweep(served.service, sweep_id)
    watched.page()
    metrics = {"eval/avg_at_k": 0.5, "eval/tune_part/avg_at_k": 0.25, "eval/confirm_part/avg_at_k": 0.75}
    told = [{"type": "evaluation", "step": 40, "time": 1e9, "metrics": metrics}]
    for trial in store.list_trials(sweep_id):
        one_attempt(store, fence, trial.id, Ending.SUCCEEDED, told)
    watched.page()
    served.service.extend(sweep_id, {"seeds": {"confirm": {"top_k": 1, "seeds": [8]}}})
    expected = {trial.id: trial.objective for trial in served.service.trials(sweep_id, -1, 100, ())}
    assert set(expected.values()) == {0.25}
    assert {row.trial.id: row.objective for row in watched._read().rows} == expected


@pytest.mark.usefixtures("unhurried")
def test_a_page_reads_no_whole_curves(visitor: httpx.Client, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep_id, read = served.succeeded(), list[int]()

    def counting(reads: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        def counted(*given: Any) -> list[Any]:
            read.append(len(found := reads(*given)))
            return found

        return counted

    for name in ("new_points", "curves"):
        monkeypatch.setattr(served.store, name, counting(getattr(served.store, name)))
    assert 'data-again=""' in visitor.get(f"/sweeps/{sweep_id}").text
    assert sum(read) == 0
    assert drawn(visitor, sweep_id) == stored(served.service, sweep_id)
    assert sum(read) > 0


def test_many_viewers_ask_no_more_of_the_store_than_one(
    visitor: httpx.Client, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweep_service.pages.live_sweeps.READ_EVERY_S", 3600.0)
    sweep_id = served.submit()
    page = visitor.get(f"/sweeps/{sweep_id}").text
    monkeypatch.setattr(served.store, "list_trials", lambda *_: pytest.fail("the store was read again"))
    assert all(visitor.get(f"/sweeps/{sweep_id}").text == page for _ in range(5))


def test_who_asks_for_a_change_sees_it_at_once(
    visitor: httpx.Client, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweep_service.pages.live_sweeps.READ_EVERY_S", 3600.0)
    sweep_id = served.submit()
    claim(served.store, sweep_id)
    assert ">RUNNING<" in visitor.get(f"/sweeps/{sweep_id}").text
    assert ">PAUSING<" in visitor.post(f"/sweeps/{sweep_id}/pause", follow_redirects=True).text
    (trial, *_) = served.store.list_trials(sweep_id)
    visitor.post(f"/trials/{trial.id}/stop", data={"result": "count"})
    assert ">STOPPED<" in visitor.get(f"/sweeps/{sweep_id}").text


def test_trials_that_wait_run_and_ended_stand_apart(visitor: httpx.Client, served: Served) -> None:
    sweep_id = served.submit()
    fence = claim(served.store, sweep_id)
    first, second, *others = served.store.list_trials(sweep_id)
    one_attempt(served.store, fence, second.id, Ending.SUCCEEDED)
    served.store.start_attempt(fence, first.id, "/nowhere")
    expected = {first.id: "running", second.id: "ended"} | {trial.id: "waiting" for trial in others}
    assert groups(visitor, sweep_id) == expected
    cells = re.findall(r'<td class="links">(.*?)</td>', visitor.get(f"/sweeps/{sweep_id}").text)
    links = [re.findall(r"<span>(?:<a [^>]*>)?(\w*)(?:</a>)?</span>", cell) for cell in cells]
    assert [set(column) for column in zip(*links, strict=True)] == [{"Log", ""}, {"Stop", ""}]


def test_thinning_keeps_small_sweeps_whole_and_large_ones_light() -> None:
    assert page_curves.thinning(240, 17) == 1
    assert page_curves.thinning(1000, 17) == 5
    assert page_curves.thinning(1000, 1000) == 25


@pytest.mark.parametrize("path", ["/livez", "/session", "/login", "/v1/sweeps", "/static/page.css", "/nowhere"])
def test_cookies_that_python_parses_for_ever_hold_nobody_up(shared: Served, path: str) -> None:
    headers = {"Cookie": 'a="' + "\\" * 60_000 + '"; b=1'}
    answer = httpx.get(f"{shared.url}{path}", headers=headers, timeout=20)  # it takes a minute on some machines
    assert answer.status_code < 500


def test_a_form_from_anywhere_else_neither_signs_in_nor_out(visitor: httpx.Client) -> None:
    for path in ("/logout", "/login"):
        answer = visitor.post(path, headers={"Origin": "https://evil.example"})
        assert (answer.status_code, answer.json()["code"]) == (403, "FOREIGN_ORIGIN"), path
    assert visitor.get("/session").json() == {"signed_in": True}


@pytest.mark.usefixtures("unhurried")
def test_a_page_links_the_reports_before(visitor: httpx.Client, served: Served) -> None:
    sweep_id = served.succeeded()
    served.service.renew_report(sweep_id)
    earlier = f"/sweeps/{sweep_id}/report?digest=digest"
    page = visitor.get(f"/sweeps/{sweep_id}").text
    assert earlier not in page
    assert "The report is being built anew." in page
    assert f"/sweeps/{sweep_id}/renew_report" not in page
    assert 'data-again="5.0"' in page
    served.store.put_report(sweep_id, "newer", REPORT | {"html": b"newer"})
    (link,) = re.findall(
        r'Earlier reports: <a href="([^"]+)">20[-0-9: ]+ UTC</a>', visitor.get(f"/sweeps/{sweep_id}").text
    )
    assert link == earlier
    assert visitor.get(f"/sweeps/{sweep_id}/report").content == b"newer"
    assert visitor.get(earlier).content == REPORT["html"]
    assert visitor.get(f"/sweeps/{sweep_id}/report?digest=other").status_code == 404


def test_a_sweep_that_is_not_there_is_told(visitor: httpx.Client) -> None:
    for path in ("/sweeps/swp_none", "/sweeps/swp_none/report", "/sweeps/swp_none/spec", "/sweeps/%3Cb%3E"):
        answer = visitor.get(path)
        assert (answer.status_code, "No such sweep" in answer.text, "<b>" in answer.text) == (404, True, False)
    assert visitor.get("/sweeps/swp_none/curves").json()["code"] == "NOT_FOUND"
