"""Every verb, by every way: the route, the client, the command and the page pass it on, with its wish and who asked."""

import html
import json
import re
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from sweep_service.auth import fingerprint
from sweep_service.client import Client
from sweep_service.errors import Conflict, NotFound
from sweep_service.verbs import VERBS as TABLE
from tests.golden import matches_golden
from tests.integration.api.conftest import Served, Sweeps, serving
from tests.integration.api.verbs import STATES, VERBS, Target, Verb, facts

WAYS = [(verb, way) for verb in VERBS for way in ("route", "client", "command", "page") if verb.page or way != "page"]
NOBODY = Target("swp_00000000000000000000000000", "trl_00000000000000000000000000")


def test_no_verb_of_the_table_is_left_out() -> None:
    given = {verb.path for verb in VERBS}
    for row in TABLE.values():
        assert f"/v1/{row.path}".replace("_id}", "}") in given


def test_api_page_and_client_have_the_table_as_it_is() -> None:
    made = runpy.run_path("docs/verbs_table.py")
    for file, make in ((made["PAGE"], made["page_with_verbs"]), (made["CLIENT"], made["client_with_verbs"])):
        assert make(file.read_text()) == file.read_text(), "run docs/verbs_table.py"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def served(home: Path) -> Iterator[Served]:
    """One server for all verbs: each test has a sweep of its own."""
    with pytest.MonkeyPatch.context() as monkeypatch, serving(home) as running:
        monkeypatch.setattr("sweep_service.pages.live_sweeps.READ_EVERY_S", 0.0)
        yield running


@pytest.fixture(scope="module")
def visitor(served: Served) -> Iterator[httpx.Client]:
    """A browser that is signed in."""
    with served.browser() as http:
        http.post("/login", data={"token": served.token})
        yield http


class Giver:
    """Gives a verb by one of its ways, and checks the answer of the way."""

    def __init__(self, served: Served, sweeps: Sweeps, visitor: httpx.Client) -> None:
        self.served, self.sweeps, self.visitor = served, sweeps, visitor

    def by_route(self, verb: Verb, target: Target) -> httpx.Response:
        return self.served.http.request(verb.method, target.named(verb.path), params=verb.params, json=verb.body)

    def by_page(self, verb: Verb, target: Target) -> httpx.Response:
        return self.visitor.post(target.named(verb.page or ""), data=dict(verb.form))

    def view(self, verb: Verb, target: Target) -> Any:
        return self.served.http.get(target.named(verb.view)).json()

    def give(self, verb: Verb, way: str, target: Target) -> None:
        if way == "route":
            answer = self.by_route(verb, target)
            assert (answer.status_code, answer.json()) == (verb.status, self.view(verb, target))
        elif way == "client":
            with Client(self.served.url, self.served.token, patience_s=5) as client:
                verb.ask(client, target)
        elif way == "command":
            ran = self.sweeps(*target.named(verb.command).split(), *["--json"][: verb.json])
            assert ran.code == verb.exit_code, ran.err
            if verb.json:
                printed = json.loads(ran.out)
                assert (printed if isinstance(printed, dict) else printed[0]) == self.view(verb, target)
        else:
            answer = self.by_page(verb, target)
            assert (answer.status_code, answer.headers["Location"]) == (303, target.named(verb.next_page))


@pytest.fixture
def giver(served: Served, sweeps: Sweeps, visitor: httpx.Client) -> Giver:
    return Giver(served, sweeps, visitor)


@pytest.mark.parametrize(("verb", "way"), WAYS, ids=[f"{verb} by {way}" for verb, way in WAYS])
def test_a_verb_does_the_same_by_every_way_and_nothing_when_it_is_repeated(
    served: Served, giver: Giver, verb: Verb, way: str
) -> None:
    target, store = verb.given(served), served.store
    before, last_event = facts(store, target), store.last_event(target.sweep)
    if way == "page":
        assert f'action="{target.named(verb.page or "")}"' in giver.visitor.get(target.named(verb.button_on)).text
    for _ in range(2):
        giver.give(verb, way, target)
        now = facts(store, target)
        assert {name: value for name, value in now.items() if value != before[name]} == verb.changes
    told = [event.data["by"] for event in store.list_events(target.sweep, last_event) if event.type == verb.event]
    assert told == [fingerprint(served.token) + " (status page)" * (way == "page")]


