"""The pictures that need no browser: whole, equal for equal reports, and inert for any text."""

import hashlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from xml.etree import ElementTree
from xml.sax.saxutils import unescape

import pytest

from sweep_service.report import Report, build
from sweep_service.report.model import Cell, Grid, TradeoffPoint
from sweep_service.report.render.picture import figure_svgs, render_png, render_svg
from sweep_service.report.render.picture_panels import literal
from tests.unit.sweep_service.report.report_sweeps import sweep_inputs

HOSTILE = "_$x$ \\frac{1}{2} <script>alert(1)</script> --> \x07 日本 $"


@pytest.fixture(scope="module")
def confirmed() -> Report:
    return build(sweep_inputs(advantage=0.05))


@pytest.fixture(scope="module")
def full(confirmed: Report) -> Report:
    """A report with a faceted grid that has a hole, and with the plane of objective and entropy."""
    ids = [row.id for row in confirmed.configs]
    cells = [
        Cell(
            x=x, y="1", facet=facet, config_id=config, mean=mean, half_width=0.01 if mean else None,
            n=2 if mean else 0, planned=2, confirm=None, entropy_kept=None,
        )
        for facet in ("0.2", "0.3")
        for x, config, mean in (("0", ids[0], 0.8), ("0.5", ids[1], 0.7), ("1", None, None))
    ]  # fmt: skip
    grid = Grid(
        x="loss.beta1", y="loss.beta2", facet="loss.epsilon", xs=["0", "0.5", "1"], ys=["1"], facets=["0.2", "0.3"],
        cells=cells, others=[],
    )  # fmt: skip
    points = [
        TradeoffPoint(
            config_id=id_, objective=0.8 - 0.1 * place, objective_low=None, objective_high=None, n=4,
            entropy_kept=0.3 + 0.1 * place, entropy_low=0.2 + 0.1 * place, entropy_high=0.4 + 0.1 * place,
            on_front=place < 2,
        )
        for place, id_ in enumerate(ids)
    ]  # fmt: skip
    return confirmed.model_copy(update={"grid": grid, "tradeoff": points})


def _renamed(report: Report, label: str) -> Report:
    rows = [row.model_copy(update={"label": label}) for row in report.configs]
    verdict = report.verdict.model_copy(update={"sentence": label})
    return report.model_copy(update={"configs": rows, "verdict": verdict})


def _comments(svg: bytes) -> list[str]:
    """The texts of a picture: matplotlib writes each as a comment beside its outlines."""
    parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
    root = ElementTree.fromstring(svg, parser)
    return [unescape((found.text or "").strip()) for found in root.iter() if found.tag is ElementTree.Comment]


def test_equal_reports_give_equal_bytes(full: Report) -> None:
    assert render_png(full).startswith(b"\x89PNG")
    assert render_png(full) == render_png(full.model_copy())
    assert render_svg(full) == render_svg(full.model_copy())
    assert figure_svgs(full) == figure_svgs(full.model_copy())


def test_bytes_do_not_depend_on_what_the_process_has_drawn(full: Report) -> None:
    script = (
        "import hashlib, sys; from sweep_service.report.model import Report;"
        "from sweep_service.report.render.picture import render_svg;"
        "print(hashlib.sha256(render_svg(Report.model_validate_json(sys.stdin.read()))).hexdigest())"
    )
    made = subprocess.run(
        [sys.executable, "-c", script], input=full.model_dump_json(), capture_output=True, text=True, check=True
    )
    assert made.stdout.strip() == hashlib.sha256(render_svg(full)).hexdigest()


def test_pictures_name_no_time_and_no_version(full: Report) -> None:
    svg = render_svg(full)
    assert b"<metadata" not in svg
    assert b"Software" not in render_png(full)


def test_the_overview_has_the_verdict_and_four_panels(full: Report) -> None:
    texts = _comments(render_svg(full))
    joined = " ".join(texts)
    assert "".join(full.verdict.sentence.split()) in "".join(joined.split())
    for title in ("Policy entropy", "Validation accuracy, avg@k", "Every confirm seed"):
        assert title in texts
    assert any(text.startswith("Objective (tune)") for text in texts)
    assert "Training reward" not in texts
    assert full.configs[0].label in texts


