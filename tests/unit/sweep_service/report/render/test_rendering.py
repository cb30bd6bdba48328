"""The renderings against hostile text and the outside world."""

import base64
import csv
import hashlib
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from sweep_service.report import Report
from sweep_service.report.build import build
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.formatting import interval, no_more, signed
from sweep_service.report.model import Importance, Outcome
from sweep_service.report.parts.best_config import FILE_NAME
from sweep_service.report.render import views
from sweep_service.report.render.bars import axis, scale
from sweep_service.report.render.csv import Table, inert, render_csv
from sweep_service.report.render.embedding import embedded
from sweep_service.report.render.html import render_html
from sweep_service.report.render.markdown import render_markdown
from sweep_service.report.render.sections import SECTIONS, sections_of
from sweep_service.report.render.views import column_notes, comparator_name, compared, deltas, reference, reference_name
from sweep_service.sweep.records import Stage, SweepState
from tests.unit.sweep_service.report.report_benchmarks import measured_inputs
from tests.unit.sweep_service.report.report_parts import CANARIES, OBEYED, check_inert, hostile_report, with_every_part
from tests.unit.sweep_service.report.report_sweeps import on_seeds, sweep_inputs
from tests.unit.sweep_service.report.report_worlds import scored


class Page(HTMLParser):
    """What a browser would see in the page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.texts: list[str] = []
        self.open_texts: list[str] = []
        """The text that is shown before anything is unfolded."""
        self._folded = 0
        self._inside: dict[str, str | None] | None = None
        self._styling = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = dict(attrs) if tag == "script" else None
        self._styling = tag == "style"
        self._folded += tag == "details"

    def handle_endtag(self, tag: str) -> None:
        self._folded -= tag == "details"

    def handle_data(self, data: str) -> None:
        if self._inside is not None:
            self.scripts.append((self._inside, data))
            self._inside = None
        elif not self._styling:
            self.texts.append(data)
            self.open_texts += [] if self._folded else [data]


def unpacked(text: str) -> list[dict[str, Any]]:
    """The figures inside a page, as its script sees them."""
    packed = json.loads(text)

    def whole(value: Any) -> Any:
        if isinstance(value, dict):
            return whole(packed["shared"][value["$"]]) if "$" in value else {k: whole(v) for k, v in value.items()}
        return [whole(item) for item in value] if isinstance(value, list) else value

    return whole(packed["figures"])


@pytest.fixture(scope="module")
def hostile() -> Report:
    return hostile_report()


@pytest.fixture(scope="module")
def plain() -> Report:
    """The same with harmless texts."""
    return with_every_part(build(sweep_inputs()))


def test_hostile_text_makes_no_element_and_no_script(hostile: Report, plain: Report) -> None:
    page, usual = Page(render_html(hostile).decode()), Page(render_html(plain).decode())
    assert {tag for tag, _ in page.elements} <= {tag for tag, _ in usual.elements}
    assert len(page.scripts) == 3
    assert not [attrs for _, attrs in page.elements if any(name.startswith("on") for name in attrs)]
    for _, attrs in page.elements:
        assert (attrs.get("href") or "#").startswith(("#", "http://127.0.0.1:5000/", "data:")), attrs
    assert "<script" not in page.scripts[0][1]


@pytest.mark.parametrize("canary", CANARIES)
def test_hostile_text_is_shown_as_it_is(hostile: Report, canary: str) -> None:
    page = Page(render_html(hostile).decode())
    assert " ".join(canary.split()) in " ".join("".join(page.texts).split())


def test_hostile_text_is_inert_in_markdown(hostile: Report) -> None:
    text = render_markdown(hostile).decode()
    outside = re.sub(r"(?ms)^(`{3,})yaml.*?^\1$", "", text)
    assert outside.count("\n\n|") >= 5
    check_inert(outside)


@pytest.mark.parametrize("table", ["trials", "configs"])
def test_hostile_text_is_inert_in_csv(hostile: Report, table: Table) -> None:
    content = render_csv(hostile, table).decode()
    header, *rows = csv.reader(io.StringIO(content))
    assert len(rows) == len(hostile.trials if table == "trials" else hostile.configs)
    assert {len(row) for row in rows} == {len(header)}
    assert "alert(1)" in content
    assert not OBEYED.search(content)
    for cell in (cell for row in [header, *rows] for cell in row):
        assert not cell.lstrip().startswith(("=", "+", "@")), cell
        if cell.startswith("-"):
            float(cell)


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (-0.5, -0.5),
        (3, 3),
        (None, None),
        (True, "True"),
        ("-0.25", "-0.25"),
        ("+1e-3", "+1e-3"),
        ("plain", "plain"),
        ("", ""),
        ("=1+1", "'=1+1"),
        ("-1+1", "'-1+1"),
        ("+cmd", "'+cmd"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("  =1", "'  =1"),
        ("\uff1d1", "'\uff1d1"),
        (["=1"], "['=1']"),
    ],
)
def test_no_cell_is_a_formula(value: object, cell: object) -> None:
    assert inert(value) == cell


def test_the_page_s_files_are_the_tables() -> None:
    report = build(sweep_inputs())
    links = {
        attrs["download"]: attrs["href"] or ""
        for _, attrs in Page(render_html(report).decode()).elements
        if "download" in attrs
    }
    files = {name: base64.b64decode(link.partition(",")[2]) for name, link in links.items()}
    assert files == {
        "configs.csv": render_csv(report, "configs"),
        "trials.csv": render_csv(report, "trials"),
        FILE_NAME: report.best.yaml.encode(),
    }


def test_deltas_without_a_common_baseline_are_from_the_verdict_s_comparator() -> None:
    space = {"loss.beta1": [0.0, 0.25], "loss.beta2": 1.0, "optimizer.learning_rate": [3e-4, 1e-3]}
    report = build(sweep_inputs({"space": space, "baselines": {"ppo_clip": False, "dapo": False}}))
    against, comparison = reference(report), report.verdict.comparison
    assert (against.id, reference_name(report)) == (comparison.comparator_id, "matched")
    assert deltas(report, Stage.CONFIRM)[comparison.config_id].low == comparison.low


def test_every_part_is_rendered_in_html_and_markdown(plain: Report) -> None:
    page = Page(render_html(plain).decode())
    anchors = {attrs["id"] for _, attrs in page.elements if attrs.get("id")}
    jumps = {
        (attrs["href"] or "")[1:] for tag, attrs in page.elements if tag == "a" and attrs.get("href", "#")[:1] == "#"
    }
    assert jumps <= anchors
    assert {"verdict", "warnings", "best", "configs", "curves", "claims", "exploration", "samples", "data"} <= anchors
    shown, text = " ".join("".join(page.texts).split()), render_markdown(plain).decode()
    for rendering in (shown, text):
        for word in ("UNDECIDED", "+0.012", "[-0.046, +0.079]", "0.021", "sentence 4", "Why not the others"):
            assert word in rendering, word


def test_every_section_stands_once_with_its_title_in_the_page_and_in_the_markdown(hostile: Report) -> None:
    page, sections = render_html(hostile).decode(), sections_of(hostile)
    assert {section.id for section in sections} == {section.id for section in SECTIONS}
    for section in sections:
        assert page.count(f'id="{section.id}"') == 1
        assert re.search(f'id="{section.id}">\\s*<(h2|summary)>{section.heading(hostile)}</', page)
    titles = re.findall(r"(?m)^## (.*)", render_markdown(hostile).decode())
    assert titles == [section.title for section in sections if section.markdown]


def test_importances_are_a_table_even_without_main_effects(plain: Report) -> None:
    importance = Importance(
        names=["a.lr", "a.beta"], fanova=[0.7, 0.2], ped_anova=[0.55, 0.45], num_configs=20, text="Of 20."
    )
    for report in (plain, plain.model_copy(update={"exploration": None})):
        words = "".join(Page(render_html(report.model_copy(update={"importance": importance})).decode()).texts)
        assert "Of 20." in words
        assert "lr0.700.55beta0.200.45" in words


def test_seeds_and_configs_come_right_after_the_verdict_and_exploration_is_open_where_there_is_no_verdict(
    plain: Report,
) -> None:
    explored = plain.model_copy(update={"verdict": plain.verdict.model_copy(update={"outcome": Outcome.EXPLORATORY})})
    for report, order in (
        (plain, ("verdict", "configs", "warnings", "curves", "benchmarks", "best", "details", "exploration", "claims")),
        (explored, ("verdict", "configs", "warnings", "exploration", "curves", "best", "details", "claims")),
    ):
        assert len([section for section in sections_of(report) if section.contents]) <= 6
        page = render_html(report).decode()
        places = [page.index(f'id="{name}"') for name in order]
        assert places == sorted(places)
        assert page.index('id="figure-seeds"') < page.index("<table")
        folded = "Main effects" not in "".join(Page(page).open_texts)
        assert folded == (report is plain)
    titles = re.findall(r"(?m)^## (.*)", render_markdown(plain).decode())
    assert titles[:5] == ["Every config", "Warnings", "Benchmarks", "What to do next", "Every comparison"]


def test_what_few_readers_need_is_folded() -> None:
    shown = "".join(Page(render_html(build(measured_inputs())).decode()).open_texts)
    assert "Policy entropy" in shown
    for title in ("What moved entropy", "Completion length", "Objective against the entropy kept", "pass@k on aime24"):
        assert title not in shown


@pytest.mark.parametrize(
    ("rest", "shown"),
    [("over all runs A is better than B.", "Over all runs A"), ("lr=0.1 leads on the tune seeds.", "lr=0.1 leads")],
)
def test_a_sentence_begins_with_a_capital_unless_a_label_does(rest: str, shown: str) -> None:
    report = build(sweep_inputs())
    verdict = report.verdict.model_copy(update={"sentence": f"{report.verdict.outcome}: {rest}"})
    assert views.sentence(report.model_copy(update={"verdict": verdict})).startswith(shown)


def test_the_headline_stands_in_the_card_and_in_the_table_alone() -> None:
    report = build(sweep_inputs(advantage=0.0512))
    comparison = report.verdict.comparison
    shown = "".join(Page(render_html(report).decode()).open_texts)
    assert shown.count(signed(comparison.difference)) == 3  # the sentence, its scale and the table
    assert shown.count(interval(comparison.low, comparison.high, sign=True)) == 2


@pytest.mark.parametrize(
    ("world", "marks"),
    [
        (lambda: sweep_inputs({"space": {"loss.beta1": 0.0, "loss.beta2": 1.0}}, advantage=0.2), ["best of the space"]),
        (lambda: sweep_inputs({"space": {"loss.beta1": 0.5, "loss.beta2": 1.0}}), ["highest"]),
        (lambda: scored(sweep_inputs(), lambda *_: 0.5), []),
    ],
    ids=["the best config leads", "a comparator leads", "a draw"],
)
def test_what_leads_is_marked_most(world: Callable[[], ReportInputs], marks: list[str]) -> None:
    report = build(world())
    page = render_html(report).decode()
    table = page[page.index('id="configs"') : page.index("</table>")]
    assert re.findall(r'<span class="chip strong">([^<]*)</span>', table) == marks
    rows = re.findall(r'(?s)<tr class="chosen">.*?</tr>', table)
    chosen_leads = marks == ["best of the space"]
    assert [f"#{report.configs[0].number}<" in row for row in rows] == [True] * len(marks)
    assert ('<p class="label">' in page, "The best of the space: " in page) == (chosen_leads, not chosen_leads)


def test_each_config_stands_beside_a_comparator_like_the_verdict_s(plain: Report) -> None:
    verdict = plain.verdict.comparison
    assert len(plain.comparisons) > len(beside := compared(plain))
    assert beside[verdict.config_id] == verdict
    assert {comparison.comparator_role for comparison in beside.values()} == {verdict.comparator_role}
    assert comparator_name(beside) == "the baseline"
    other = next(c for c in plain.comparisons if c.comparator_role is not verdict.comparator_role)
    assert comparator_name(beside | {other.config_id: other}) == "a comparator"


def test_one_loser_does_not_stretch_the_axis_of_intervals() -> None:
    verdict = build(sweep_inputs()).verdict.comparison
    near = verdict.model_copy(update={"low": -0.03, "difference": 0.01, "high": 0.02})
    loser = verdict.model_copy(update={"low": -0.7, "difference": -0.6, "high": -0.5})
    assert axis({"a": near, "b": loser}, near) == (pytest.approx(-0.09), 0.02)
    assert axis({"a": near, "b": loser}, None) == (-0.7, 0.02)
    point = near.model_copy(update={"low": None, "high": None})
    assert axis({"a": point, "b": loser}, point) == (-0.7, 0.01)
    assert axis({}, None) == (0.0, 0.0)


def test_an_interval_beyond_the_axis_ends_in_an_arrow() -> None:
    report = build(sweep_inputs())
    verdict = report.verdict.comparison
    far = {"low": -0.9, "difference": -0.8, "high": -0.7}
    own = [c for c in report.comparisons if c.config_id == verdict.config_id]
    far_ones = [c.model_copy(update=far) for c in report.comparisons if c not in own]
    for comparisons, arrows in ((own, 0), ([*own, *far_ones], 1)):
        page = render_html(report.model_copy(update={"comparisons": comparisons})).decode()
        assert page.count('<i class="beyond">') == arrows


def test_pass_at_k_is_one_section() -> None:
    page = render_html(build(measured_inputs())).decode()
    section = page[page.index('id="figures-passes"') :]
    section = section[: section.index("</details>")]
    for name in ("figure-eval/pass_at_k", "figure-pass-at-k-0", "figure-pass-at-k-1"):
        assert f'id="{name}"' in section
        assert page.count(f'id="{name}"') == 1
    assert section.count("<table") == 2
    assert 'id="figures-passes"' in render_html(build(sweep_inputs())).decode()  # the validation problems alone


def test_a_column_of_benchmarks_says_once_what_all_its_cells_share() -> None:
    table = build(measured_inputs()).benchmarks
    assert column_notes(table) == ["avg@16, 30 problems", "avg@16, 30 problems", "60 problems"]
    first = table.rows[0]
    cells = [first.cells[0].model_copy(update={"num_problems": 29}), *first.cells[1:]]
    rows = [first.model_copy(update={"cells": cells}), *table.rows[1:]]
    assert column_notes(table.model_copy(update={"rows": rows}))[0] == ""


def test_a_report_without_any_optional_part_renders() -> None:
    report = build(sweep_inputs(confirmed=False, state=SweepState.RUNNING))
    bare = report.model_copy(
        update={"best": None, "configs": [], "trials": [], "curves": [], "comparisons": [], "cautions": []}
        | {"budgets": [], "claims": [], "exploration": None, "descriptive": None, "grid": None, "tradeoff": []}
        | {"importance": None, "samples": []}
    )
    assert b"No config has been tried" in render_html(bare)
    assert b"No config has been tried" in render_markdown(bare)


@pytest.mark.parametrize(
    ("low", "mean", "high"), [(0.0, 0.0, 0.0), (0.01, 0.01, 0.01), (-1e-9, 0.0, 1e-9), (-0.2, 0.3, 0.8)]
)
def test_the_verdict_s_scale_leaves_room_for_its_labels(low: float, mean: float, high: float) -> None:
    comparison = build(sweep_inputs()).verdict.comparison
    places = scale(comparison.model_copy(update={"low": low, "difference": mean, "high": high}))
    assert 20 <= places["low"] <= places["mean"] <= places["high"] <= 80
    assert places["zero"] == 50


def test_the_ends_of_all_runs_stand_on_their_own_sides_of_the_scale() -> None:
    report = build(sweep_inputs(on_seeds(confirm=range(10, 22)), advantage=0.3))
    found = report.verdict.comparison
    assert found is not None
    ends = {"average_low": found.low - 0.0125, "average_high": found.high + 0.0125}
    verdict = report.verdict.model_copy(update={"comparison": found.model_copy(update=ends)})
    page = render_html(report.model_copy(update={"verdict": verdict})).decode()
    shown = re.findall(r'class="(low|high) every-end" style="[^"]+">([^<]+)<', page)
    assert shown == [("low", f"+{no_more(ends['average_low'])}"), ("high", f"+{no_more(ends['average_high'])}")]


@pytest.mark.parametrize(
    ("counts", "said"),
    [((3, 1), " over 3 of 4 runs"), ((0, 4), ' <span class="soft">no sound run</span>'), ((4, 0), "")],
)
def test_a_mean_that_leaves_runs_out_says_how_many_it_is_of(counts: tuple[int, int], said: str) -> None:
    report = build(sweep_inputs())
    assert report.verdict.ties is not None
    member = report.verdict.ties.members[0].model_copy(update={"num_runs": counts[0], "left_out": counts[1]})
    ties = report.verdict.ties.model_copy(update={"members": [member]})
    verdict = report.verdict.model_copy(update={"ties": ties})
    page = render_html(report.model_copy(update={"verdict": verdict})).decode()
    (after_mean,) = re.findall(r'<ul class="ties">.*?</b>(.*?)</li>', page, re.DOTALL)
    assert after_mean == said


def test_the_page_loads_nothing() -> None:
    page = Page(render_html(build(sweep_inputs())).decode())
    for tag, attrs in page.elements:
        assert "src" not in attrs, tag
        if tag == "link":
            assert attrs["href"] == "data:,"
        if tag == "a":
            inside = ("#", "data:text/plain;base64,") if "download" in attrs else ("#", "http://127.0.0.1:5000/")
            assert (attrs["href"] or "").startswith(inside)


def test_only_our_own_scripts_may_run() -> None:
    page = Page(render_html(build(sweep_inputs())).decode())
    policy = next(attrs["content"] for tag, attrs in page.elements if attrs.get("http-equiv"))
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy
    code = [text for attrs, text in page.scripts if attrs.get("type") != "application/json"]
    assert len(code) == 2
    for text in code:
        assert f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" in policy


def test_the_page_is_below_ten_megabytes_and_has_every_figure() -> None:
    page = render_html(build(sweep_inputs()))
    assert len(page) < 10_000_000
    content = Page(page.decode())
    places = {attrs["data-figure"] for _, attrs in content.elements if "data-figure" in attrs}
    figures = {figure["id"]: figure for figure in unpacked(content.scripts[0][1])}
    assert places == set(figures)
    assert {"seeds", "entropy", "eval/avg_at_k", "reward/mean", "share/na_lp", "share/pa_lp"} <= places
    seeds = [trace for trace in figures["entropy"]["data"] if trace.get("meta", {}).get("seed")]
    assert sum(trace["x"].count(None) + 1 for trace in seeds) == 26


def test_figures_are_packed_without_loss() -> None:
    line = {"color": "@c0", "width": 2.5, "dash": "solid", "$note": "<b>"}
    steps, first, second = list(range(20)), [0.123456789] * 20, [n / 3 for n in range(20)]
    one = {"id": "a", "data": [{"x": steps, "y": first, "line": line}, {"x": steps, "y": second, "line": line}]}
    figures = [one, {"id": "b", "data": [{"x": steps, "y": [None, 1234567.8], "marker": {"line": line}}], "empty": []}]
    text = embedded(figures)
    assert text.count('"@c0"') == 1
    assert text.count("[0,1,2,3") == 1
    assert "<" not in text
    drawn = unpacked(text)
    assert drawn[0]["data"][1]["line"] == line
    assert drawn[0]["data"][0]["y"] == [0.12346] * 20
    assert drawn[0]["data"][1]["y"] == pytest.approx(second, rel=1e-4)
    assert drawn[1] == {"id": "b", "data": [{"x": steps, "y": [None, 1234568], "marker": {"line": line}}], "empty": []}


UNDECIDED: dict[str, Any] = {"objective": {"relevant": 0.015}}


@pytest.mark.parametrize("spec", [on_seeds((0, 1, 2), confirm=()), UNDECIDED], ids=["exploratory", "confirmed"])
def test_the_command_that_buys_seeds_can_be_copied_whole(spec: dict[str, Any]) -> None:
    report = build(sweep_inputs(spec))
    command = f"sweeps extend swp_test --confirm-seeds {report.verdict.next.more_seeds}"
    assert f"<code class=command>{command}</code>" in render_html(report).decode()


def test_a_later_look_says_its_confidence() -> None:
    inputs = sweep_inputs(UNDECIDED)
    assert "with its 95 % interval" in render_html(build(inputs)).decode()
    page = render_html(build(replace(inputs, looks=2))).decode()
    assert "the interval has 97.5 % instead of 95 %" in page
    assert "with its 97.5 % interval" in page
