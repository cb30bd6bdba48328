"""Numbers, times and parameters as people read them; specs as people write them."""

import io
import json
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from rich.text import Text

from sweep_service.cli.exits import ExitCode
from sweep_service.cli.failures import code_of_state, exit_code
from sweep_service.cli.output import (
    counts_text,
    number,
    print_data,
    print_error,
    print_facts,
    print_json,
    print_table,
    say,
    span,
    write_output,
)
from sweep_service.cli.spec_file import SpecFileError, read_spec
from sweep_service.cli.sweep_print import print_plan
from sweep_service.client.connection import Message, read_messages
from sweep_service.errors import Conflict, InvalidSpec, NotFound, NotReady, ServiceError, SpecError
from sweep_service.intake.spec_check import parse_spec
from sweep_service.schemas import MEDIA_TYPES, ReportFormat
from sweep_service.sweep.plan import make_plan
from sweep_service.sweep.records import SweepState, TrialState
from tests.terminal import Terminal
from tests.unit.sweep_service.report.report_parts import OBEYED


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (99, "99 s"), (100, "2 min"), (5900, "98 min"), (6000, "1.7 h"), (200_000, "2 d")]
)
def test_a_length_of_time_is_short(seconds: float, text: str) -> None:
    assert span(seconds) == text


HOSTILE = "\x1b[2Jcleared\x1b]0;retitled\x1b\\\x9b31mred\x08\x1bc"


def test_no_text_of_others_acts_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen, errors = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", errors)
    monkeypatch.setenv("TERM", "dumb")  # so that nothing is coloured by ourselves
    for columns in ("200", "20"):  # a table, and one whose last column stands below
        monkeypatch.setenv("COLUMNS", columns)
        print_table(["NAME", HOSTILE], [[HOSTILE, Text(HOSTILE, "red")]], loose=[HOSTILE])
    monkeypatch.setenv("COLUMNS", "200")
    print_facts({HOSTILE: HOSTILE}, 12)
    print_data(HOSTILE)
    write_output(HOSTILE.encode(), "-")
    say(HOSTILE)
    print_error(InvalidSpec([SpecError(HOSTILE, HOSTILE)]))
    print_error(ServiceError(HOSTILE))
    for shown in (screen.getvalue(), errors.getvalue()):
        assert shown.count("clearedred") >= 4
        assert not OBEYED.search(shown)


def test_json_names_control_characters_by_number(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"label": HOSTILE + "\x85ä"})
    shown = capsys.readouterr().out
    assert not OBEYED.search(shown)
    assert "ä" in shown
    assert json.loads(shown) == {"label": HOSTILE + "\x85ä"}


def test_a_baseline_with_another_loss_is_told_by_it(capsys: pytest.CaptureFixture[str]) -> None:
    spec = parse_spec({"name": "a", "space": {"loss.beta1": [0.25, 0.5]}, "training": {"loss": {"name": "ce_gppo"}}})
    print_plan(make_plan(spec, None))
    shown = capsys.readouterr().out
    assert "   loss=dapo epsilon_high=0.28 log_ratio_clamp=20  (dapo)\n" in shown
    assert "   -" not in shown


def test_every_report_format_has_a_media_type() -> None:
    assert tuple(MEDIA_TYPES) == get_args(ReportFormat)


def test_counts_name_what_matters() -> None:
    counts = {TrialState.SUCCEEDED: 3, TrialState.FAILED: 1, TrialState.RUNNING: 2, TrialState.PENDING: 4}
    assert counts_text(counts, 0) == "4 of 10 ended, 1 failed, 2 running"
    assert counts_text(counts, 6) == "4 of 16 ended, 1 failed, 2 running, 6 yet to be chosen"
    assert counts_text({}, 0) == "0 of 0 ended"
    assert (number(None), number(0.12345)) == ("-", "0.123")


def test_every_error_has_its_exit_code() -> None:
    assert exit_code(InvalidSpec([])) == 3
    assert exit_code(NotFound("sweep", "x")) == 5
    assert exit_code(Conflict("")) == exit_code(NotReady("")) == 6
    assert exit_code(ServiceError("")) == ExitCode.ERROR
    assert [code_of_state(state) for state in (SweepState.SUCCEEDED, SweepState.FAILED, SweepState.CANCELLED)] == [
        0,
        7,
        8,
    ]


def read_text(text: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    return read_spec("-")


def test_a_spec_is_yaml_or_json(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = {"name": "a", "space": {"loss.beta1": [0, 1e-3]}}
    assert read_text("name: a\nspace: {loss.beta1: [0, 1e-3]}", monkeypatch) == spec
    assert read_text('{"name": "a", "space": {"loss.beta1": [0, 1e-3]}}', monkeypatch) == spec


@pytest.mark.parametrize("text", ["a: 1\na: 2", "a: [1", "a: .nan", "{1: 2}", "\x00"])
def test_what_is_not_plain_yaml_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SpecFileError, match="standard input"):
        read_text(text, monkeypatch)


def test_an_empty_file_is_no_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidSpec, match="standard input is empty; a sweep is a mapping"):
        read_text("# nothing\n", monkeypatch)


def test_files_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    (tmp_path / "latin1").write_bytes(b"name: \xff")
    for path in (tmp_path / "missing", tmp_path, tmp_path / "latin1"):
        with pytest.raises(SpecFileError, match=f"cannot read {path}"):
            read_spec(str(path))


def test_server_sent_events_are_read_by_the_standard() -> None:
    lines = [": ping", "", "retry: 10", "", "event: a", "id: 1", "data: {", "data:  }", "", "data:x", "", "data: cut"]
    assert list(read_messages(lines)) == [Message("a", "{\n }"), Message("message", "x")]
