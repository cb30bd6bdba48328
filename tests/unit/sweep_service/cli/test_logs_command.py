"""What `sweeps logs` writes to a terminal of a log that comes in parts."""

import sys

import pytest

from sweep_service.cli.logs_command import LogPrinter


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_sequence_may_begin_in_one_part_and_end_in_another(
    size: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    content = "\x1b[1;31mred\x1b[0m \x1b]0;title\x07ä漢\x1b]8;;http://x\x1b\\link\nend\x1b".encode()
    printer = LogPrinter()
    for start in range(0, len(content), size):
        printer.write(content[start : start + size])
    printer.end()
    assert capsys.readouterr().out == "red ä漢link\nend\n"
