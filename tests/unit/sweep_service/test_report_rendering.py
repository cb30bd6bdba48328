"""The renderings against hostile text and the outside world."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from sweep_service.records import Config, SweepState, Trial, TrialState
from sweep_service.report import Report, build, render_html, render_markdown
from sweep_service.report.picture import render_png
from tests.unit.sweep_service.report_sweeps import succeed, sweep_inputs

CANARIES = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "[click](javascript:alert(1)) | ![x](http://evil.example/x.png) `code`",
    "{{ 7*7 }} {% raw %}",
    "\u2028alert(1)\u2029",
)


class Page(HTMLParser):
    """What a browser would see in the page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self._inside: dict[str, str | None] | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = dict(attrs) if tag == "script" else None

    def handle_data(self, data: str) -> None:
        if self._inside is not None:
            self.scripts.append((self._inside, data))
            self._inside = None


@pytest.fixture(scope="module")
def hostile() -> Report:
    """A report in which every text that a user or a trainer can set is a canary."""

    def fails(config: Config, trial: Trial) -> Trial:
        if trial.number % 3 == 0:
            message = CANARIES[trial.number % len(CANARIES)]
            return trial.model_copy(update={"state": TrialState.FAILED, "step": 8, "message": message})
        return succeed(config, trial)

    inputs = sweep_inputs({"labels": {f"l{i}": text for i, text in enumerate(CANARIES)}}, fate=fails)
    sweep = inputs.sweep.model_copy(update={"message": " ".join(CANARIES), "state": SweepState.FAILED})
    configs = tuple(
        config.model_copy(
            update={
                "params": config.params | {"task.name": CANARIES[config.number], 'x"><b>': config.number},
                "training": config.training | {"note": "\n".join(CANARIES)},
            }
        )
        for config in inputs.configs
    )
    hostile = {"sweep": sweep, "configs": configs, "versions": {CANARIES[0]: CANARIES[1]}}
    return build(replace(inputs, **hostile))


def test_hostile_text_makes_no_element_and_no_script(hostile: Report) -> None:
    page = render_html(hostile).decode()
    plain = Page(render_html(build(sweep_inputs())).decode())
    found = Page(page)
    assert {tag for tag, _ in found.elements} <= {tag for tag, _ in plain.elements} | {"li", "ul", "a", "section"}
    assert len(found.scripts) == 3
    assert not [attrs for _, attrs in found.elements if any(name.startswith("on") for name in attrs)]
    figures = json.loads(found.scripts[0][1])
    assert "<script" not in json.dumps(figures)


def test_hostile_text_is_inert_in_markdown(hostile: Report) -> None:
    text = render_markdown(hostile).decode()
    outside = re.sub(r"(?ms)^(`{3,})yaml.*?^\1$", "", text)
    assert "<script" not in outside
    assert "<img" not in outside
    assert "](" not in outside.replace("\\](", "").replace("\\]\\(", "")
    for line in outside.splitlines():
        if line.startswith("|"):
            assert line.count("|") - line.count("\\|") in (5, 6, 10)


def test_the_page_loads_nothing() -> None:
    found = Page(render_html(build(sweep_inputs())).decode())
    for tag, attrs in found.elements:
        assert "src" not in attrs, tag
        if tag == "link":
            assert attrs["href"] == "data:,"
        if tag == "a":
            assert (attrs["href"] or "").startswith(("#", "http://127.0.0.1:5000/"))


def test_only_our_own_scripts_may_run() -> None:
    found = Page(render_html(build(sweep_inputs())).decode())
    policy = next(attrs["content"] for tag, attrs in found.elements if attrs.get("http-equiv"))
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy
    code = [text for attrs, text in found.scripts if attrs.get("type") != "application/json"]
    assert len(code) == 2
    for text in code:
        assert f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" in policy


def test_the_page_is_below_ten_megabytes_and_has_every_figure() -> None:
    page = render_html(build(sweep_inputs()))
    assert len(page) < 10_000_000
    found = Page(page.decode())
    places = {attrs["data-figure"] for _, attrs in found.elements if "data-figure" in attrs}
    figures = {figure["id"]: figure for figure in json.loads(found.scripts[0][1])}
    assert places == set(figures)
    assert {"seeds", "entropy", "eval/avg_at_k", "reward/mean", "share/na_lp", "share/pa_lp"} <= places
    seeds = [trace for trace in figures["entropy"]["data"] if trace.get("meta", {}).get("seed")]
    assert len(seeds) == 26


def test_every_colour_of_a_figure_is_a_variable_of_the_style_sheet() -> None:
    page = render_html(build(sweep_inputs())).decode()
    figures = Page(page).scripts[0][1]
    names = set(re.findall(r'"@(\w+)"', figures))
    assert names
    assert names <= set(re.findall(r"--(\w+):", page))


def test_the_picture_is_a_png_and_equal_for_equal_reports(hostile: Report) -> None:
    report = build(sweep_inputs())
    first = render_png(report)
    assert first.startswith(b"\x89PNG")
    assert first == render_png(report)
    assert render_png(hostile).startswith(b"\x89PNG")
