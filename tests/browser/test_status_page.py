"""The status page in a browser, during a real sweep: it signs in by the printed link, lives, and misses nothing."""

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect

from sweep_service.auth import read_token
from sweep_service.client import Client
from sweep_service.serve import Stack, free_port
from sweep_service.settings import Settings
from sweep_service.sweep.records import SweepState
from tests.sweep_stack import SMALL_TRAINING, command_of, processes_of
from tests.waiting import wait_until

KEYS = ("entropy", "reward/mean", "eval/avg_at_k")
DRAWN = """() => Object.fromEntries([...document.querySelectorAll('.chart')].map((chart) => {
  const paths = [...chart.querySelectorAll('.scatterlayer .trace')].map((trace) => trace.querySelector('.js-line'));
  const moves = paths.map((path) => (path?.getAttribute('d') ?? '').split(/[ML]/).length - 1);
  const lines = (chart.data ?? []).filter((trace) => trace.meta);
  return [chart.dataset.key, Object.fromEntries(lines.map(({ meta, x, y }, i) => [meta, { x, y, moves: moves[i] }]))];
}))"""
FIT = """[...document.querySelectorAll('.chart')].every((chart) =>
  chart.querySelector('.main-svg').getBoundingClientRect().width < chart.clientWidth + 1)"""
ONE_POINT = """drawChart(document.querySelector('.chart'), [{
  config: 'cfg', name: 'a', stroke: 'red', dash: 'solid', x: [40], mean: [1], low: [1], high: [1], n: [1]}], 40)"""

Drawn = dict[str, dict[str, dict[str, Any]]]


@dataclass
class Relay:
    """A port that leads to the API, and can be cut: every connection through it breaks, and new ones are refused."""

    target: int
    port: int = field(default_factory=free_port)
    _open: list[socket.socket] = field(default_factory=list[socket.socket])
    _listener: socket.socket | None = None

    def join(self) -> None:
        """Let connections through."""
        self._listener = socket.create_server(("127.0.0.1", self.port), reuse_port=False)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def cut(self) -> None:
        """Break everything."""
        if self._listener is not None:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
                self._open += [near, far]
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=_pass_on, args=(one, other), daemon=True).start()


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while part := one.recv(65536):
            other.sendall(part)
    for end in (one, other):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The whole service; nothing of it may be left at the end."""
    home = tmp_path_factory.mktemp("s") / "h"
    with Stack(Settings(home=home, port=free_port()), cpus=2, gpus=0, say=lambda _: None) as running:
        yield running
    assert [command for process in processes_of(home) if (command := command_of(process))] == []


@pytest.fixture
def relay(stack: Stack) -> Iterator[Relay]:
    """A way to the API that can break."""
    relay = Relay(stack.settings.port)
    relay.join()
    yield relay
    relay.cut()


@pytest.fixture
def client(stack: Stack) -> Iterator[Client]:
    with Client(stack.settings.url, read_token(stack.settings.token_file)) as client:
        yield client


@dataclass
class Visit:
    """A page that is watched."""

    page: Page
    context: BrowserContext
    requests: list[str] = field(default_factory=list[str])
    errors: list[str] = field(default_factory=list[str])

    def note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def drawn(self) -> Drawn:
        """What each line of each chart was drawn from."""
        return self.page.evaluate(DRAWN)

    def count(self) -> int:
        """Points drawn in all charts."""
        return sum(len(line["x"]) for lines in self.drawn().values() for line in lines.values())


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Visit]]:
    """Open an address in a browser of its own."""
    contexts: list[BrowserContext] = []

    def go(address: str, **options: Any) -> Visit:
        context = browser.new_context(**options)
        contexts.append(context)
        visit = Visit(context.new_page(), context)
        visit.page.on("console", visit.note)
        visit.page.on("pageerror", lambda error: visit.errors.append(str(error)))
        visit.page.on("request", lambda request: visit.requests.append(request.url))
        visit.page.goto(address)
        return visit

    yield go
    for context in contexts:
        context.close()


def spec(name: str, steps: int, **changes: Any) -> dict[str, Any]:
    """Two points and their baseline on two seeds."""
    training = SMALL_TRAINING | {
        "steps": steps,
        "evaluation": {"every_steps": 16, "samples_per_problem": 2, "pass_k": 2},
    }
    space = {"loss.beta1": [0, 0.5], "loss.beta2": 1}
    return {
        "name": name,
        "labels": {"why": "<img src=x onerror=alert(1)>"},
        "training": training,
        "space": space,
        "seeds": {"tune": [0, 1]},
        "baselines": {"dapo": False},
    } | changes


def stored(client: Client, sweep_id: str) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Every step of every config's mean curve in the store, by metric and config."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = {key: {} for key in KEYS}
    for curve in client.config_curves(sweep_id, KEYS):
        rows = zip(curve.steps, curve.mean, strict=True)
        found[curve.key][curve.config_id] = [(step, mean) for step, mean in rows if mean is not None]
    return found


def assert_complete(drawn: Drawn, truth: dict[str, dict[str, list[tuple[float, float]]]]) -> None:
    """Each line was drawn from the store's points: all of them, once, in order."""
    assert drawn.keys() == truth.keys()
    for key, lines in truth.items():
        assert drawn[key].keys() == lines.keys()
        for config, points in lines.items():
            line = drawn[key][config]
            assert line["x"] == [step for step, _ in points]
            assert line["y"] == pytest.approx([mean for _, mean in points], rel=1e-5)
            assert len(points) == 1 or line["moves"] == len(points)