@pytest.mark.parametrize("verb", VERBS, ids=str)
def test_a_refused_verb_changes_nothing_and_every_way_says_why(served: Served, giver: Giver, verb: Verb) -> None:
    said = list[str]()

    def note(title: str, text: str, target: Target) -> None:
        text = text.replace(target.sweep, "SWEEP").replace(target.trial, "TRIAL")
        said.append(f"# {title}\n{text.rstrip()}\n")

    target = verb.given(served)
    for title in ("The command says", "Given once more, it says"):
        note(title, giver.sweeps(*target.named(verb.command).split()).err, target)
    target = verb.refused(served)
    before = facts(served.store, target), served.store.last_event(target.sweep)
    refused = giver.by_route(verb, target)
    assert (refused.status_code, refused.json()["code"]) == (409, "CONFLICT")
    why = refused.json()["detail"]
    note("Refused, the API says", why, target)
    with Client(served.url, served.token) as client, pytest.raises(Conflict) as conflict:
        verb.ask(client, target)
    assert str(conflict.value) == why
    ran = giver.sweeps(*target.named(verb.command).split())
    assert ran.code == 6
    note("Refused, the command says", ran.err, target)
    if verb.page:
        answer = giver.by_page(verb, target)
        assert answer.status_code == 409
        assert html.escape(why) in answer.text
        note("Refused, the page has the title", answer.text.partition("<h1>")[2].partition("</h1>")[0], target)
    assert (facts(served.store, target), served.store.last_event(target.sweep)) == before
    matches_golden(Path(__file__).parent / "golden" / f"{verb.name.replace(' ', '_')}.txt", "\n".join(said))


@pytest.mark.parametrize(("state", "given"), STATES.items(), ids=STATES)
def test_a_page_offers_what_the_state_allows(
    served: Served, visitor: httpx.Client, state: str, given: Callable[[Served], Target]
) -> None:
    sweep_id, over = given(served).sweep, state in ("SUCCEEDED", "CANCELLED")
    page = visitor.get(f"/sweeps/{sweep_id}").text
    assert f">{state}</span>" in page
    buttons = {verb.page.rpartition("/")[2] for verb in VERBS if verb.page and state in verb.offered}
    assert set(re.findall(rf'action="/sweeps/{sweep_id}/(\w+)"', page)) == buttons
    shown = [verb.button for verb in TABLE.values() if verb.name in buttons and verb.button]
    assert all(f' title="{button.hint}"' in page for button in shown if button.hint)
    assert bool(re.search(r'href="/trials/trl_\w+/stop"', page)) is not over
    assert (f'href="/sweeps/{sweep_id}/delete"' in page) is over


@pytest.mark.parametrize("verb", VERBS, ids=str)
def test_a_verb_for_nobody_is_not_found(served: Served, giver: Giver, verb: Verb) -> None:
    odd = NOBODY._replace(sweep="swp_%00", trial="trl_%00")
    for target in (NOBODY, odd):
        assert giver.by_route(verb, target).json()["code"] == "NOT_FOUND"
        if verb.page:
            assert giver.by_page(verb, target).status_code == 404
    with Client(served.url, served.token) as client, pytest.raises(NotFound):
        verb.ask(client, NOBODY)
    assert giver.sweeps(*NOBODY.named(verb.command).split()).code == 5


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb.page], ids=str)
def test_strangers_and_foreign_pages_give_no_verb(served: Served, visitor: httpx.Client, verb: Verb) -> None:
    target = verb.given(served)
    before = facts(served.store, target), served.store.last_event(target.sweep)
    address = target.named(verb.page or "")
    with served.browser() as stranger:
        unsigned = stranger.post(address)
    assert (unsigned.status_code, unsigned.headers["Location"][:6]) == (303, "/login")
    for origin in ("null", "http://127.0.0.1:1", "http://localhost", "https://evil.example", "http://127.0.0.1.evil"):
        answer = visitor.post(address, data=dict(verb.form), headers={"Origin": origin})
        assert (answer.status_code, answer.json()["code"]) == (403, "FOREIGN_ORIGIN"), origin
    assert (facts(served.store, target), served.store.last_event(target.sweep)) == before
