"""bench/mutants.py plants what it says, where it says, and counts only what it has planted."""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
SOURCE = """def price(count):
    total = 3 * count
    return total


def tax(count):
    total = 3 * count
    return 2
"""


@pytest.fixture(autouse=True)
def beside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the script's modules be imported by the names that they have for each other."""
    monkeypatch.syspath_prepend(ROOT / "bench")


@pytest.fixture
def mutants() -> Any:
    return import_module("mutants")


@pytest.fixture
def line_tests() -> Any:
    return import_module("line_tests")


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        pytest.param(SOURCE.replace("return 2", "return 3"), 8, id="a line differs"),
        pytest.param(SOURCE.replace("    return total\n", ""), 3, id="a line is gone"),
        pytest.param(SOURCE.replace("return 2", "total = 1\n    return 2"), 8, id="a line is new"),
        pytest.param(SOURCE.replace("return 2", "total = 3 * count\n    return 2"), 8, id="a line is doubled"),
        pytest.param(SOURCE[:60] + SOURCE[60:].replace("3 * count", "4 * count"), 7, id="a line that stands twice"),
    ],
)
def test_a_mutant_is_planted_in_the_same_place_after_other_lines_have_moved(
    mutants: Any, changed: str, line: int
) -> None:
    mutant = mutants.Mutant.between("shop.py", SOURCE, changed)
    assert mutant.planted(SOURCE) == changed
    assert mutant.line(SOURCE) == line
    above, below = "import os\n\n\n", "\n\nprint(price(1))\n"
    assert mutant.planted(above + SOURCE + below) == above + changed + below
    assert mutant.line(above + SOURCE + below) == line + 3


@pytest.mark.parametrize("source", ["def price(count):\n    return 0\n", SOURCE + SOURCE])
def test_a_mutant_is_not_planted_where_its_lines_are_gone_or_stand_twice(mutants: Any, source: str) -> None:
    changed = SOURCE.replace("    return 2\n", "    return 3\n")
    assert mutants.Mutant.between("shop.py", SOURCE, changed).planted(source) is None


def test_a_run_that_was_broken_off_in_the_middle_of_a_line_goes_on_after_the_last_whole_one(
    mutants: Any, tmp_path: Path
) -> None:
    mutant = mutants.Mutant("shop.py", "a\n", "b\n")
    results = [
        mutants.Result(mutant, 7, 12, "tests/test_shop.py::test_price", 3.5),
        mutants.Result(mutant, None, 0, None, 0.0),
    ]
    file = tmp_path / "results.jsonl"
    assert mutants.read_results(file) == []
    file.write_text("".join(map(mutants.as_line, [*results, results[0]]))[:-10])
    assert mutants.read_results(file) == results
    assert mutants.read_mutants(file) == [mutant, mutant]


def test_a_planted_mistake_is_seen_by_the_test_that_fails_and_leaves_the_file_as_it_was(
    mutants: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # others take seconds to import
    file = tmp_path / "shop.py"
    file.write_text(SOURCE)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p pytest_timeout -p xdist.plugin\n")
    before = file.stat().st_mtime_ns
    (tmp_path / "test_shop.py").write_text(
        "from shop import price, tax\n\n\ndef test_tax():\n    assert tax(1) == 2\n\n\n"
        "def test_price():\n    assert price(2) == 6\n"
    )
    tests = ["test_shop.py::test_tax", "test_shop.py::test_price"]
    price = mutants.Mutant.between("shop.py", SOURCE, SOURCE.replace("return total", "return -total"))
    assert mutants.judge(price, tests, tmp_path)[:4] == (price, 3, 2, "test_shop.py::test_price")
    unseen = mutants.judge(price, tests[:1], tmp_path)
    assert unseen[:4] == (price, 3, 1, None)
    assert unseen.word == "SURVIVED"
    assert mutants.judge(price, [], tmp_path).word == "SURVIVED"
    assert (file.read_text(), file.stat().st_mtime_ns) == (SOURCE, before)


def test_the_score_counts_the_mutants_that_were_planted(mutants: Any, capsys: pytest.CaptureFixture[str]) -> None:
    mutant = mutants.Mutant("shop.py", "a\n", "b\n")
    seen, unseen, gone = (
        mutants.Result(mutant, *rest) for rest in ((7, 2, "test_price", 1.0), (7, 2, None, 1.0), (None, 0, None, 0.0))
    )
    assert mutants.report([seen] * 94 + [unseen] * 6 + [gone] * 50) == 0
    assert "94 of 100 mutants were seen: 94%, 95 % interval 88% to 97%" in capsys.readouterr().out
    assert mutants.report([seen] * 89 + [unseen] * 11 + [gone] * 50) == 1


MODULE = """LIMITS = {
    "price": 3,
    "tax": 2,
}


@register(
    "price",
)
def price(
    count=LIMITS["price"],
):
    if count:
        return sum(
            [count],
        )
    return 0
"""


@pytest.mark.parametrize(
    ("line", "first", "at_import"),
    [(3, 1, True), (8, 7, True), (11, 7, True), (13, 13, False), (15, 14, False), (17, 17, False)],
)
def test_a_line_belongs_to_its_innermost_statement_and_runs_at_import_outside_of_functions(
    line_tests: Any, line: int, first: int, at_import: bool
) -> None:
    tree = ast.parse(MODULE)
    assert line_tests.first_line(tree, line) == first
    assert line_tests.runs_at_import(tree, line) is at_import