def test_without_a_grid_the_overview_shows_reward(confirmed: Report) -> None:
    texts = _comments(render_svg(confirmed.model_copy(update={"grid": None})))
    assert "Training reward" in texts
    assert not any(text.startswith("Objective (tune)") for text in texts)


def test_every_main_figure_alone(full: Report) -> None:
    made = figure_svgs(full)
    assert list(made) == ["entropy.svg", "accuracy.svg", "heatmap.svg", "tradeoff.svg", "seeds.svg"]
    heat = _comments(made["heatmap.svg"])
    assert [text for text in heat if text.startswith("Objective (tune), ")] == [
        "Objective (tune), ε = 0.2",
        "Objective (tune), ε = 0.3",
    ]
    assert sum("0.800" in text for text in heat) == 2


def test_of_many_facets_that_of_the_best_config_is_drawn(full: Report) -> None:
    assert full.grid is not None
    assert full.best is not None
    names = [f"{i / 10}" for i in range(1, 9)]
    cell = full.grid.cells[0].model_copy(update={"facet": "0.7", "config_id": full.best.config_id})
    grid = full.grid.model_copy(update={"facets": names, "cells": [*full.grid.cells, cell]})
    texts = _comments(figure_svgs(full.model_copy(update={"grid": grid}))["heatmap.svg"])
    titles = [text for text in texts if text.startswith("Objective (tune), ")]
    assert len(titles) == 1
    assert titles != ["Objective (tune), ε = 0.1"]


def test_figures_without_data_are_left_out(full: Report) -> None:
    rows = [row.model_copy(update={"tune": None, "confirm": None}) for row in full.configs]
    empty = full.model_copy(update={"curves": [], "grid": None, "tradeoff": [], "configs": rows})
    assert figure_svgs(empty) == {}
    assert render_png(empty).startswith(b"\x89PNG")
    nothing = full.model_copy(update={"curves": [], "grid": None, "tradeoff": [], "configs": [], "best": None})
    assert render_png(nothing).startswith(b"\x89PNG")


def test_an_exploratory_sweep_shows_tune_seeds() -> None:
    inputs = sweep_inputs({"seeds": {"tune": [0]}}, confirmed=False)
    texts = _comments(figure_svgs(build(inputs))["seeds.svg"])
    assert "Every tune seed (nothing was confirmed)" in texts


def test_a_hundred_configs_leave_room_for_curves() -> None:
    space = {"loss.beta1": [i / 10 for i in range(10)], "loss.beta2": [i / 10 for i in range(10)]}
    spec = {"space": space, "seeds": {"tune": [0]}, "training": {"loss": {"name": "ce_gppo"}, "steps": 40}}
    report = build(sweep_inputs(spec, confirmed=False))
    assert len(report.configs) >= 100
    made = figure_svgs(report)
    assert len(made["entropy.svg"]) < 500_000
    labels = {row.label for row in report.configs}
    drawn = labels & set(_comments(made["entropy.svg"]))
    assert 2 < len(drawn) <= 20
    assert report.best is not None
    assert report.best.label in drawn


def test_user_text_is_drawn_as_it_is(full: Report) -> None:
    hostile = _renamed(full, HOSTILE)
    assert render_png(hostile).startswith(b"\x89PNG")
    for svg in (render_svg(hostile), *figure_svgs(hostile).values()):
        root = ElementTree.fromstring(svg)
        assert not [found for found in root.iter() if found.tag.endswith(("script", "image", "}a"))]
    legend = [text for text in _comments(render_svg(hostile)) if text.startswith("_$x$ \\frac{1}{2} <script>")]
    assert legend


def test_letters_that_the_font_lacks_become_squares() -> None:
    assert literal("a\x00b\n\u2028c") == "a b  c"
    assert literal("β1=日") == "β1=□"
    assert literal("abcdef", 4) == "abc…"


def test_threads_that_draw_at_once_draw_the_same(confirmed: Report) -> None:
    """A worker builds reports in one thread and carries figures to MLflow in another."""
    with ThreadPoolExecutor(3) as threads:
        drawn = list(threads.map(lambda _: (render_svg(confirmed), render_png(confirmed)), range(4)))
    assert len(set(drawn)) == 1