def test_curves_have_no_gap_after_a_cut_connection(
    stack: Stack, relay: Relay, client: Client, visit: Callable[..., Visit]
) -> None:
    sweep = client.submit(spec("live", steps=160))
    through = stack.page(sweep.id).replace(f":{stack.settings.port}/", f":{relay.port}/")
    opened = visit(through)
    page = opened.page
    page.wait_for_url(f"**/sweeps/{sweep.id}")
    assert "#" not in page.url
    heading = page.get_by_role("heading", name="live", exact=False).first
    expect(heading).to_contain_text("RUNNING", timeout=90_000)
    expect(page.locator("#connection")).to_have_text("Live")

    wait_until("curves are drawn", lambda: opened.count() > 20)
    before = opened.count()
    wait_until("curves grow", lambda: opened.count() > before)
    assert opened.errors == []

    relay.cut()
    expect(page.locator("#connection")).to_contain_text("trying again", timeout=30_000)
    before, had = len(list(client.events(sweep.id))), opened.count()
    wait_until("the sweep goes on unseen", lambda: len(list(client.events(sweep.id))) > before + 3)
    assert opened.count() == had
    relay.join()
    expect(page.locator("#connection")).to_have_text("Live", timeout=30_000)
    wait_until("curves grow again", lambda: opened.count() > had)

    expect(heading).to_contain_text("SUCCEEDED", timeout=180_000)
    expect(page.get_by_role("link", name="Report", exact=True)).to_be_visible()
    expect(page.locator(".verdict")).to_be_visible(timeout=30_000)
    assert_complete(opened.drawn(), stored(client, sweep.id))
    assert page.evaluate(FIT), "a chart is wider than its place"
    assert page.locator("#ended tr[id]").count() == 6
    assert page.locator("#running tr[id], #waiting tr[id]").count() == 0
    assert all("ERR_" in error for error in opened.errors), "other errors than those of the cut"
    assert {urlsplit(url).netloc for url in opened.requests} == {f"127.0.0.1:{relay.port}"}

    page.get_by_role("link", name="Report", exact=True).click()
    expect(page).to_have_title(re.compile("live"))


