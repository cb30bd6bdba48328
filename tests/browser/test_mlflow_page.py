"""What people see in MLflow at the first look. A failure here means most likely that MLflow has renamed a setting."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from sweep_service.auth import ensure_token
from sweep_service.settings import Settings
from sweep_service.store import Store, open_store
from sweep_service.sweep.links import curves_link, run_link
from sweep_service.tracking.credentials import BearerToken
from sweep_service.tracking.mlflow_api import MlflowApi
from sweep_service.tracking.mlflow_door import SIGN_IN, new_ticket
from sweep_service.tracking.projector import Projector
from sweep_service.worker.reports.contents import build_report
from tests import stored_sweeps as sweeps
from tests.integration.tracking.test_projector import carry_all, mlflow_server
from tests.sweep_stack import unused_port
from tests.waiting import wait_until

FEW = ("baseline β1=0 β2=0", "β1=0 β2=1", "β1=0.5 β2=1", "β1=1 β2=1")
"""Configs of the sweep that has ended, as many as a legend holds."""
MAIN = ("entropy", "benchmark/mean", "reward/mean", "eval/avg_at_k")
COLORS = "lines => new Set(lines.map((line) => line.style.stroke)).size"
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 400, "height": 850}


@dataclass(frozen=True)
class Mlflow:
    """A server behind our door, which shows a sweep that has ended and a larger one that has begun."""

    url: str
    token: str
    ended: str
    begun: str
    trial: str

    def is_up(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health", headers=self.bearer, trust_env=False).is_success
        except httpx.TransportError:
            return False

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mlflow]:
    folder, url = tmp_path_factory.mktemp("mlflow"), f"http://127.0.0.1:{unused_port()}"
    secret, store = folder / "token", open_store(f"sqlite:///{folder}/store.db")
    token = ensure_token(secret)
    with ExitStack() as opened:
        opened.callback(store.close)
        door = {"SWEEPS_MLFLOW_TOKEN_FILE": str(secret), "MLFLOW_DISABLE_TELEMETRY": "true"}
        opened.enter_context(mlflow_server(folder, url, "--app-name", "sweeps", **door))
        ended, begun = ended_sweep(store, url), begun_sweep(store)
        wait_until("MLflow answers", Mlflow(url, token, "", "", "").is_up)
        with closing(Projector(store, MlflowApi(url, BearerToken(token)))) as projector:
            carry_all(projector, store)
        links = [curves_link(".", store.get_sweep(sweep)) for sweep in (ended, begun)]
        links.append(run_link(".", store.list_trials(ended)[0].mlflow_run_id))
        yield Mlflow(url, token, *(urlsplit(link or "").fragment for link in links))


def ended_sweep(store: Store, url: str) -> str:
    """Store a sweep of four configs with curves, scores and a final report."""
    space, names = {"loss.beta1": [0, 0.5, 1], "loss.beta2": [1]}, ["arithmetic"]
    sweep, fence = sweeps.start(store, space=space, benchmarks={"names": names, "of": "all"})
    for trial in store.list_trials(sweep.id):
        sweeps.run_trial(store, fence, trial)
    for number, evaluation in enumerate(sweeps.add_missing_evaluations(store, fence)):
        sweeps.measure(store, fence, evaluation, {"arithmetic": number % 4})
    sweeps.finish(store, fence)
    store.put_report(sweep.id, *build_report(store, sweep.id, Settings(mlflow_url=url))[:2])
    store.release_lease(fence)
    return sweep.id


def begun_sweep(store: Store) -> str:
    """Store a sweep of six configs whose first trial has just begun."""
    sweep, fence = sweeps.start(store, name="large", space={"loss.beta1": [0, 0.2, 0.4, 0.6, 0.8], "loss.beta2": [1]})
    store.start_attempt(fence, store.list_trials(sweep.id)[0].id, "/data/{attempt}")
    return sweep.id


Visit = Callable[..., Page]


@pytest.fixture
def visit(browser: Browser, mlflow: Mlflow) -> Iterator[Visit]:
    """Come to a place in MLflow as the status page leads there, in a browser of its own or in this one."""
    contexts: list[BrowserContext] = []

    def go(place: str, context: BrowserContext | None = None, **options: Any) -> Page:
        if context is None:
            context = browser.new_context(**options)
            contexts.append(context)
        page = context.new_page()
        fields = {"ticket": new_ticket(mlflow.token, time.time()), "to": f"#{place}"}
        inputs = "".join(f'<input name="{name}" value="{escape(value)}">' for name, value in fields.items())
        page.set_content(f'<form method="post" action="{mlflow.url}{SIGN_IN}">{inputs}</form>')
        page.evaluate("document.forms[0].submit()")
        page.wait_for_url(f"{mlflow.url}/#/**")
        return page

    yield go
    for context in contexts:
        context.close()


def card(page: Page, metric: str) -> Locator:
    cards = page.get_by_test_id("experiment-view-compare-runs-card")
    return cards.filter(has=page.get_by_text(metric, exact=True))


def assert_whole(text: Locator, inside: Locator) -> None:
    """A text is not cut, and lies inside of an element."""
    expect(text).to_be_visible()
    assert text.evaluate("element => element.scrollWidth <= element.clientWidth || !element.clientWidth")
    inner, outer = text.bounding_box(), inside.bounding_box()
    assert inner is not None
    assert outer is not None
    assert inner["y"] >= outer["y"]
    assert inner["y"] + inner["height"] <= outer["y"] + outer["height"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_first_look_shows_the_four_main_charts_with_title_and_legend(
    mlflow: Mlflow, visit: Visit, scheme: str
) -> None:
    page = visit(mlflow.ended, viewport=DESKTOP, color_scheme=scheme)
    for metric in MAIN:
        chart = card(page, metric)
        expect(chart.locator("path.js-line").first).to_be_visible()
        assert chart.locator("path.js-line").evaluate_all(COLORS) == len(FEW)
        box = chart.bounding_box()
        assert box is not None
        assert box["width"] > 450
        assert box["y"] + box["height"] < DESKTOP["height"]
        assert_whole(chart.get_by_text(metric, exact=True), chart)
        for name in FEW:
            legend = chart.get_by_text(f"{name} ({metric})", exact=True)
            assert_whole(legend, legend.locator("xpath=../.."))
    banner = page.locator('[data-component-id="mlflow.experiment_page.shared_view.banner"]')
    expect(banner).to_have_count(1)
    expect(banner).to_be_hidden()


def test_more_configs_than_a_legend_holds_are_listed_and_charts_wait_for_their_curves(
    mlflow: Mlflow, visit: Visit
) -> None:
    page = visit(mlflow.begun, viewport=DESKTOP)
    expect(page.get_by_role("link", name="s0 baseline β1=0 β2=0 tune")).to_be_visible()
    for metric in ("entropy", "reward/mean", "eval/avg_at_k"):
        expect(card(page, metric)).to_contain_text("No chart data")
        box = card(page, metric).bounding_box()
        assert box is not None
        assert box["width"] > 300


def test_a_phone_shows_the_charts_alone(mlflow: Mlflow, visit: Visit) -> None:
    page = visit(mlflow.begun, viewport=PHONE)
    chart = card(page, "entropy")
    expect(chart).to_be_visible()
    box = chart.bounding_box()
    assert box is not None
    assert box["width"] > 300
    assert box["x"] + box["width"] < PHONE["width"]
    assert box["y"] < PHONE["height"]


def test_the_assistant_which_is_not_served_stays_closed_or_is_closed_again(
    browser: Browser, mlflow: Mlflow, visit: Visit
) -> None:
    context = browser.new_context(viewport=DESKTOP, extra_http_headers=mlflow.bearer)
    page = context.new_page()
    page.goto(f"{mlflow.url}/#{mlflow.ended}")  # not as the status page leads there
    welcome = "Welcome to MLflow Assistant"
    expect(page.get_by_text(welcome)).to_be_visible()
    kept = page.evaluate("Object.keys(localStorage)")
    page = visit(mlflow.ended, context)
    button = page.locator("button[data-assistant-ui]")
    expect(button).to_have_count(1)
    expect(button).to_be_hidden()
    expect(page.get_by_text(welcome)).to_have_count(0)
    assert {"mlflow.assistant.fab.autoOpenedOnFirstLoad_v1", "mlflow.assistant.panelOpen_v1"} <= {*kept}
    context.close()
    expect(card(visit(mlflow.ended), MAIN[0])).to_be_visible()


def test_a_link_to_a_run_shows_it_among_trainings(mlflow: Mlflow, visit: Visit) -> None:
    page = visit(mlflow.trial)
    expect(page.get_by_role("heading", name="s0 baseline β1=0 β2=0 tune")).to_be_visible()
    expect(page.get_by_role("link", name="Runs", exact=True).first).to_be_visible()
    expect(page.get_by_role("link", name="Evaluations", exact=True)).to_have_count(0)


def test_the_home_page_leads_to_the_sweeps_and_advertises_nothing(mlflow: Mlflow, visit: Visit) -> None:
    page = visit("/")
    expect(page.get_by_role("link", name="sweeps", exact=True)).to_be_visible()
    expect(page.get_by_text("UI telemetry")).to_have_count(0)
    expect(page.get_by_text("Start Demo")).to_have_count(0)
