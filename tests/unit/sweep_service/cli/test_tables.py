"""Tables and facts on terminals that are too narrow for them."""

import sys
from collections.abc import Callable

import pytest

from sweep_service.cli.output import print_facts, print_table
from sweep_service.cli.sweep_print import _config_row, _setting_text
from sweep_service.schemas import ConfigView
from sweep_service.sweep.records import Role, Stage
from tests.terminal import Terminal

COLUMNS = ("ID", "STATE", "PARAMETERS", "MESSAGE")
ROWS = [("one", "FAILED", "beta1=0.5 beta2=1 epsilon=0.2", "out of memory"), ("two", "SUCCEEDED", "beta1=0", "")]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Return what is printed on a terminal of some columns."""

    def run(width: int, printing: Callable[[], None]) -> list[str]:
        terminal = Terminal()
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr(sys, "stdout", terminal)
        printing()
        monkeypatch.undo()
        lines = terminal.getvalue().replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()
        assert max(map(len, lines)) <= width
        return [line.rstrip() for line in lines]

    return run


def test_a_table_that_fits_has_a_line_for_each_row(shown: Callable[..., list[str]]) -> None:
    lines = shown(100, lambda: print_table(COLUMNS, ROWS, loose=("PARAMETERS", "MESSAGE")))
    assert lines == [
        "ID   STATE      PARAMETERS                     MESSAGE",
        "one  FAILED     beta1=0.5 beta2=1 epsilon=0.2  out of memory",
        "two  SUCCEEDED  beta1=0",
    ]


def test_columns_that_have_no_room_stand_below_their_row(shown: Callable[..., list[str]]) -> None:
    assert shown(50, lambda: print_table(COLUMNS, ROWS, loose=("PARAMETERS", "MESSAGE"))) == [
        "ID   STATE      PARAMETERS",
        "one  FAILED     beta1=0.5 beta2=1 epsilon=0.2",
        "    out of memory",
        "two  SUCCEEDED  beta1=0",
    ]
    assert shown(30, lambda: print_table(COLUMNS, ROWS, loose=("PARAMETERS", "MESSAGE"))) == [
        "ID   STATE",
        "one  FAILED",
        "    beta1=0.5 beta2=1",
        "    epsilon=0.2  out of memory",
        "two  SUCCEEDED",
        "    beta1=0",
    ]


def test_the_last_column_takes_several_lines_if_it_has_some_room(shown: Callable[..., list[str]]) -> None:
    assert shown(42, lambda: print_table(COLUMNS[:3], [row[:3] for row in ROWS], loose=("PARAMETERS",))) == [
        "ID   STATE      PARAMETERS",
        "one  FAILED     beta1=0.5 beta2=1",
        "                epsilon=0.2",
        "two  SUCCEEDED  beta1=0",
    ]


def test_a_long_setting_is_cut() -> None:
    assert [_setting_text(value) for value in (None, "a" * 60, "a" * 61, 0.5)] == ["-", "a" * 60, f"{'a' * 60}…", "0.5"]


def test_a_config_has_the_mean_and_the_seeds_of_each_stage() -> None:
    config = ConfigView(
        id="cfg_1", sweep_id="swp_1", number=0, roles=(Role.BASELINE, Role.SPACE), params={}, training={}, label="",
        tune_objective=0.25, confirm_objective=0.5, tune_trials=5, confirm_trials=3,
    )  # fmt: skip
    valued = {("cfg_1", Stage.TUNE): 4, ("cfg_1", Stage.CONFIRM): 2, ("cfg_2", Stage.TUNE): 1}
    assert _config_row(config, "beta1=0", valued) == ("cfg_1", "baseline", "beta1=0", "0.250 (4/5)", "0.500 (2/3)")


def test_an_empty_table_is_its_headings(shown: Callable[..., list[str]]) -> None:
    assert shown(80, lambda: print_table(COLUMNS, [], loose=("MESSAGE",))) == ["ID  STATE  PARAMETERS  MESSAGE"]


def test_a_long_fact_goes_on_below_its_beginning_and_an_address_stays_whole(
    shown: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    facts = {"verdict": "TIED: these two cannot be told apart", "none": None}
    assert shown(30, lambda: print_facts(facts, 9)) == [
        "  verdict  TIED: these two",
        "           cannot be told",
        "           apart",
    ]
    print_facts({"page": "http://127.0.0.1:8080/" + "x" * 300, "verdict": "word " * 60}, 9)
    assert len(capsys.readouterr().out.splitlines()) == 2