def test_cancelling_asks_first_and_then_stops_the_sweep(
    stack: Stack, client: Client, visit: Callable[..., Visit]
) -> None:
    sweep = client.submit(spec("unwanted", steps=240, seeds={"tune": list(range(10))}))
    opened = visit(stack.page(sweep.id))
    page = opened.page
    heading = page.get_by_role("heading", name="unwanted", exact=False).first
    expect(heading).to_contain_text("RUNNING", timeout=90_000)
    wait_until("curves are drawn", lambda: opened.count() > 5)
    button = page.get_by_role("button", name="Yes, cancel the sweep")
    expect(button).to_be_hidden()
    page.get_by_text("Cancel this sweep…").press("Enter")
    button.press("Enter")
    expect(heading).to_contain_text("CANCELLED", timeout=60_000)
    assert client.get(sweep.id).state is SweepState.CANCELLED
    expect(page.locator("#ended tr[id]")).to_have_count(30)
    expect(page.get_by_text("Cancel this sweep…")).to_have_count(0)
    expect(page.locator("#connection")).to_contain_text("has ended")
    assert_complete(opened.drawn(), stored(client, sweep.id))
    assert opened.errors == []
    assert {urlsplit(url).netloc for url in opened.requests} == {f"127.0.0.1:{stack.settings.port}"}


def test_signing_in_by_hand_and_out_again(stack: Stack, visit: Callable[..., Visit]) -> None:
    opened = visit(stack.settings.url)
    page, token = opened.page, read_token(stack.settings.token_file)
    expect(page).to_have_url(re.compile("/login"))
    page.get_by_label("Token").fill("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("not this server's token")
    opened.errors.clear()  # Chromium logs the 401 of the wrong token
    page.get_by_label("Token").fill(token)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Sweeps")).to_be_visible()
    assert page.evaluate("document.cookie") == ""
    assert token not in str(opened.context.cookies())
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(re.compile("/login"))
    page.goto(stack.settings.url)
    expect(page).to_have_url(re.compile("/login"))
    assert opened.errors == []


def test_a_wrong_link_says_so(stack: Stack, visit: Callable[..., Visit]) -> None:
    opened = visit(f"{stack.settings.url}/login#signin_wrong")
    expect(opened.page.get_by_role("alert")).to_contain_text("not this server's token")
    assert "#" not in opened.page.url
    opened.page.goto(stack.page())  # on the same page, so nothing is loaded anew
    expect(opened.page.get_by_role("heading", name="Sweeps")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_pages_fit_and_charts_can_be_read_with_keys(
    stack: Stack, client: Client, visit: Callable[..., Visit], width: int, scheme: str
) -> None:
    newest = next(iter(client.sweeps([SweepState.CANCELLED, SweepState.SUCCEEDED])))
    opened = visit(stack.page(newest.id), viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = opened.page
    expect(page.locator("path.js-line").first).to_be_attached()
    for path in (f"/sweeps/{newest.id}", "/", f"/sweeps/{newest.id}/spec"):
        page.goto(stack.settings.url + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.goto(f"{stack.settings.url}/sweeps/{newest.id}")
    chart, entries = page.locator(".chart").first, page.locator("#legend input")
    expect(chart.locator("path.js-line").first).to_be_attached()
    assert page.locator("#legend").evaluate("legend => legend.scrollHeight <= legend.clientHeight + 1")
    page.evaluate("document.querySelector('main').style.maxWidth = '330px'")  # as when a scrollbar takes some of it
    wait_until("the charts are as narrow", lambda: page.evaluate(FIT))
    page.evaluate("document.querySelector('main').style.maxWidth = ''")
    shown = chart.locator("path.js-line").count()
    chart.focus()
    page.keyboard.press("ArrowRight")
    tooltip = chart.locator(".hoverlayer")
    expect(tooltip).to_contain_text("step 1")
    expect(tooltip.locator(".traces")).to_have_count(shown)
    page.keyboard.press("Escape")
    expect(tooltip).not_to_contain_text("step 1")
    entries.first.press("Space")
    expect(chart.locator("path.js-line")).to_have_count(shown - 1)
    expect(entries.first).not_to_be_checked()
    assert page.locator("img[src=x]").count() == 0
    page.evaluate(ONE_POINT)
    expect(chart.locator(".point")).to_have_count(1)
    assert opened.errors == []
