"""The report's page in a real browser, with the network off."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from sweep_service.report import Report
from sweep_service.report.build import build
from sweep_service.report.render.csv import render_csv
from sweep_service.report.render.html import render_html
from tests.browser.conftest import Open
from tests.unit.sweep_service.report.report_parts import ALL, hostile_report, with_every_part, with_many_trials
from tests.unit.sweep_service.report.report_sweeps import sweep_inputs

GRID: dict[str, Any] = {"space": {"loss.beta1": [0.0, 0.5, 1.0], "loss.beta2": [0.5, 1.0]}}


@pytest.fixture(scope="module")
def report() -> Report:
    return with_every_part(build(sweep_inputs(GRID)))


@pytest.fixture(scope="module")
def page(report: Report) -> bytes:
    return render_html(report)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_everything_is_drawn_and_nothing_overflows(page: bytes, visit: Open, width: int, scheme: str) -> None:
    opened = visit(page, viewport={"width": width, "height": 800}, color_scheme=scheme)
    opened.page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    opened.scroll_through()
    plots = opened.page.locator("[data-figure]")
    assert plots.count() >= 10
    for number in range(plots.count()):
        plots.nth(number).scroll_into_view_if_needed()
        expect(plots.nth(number).locator(".main-svg").first).to_be_attached()
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    wide = opened.page.locator("section").evaluate_all(
        "parts => parts.filter((part) => part.scrollWidth > part.clientWidth + 1).map((part) => part.id)"
    )
    assert wide == []
    opened.assert_clean()


CUT = """elements => elements.filter((e) => e.scrollWidth > e.clientWidth + 1 || (e.matches(".legend, .cautions *")
  && e.scrollHeight > e.clientHeight + 2)).map((e) => `${e.className}: ${e.textContent.trim().slice(0, 40)}`)"""


MANY: dict[str, Any] = GRID["space"] | {"loss.epsilon_low": [0.18, 0.22], "loss.epsilon_high": [0.26, 0.31]}


@pytest.mark.parametrize(
    "made",
    [lambda: with_every_part(build(sweep_inputs(GRID))), hostile_report, lambda: build(sweep_inputs({"space": MANY}))],
    ids=["every part", "hostile texts", "many long names"],
)
def test_on_a_phone_nothing_is_cut(made: Callable[[], Report], visit: Open) -> None:
    opened = visit(render_html(made()), viewport={"width": 400, "height": 800})
    opened.page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    assert opened.page.locator(".scroll, .legend, .cautions summary span, .plain span").evaluate_all(CUT) == []
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 400
    cell = opened.page.locator("#configs td[data-label=difference]:visible").first
    assert cell.evaluate("cell => cell.getBoundingClientRect().right") <= 400


def test_what_is_printed_has_its_figures_in_light_colours_and_as_wide_as_paper(page: bytes, visit: Open) -> None:
    opened = visit(page, viewport={"width": 1280, "height": 500}, color_scheme="dark")
    expect(opened.page.locator("[data-figure=seeds] .main-svg").first).to_be_attached()
    opened.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    drawn = opened.page.locator("[data-figure]").evaluate_all(
        "figures => figures.filter((e) => e.checkVisibility()).map((e) => [e.clientWidth, "
        "e.querySelector('.main-svg')?.getBoundingClientRect().width, e.layout?.font.color])"
    )
    assert len(drawn) >= 4
    assert all(drawn_width <= width <= 690 for width, drawn_width, _ in drawn)
    assert {colour for _, _, colour in drawn} == {"#1b1f27"}
    opened.page.evaluate("dispatchEvent(new Event('afterprint'))")
    seeds = opened.page.locator("[data-figure=seeds]")
    expect(seeds.locator(".main-svg").first).to_be_attached()
    assert seeds.evaluate("e => [e.layout.font.color, e.clientWidth > 1000]") == ["#e8ebf0", True]
    opened.assert_clean()


def test_hostile_texts_do_nothing_but_show(visit: Open) -> None:
    opened = visit(render_html(hostile_report()), viewport={"width": 1000, "height": 800})
    opened.page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    opened.scroll_through()
    assert opened.page.locator("img, svg[onload], [onerror], textarea, iframe, object").count() == 0
    assert opened.page.locator("a[href^='javascript']").count() == 0
    for line in ALL.splitlines():
        assert opened.page.get_by_text(line, exact=False).count() > 0, line
    for link in opened.page.locator(".bar-top a").all():
        link.click()
    opened.assert_clean()


def test_nothing_but_our_own_scripts_can_run(page: bytes, visit: Open) -> None:
    opened = visit(page)
    opened.page.evaluate(
        "const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s)"
    )
    assert opened.page.evaluate("window.ran") is None
    assert any("Content Security Policy" in error for error in opened.errors)


def test_a_figure_is_drawn_when_it_comes_near(page: bytes, visit: Open) -> None:
    opened = visit(page, viewport={"width": 1280, "height": 500})
    drawn = opened.page.locator("[data-figure] .main-svg:first-child")
    before = drawn.count()
    opened.scroll_through()
    expect(opened.page.locator("#curves .main-svg").first).to_be_attached()
    assert before < drawn.count()


def test_the_legend_hides_configs_and_shows_seeds(page: bytes, visit: Open) -> None:
    opened = visit(page, viewport={"width": 1280, "height": 800})
    figure = opened.page.locator("[data-figure='eval/avg_at_k']")
    figure.scroll_into_view_if_needed()
    expect(figure.locator(".main-svg").first).to_be_attached()
    lines = "element => element.data.length"
    full = figure.evaluate(lines)
    seeds, config = opened.page.locator("[data-seeds]"), opened.page.locator("[data-config]").first
    was = seeds.get_attribute("aria-pressed")
    seeds.click()
    assert seeds.get_attribute("aria-pressed") != was
    assert figure.evaluate(lines) != full
    seeds.click()
    config.click()
    hidden = config.get_attribute("data-config")
    assert hidden not in figure.evaluate("element => element.data.map((trace) => trace.meta?.config)")
    opened.page.locator("[data-show=all]").click()
    assert hidden in figure.evaluate("element => element.data.map((trace) => trace.meta?.config)")
    config.dblclick()
    assert set(figure.evaluate("element => element.data.map((trace) => trace.meta?.config)")) <= {hidden, None}
    opened.assert_clean()


def test_figures_follow_the_colour_scheme(page: bytes, visit: Open) -> None:
    opened = visit(page, color_scheme="light")
    figure = opened.page.locator("[data-figure='entropy']")
    figure.scroll_into_view_if_needed()
    expect(figure.locator(".main-svg").first).to_be_attached()
    ink = "element => element.layout.font.color"
    light = figure.evaluate(ink)
    opened.page.emulate_media(color_scheme="dark")
    opened.page.wait_for_function(
        "light => document.querySelector(\"[data-figure='entropy']\").layout.font.color !== light", arg=light
    )
    names = 'element => JSON.stringify([element.data, element.layout]).match(/"@\\w+"/g)'
    assert figure.evaluate(names) is None
    opened.assert_clean()


def test_a_click_on_a_head_sorts_and_missing_values_stay_last(page: bytes, visit: Open, report: Report) -> None:
    opened = visit(page, viewport={"width": 1280, "height": 800})
    table = opened.page.locator("#configs table")
    head = table.locator("th", has_text=re.compile("^Confirm"))
    column = head.evaluate("head => head.cellIndex")

    def values() -> list[float | None]:
        texts = table.locator("tbody tr").evaluate_all(f"rows => rows.map((row) => row.cells[{column}].dataset.v)")
        return [float(text) if text else None for text in texts]

    means = sorted((row.confirm.mean for row in report.configs if row.confirm), reverse=True)
    head.locator("button").click()
    assert [value for value in values() if value is not None] == pytest.approx(means)
    head.locator("button").click()
    assert [value for value in values() if value is not None] == pytest.approx(means[::-1])
    assert head.get_attribute("aria-sort") == "ascending"
    missing = [row for row in report.configs if not row.confirm]
    assert missing
    assert all(value is None for value in values()[len(means) :])
    assert len(values()) == len(means) + len(missing)


def test_the_data_can_be_saved(page: bytes, visit: Open, report: Report) -> None:
    opened = visit(page, accept_downloads=True)
    for name, content in (("configs.csv", render_csv(report, "configs")), ("trials.csv", render_csv(report, "trials"))):
        with opened.page.expect_download() as waiting:
            opened.page.locator(f"#data a[download='{name}']").click()
        assert waiting.value.suggested_filename == name
        assert waiting.value.path().read_bytes() == content
    opened.assert_clean()


def test_the_config_can_be_copied(page: bytes, visit: Open, report: Report) -> None:
    opened = visit(page, permissions=["clipboard-read", "clipboard-write"])
    button = opened.page.locator("[data-copy=yaml]")
    opened.page.locator("summary", has_text="best.yaml").click()
    button.click()
    expect(button).to_have_text("Copied")
    assert report.best is not None
    assert opened.page.evaluate("navigator.clipboard.readText()") == report.best.yaml


def test_a_thousand_trials_are_shown_on_demand(visit: Open, report: Report) -> None:
    opened = visit(render_html(with_many_trials(report, 1000)), viewport={"width": 1280, "height": 800})
    opened.page.locator("#trials > summary").click()
    shown = opened.page.locator("#trials tbody tr:visible")
    assert shown.count() == 200
    opened.page.locator("#warnings summary").click()
    opened.page.locator("#warnings a").click()
    expect(opened.page.locator("#trl_0999")).to_be_in_viewport()
    assert shown.count() == 1000
    opened.assert_clean()


def test_a_link_to_a_folded_trial_opens_the_table(page: bytes, visit: Open, report: Report) -> None:
    opened = visit(page, viewport={"width": 1280, "height": 800})
    expect(opened.page.locator("#trials tbody tr").first).to_be_hidden()
    opened.page.locator("#warnings summary").first.click()
    opened.page.locator("#warnings details[open] a").first.click()
    expect(opened.page.locator(f"#{report.cautions[0].trials[0]}")).to_be_in_viewport()
