"""The picture that needs no browser: whole, equal for equal reports, and inert for any text."""

import hashlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from xml.etree import ElementTree
from xml.sax.saxutils import unescape

import pytest

from sweep_service.report import Report
from sweep_service.report.build import build
from sweep_service.report.render.picture import _overview, literal, render_picture
from tests.unit.sweep_service.report.report_benchmarks import measured_inputs
from tests.unit.sweep_service.report.report_sweeps import on_seeds, sweep_inputs

HOSTILE = "_$x$ \\frac{1}{2} <script>alert(1)</script> --> \x07 日本 $"


@pytest.fixture(scope="module")
def confirmed() -> Report:
    return build(sweep_inputs(advantage=0.05))


def _renamed(report: Report, label: str) -> Report:
    rows = [row.model_copy(update={"label": label}) for row in report.configs]
    verdict = report.verdict.model_copy(update={"sentence": label})
    return report.model_copy(update={"configs": rows, "verdict": verdict})


def _comments(svg: bytes) -> list[str]:
    """The texts of a picture: matplotlib writes each as a comment beside its outlines."""
    parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
    root = ElementTree.fromstring(svg, parser)
    return [unescape((element.text or "").strip()) for element in root.iter() if element.tag is ElementTree.Comment]


def test_equal_reports_give_equal_bytes(confirmed: Report) -> None:
    assert render_picture(confirmed, "png").startswith(b"\x89PNG")
    assert render_picture(confirmed, "png") == render_picture(confirmed.model_copy(), "png")
    assert render_picture(confirmed, "svg") == render_picture(confirmed.model_copy(), "svg")


@pytest.mark.long
def test_bytes_do_not_depend_on_what_the_process_has_drawn(confirmed: Report) -> None:
    script = (
        "import hashlib, sys; from sweep_service.report.model import Report;"
        "from sweep_service.report.render.picture import render_picture;"
        "print(hashlib.sha256(render_picture(Report.model_validate_json(sys.stdin.read()), 'svg')).hexdigest())"
    )
    made = subprocess.run(
        [sys.executable, "-c", script], input=confirmed.model_dump_json(), capture_output=True, text=True, check=True
    )
    assert made.stdout.strip() == hashlib.sha256(render_picture(confirmed, "svg")).hexdigest()


def test_pictures_name_no_time_and_no_version(confirmed: Report) -> None:
    svg = render_picture(confirmed, "svg")
    assert b"<metadata" not in svg
    assert b"Software" not in render_picture(confirmed, "png")


def test_it_has_the_verdict_and_three_panels(confirmed: Report) -> None:
    texts = _comments(render_picture(confirmed, "svg"))
    joined = "".join("".join(texts).split())
    assert "".join(f"{confirmed.sweep.name}: {confirmed.verdict.sentence}".split()) in joined
    for title in ("Policy entropy", "Validation accuracy, avg@k", "Every confirm seed (bars: means)"):
        assert title in texts
    assert confirmed.configs[0].label in texts
    assert "no results" not in texts
    assert f"objective: {confirmed.objective}" in texts


@pytest.mark.parametrize("seeds", ["confirmed", "tuned"])
def test_a_config_has_one_colour_in_lines_dots_and_legend(confirmed: Report, seeds: str) -> None:
    report = confirmed if seeds == "confirmed" else build(sweep_inputs(on_seeds(confirm=())))
    above, below = _overview(report).subfigs
    (axes,) = below.axes
    dots = {row.get_text(): line for row, line in zip(axes.get_yticklabels(), axes.lines, strict=False)}
    (named,) = above.legends
    texts = [text.get_text() for text in named.get_texts()]
    legend = {text: line.get_color() for text, line in zip(texts, named.get_lines(), strict=True)}
    assert len(set(legend.values())) == len(legend) > 1
    assert {line.get_color() for line in above.axes[0].lines} == set(legend.values())
    assert len(dots.keys() & legend.keys()) > 1
    for label in dots.keys() & legend.keys():
        assert dots[label].get_color() == legend[label]
        assert dots[label].get_markerfacecolor() == (legend[label] if seeds == "confirmed" else "none")


def test_nothing_overlaps_and_nothing_is_cut_off() -> None:
    figure = _overview(build(measured_inputs(advantage=0.05)))
    figure.canvas.draw()
    drawn = [box for part in (figure, *figure.subfigs) for box in (*part.legends, *part.texts)]
    boxes = [part.get_tightbbox() for part in (*figure.axes, *drawn)]
    assert len(boxes) == 6
    assert not [pair for pair in combinations(boxes, 2) if pair[0].overlaps(pair[1])]
    assert all(min(box.x0, box.y0) >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1 for box in boxes)


def test_it_says_whether_the_benchmarks_agree(confirmed: Report) -> None:
    report = build(measured_inputs(advantage=0.05))
    drawn, plain = ("".join("".join(_comments(render_picture(one, "svg"))).split()) for one in (report, confirmed))
    assert "".join(f"Benchmarks. {report.benchmarks.sentence}".split()) in drawn
    assert "Benchmarks" not in plain


def test_the_objective_s_own_metric_is_drawn(confirmed: Report) -> None:
    texts = _comments(render_picture(confirmed.model_copy(update={"objective": "pass@4 on held-out problems"}), "svg"))
    assert "Validation pass@k" in texts
    assert "Validation accuracy, avg@k" not in texts


def test_panels_without_data_say_so(confirmed: Report) -> None:
    rows = [row.model_copy(update={"tune": None, "confirm": None}) for row in confirmed.configs]
    empty = confirmed.model_copy(update={"curves": [], "configs": rows})
    assert _comments(render_picture(empty, "svg")).count("no results") == 3
    assert render_picture(empty.model_copy(update={"configs": [], "best": None}), "png").startswith(b"\x89PNG")


def test_an_exploratory_sweep_shows_tune_seeds() -> None:
    inputs = sweep_inputs(on_seeds((0,), confirm=()), confirmed=False)
    assert "Every tune seed (nothing was confirmed)" in _comments(render_picture(build(inputs), "svg"))


@pytest.mark.long
def test_of_many_configs_the_best_are_drawn() -> None:
    space = {"loss.beta1": [i / 5 for i in range(5)], "loss.beta2": [i / 5 for i in range(5)]}
    spec = {"space": space, "seeds": {"tune": [0]}, "training": {"loss": {"name": "ce_gppo"}, "steps": 40}}
    report = build(sweep_inputs(spec, confirmed=False))
    assert len(report.configs) >= 25
    svg = render_picture(report, "svg")
    assert len(svg) < 500_000
    drawn = {row.label for row in report.configs} & set(_comments(svg))
    assert 2 < len(drawn) <= 20
    assert report.best.label in drawn


def test_user_text_is_drawn_as_it_is(confirmed: Report) -> None:
    hostile = _renamed(confirmed, HOSTILE)
    assert render_picture(hostile, "png").startswith(b"\x89PNG")
    svg = render_picture(hostile, "svg")
    root = ElementTree.fromstring(svg)
    assert not [element for element in root.iter() if element.tag.endswith(("script", "image", "}a"))]
    assert [text for text in _comments(svg) if text.startswith("_$x$ \\frac{1}{2} <script>")]


def test_letters_that_the_font_lacks_become_squares() -> None:
    assert literal("a\x00b\n\u2028c") == "a b  c"
    assert literal("β1=日") == "β1=□"
    assert literal("abcdef", 4) == "abc…"


@pytest.mark.long
def test_threads_that_draw_at_once_draw_the_same(confirmed: Report) -> None:
    """Matplotlib's settings belong to the process, so drawings wait for each other."""
    with ThreadPoolExecutor(3) as threads:
        drawn = list(
            threads.map(lambda _: (render_picture(confirmed, "svg"), render_picture(confirmed, "png")), range(4))
        )
    assert len(set(drawn)) == 1
