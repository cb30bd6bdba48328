"""The help of every command, as a golden file."""

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.text import Text
from typer.testing import CliRunner

from sweep_service.cli.app import app
from sweep_service.cli.commands import COMMANDS, load
from tests.golden import matches_golden
from trainers.command_line import _parser


def commands(command: Any, *path: str) -> Iterator[tuple[str, ...]]:
    """Yield the words of every command, groups before their members."""
    yield path
    members: Mapping[str, Any] = getattr(command, "commands", {})  # which groups alone have
    for name, inner in members.items():
        yield from commands(inner if path else load(COMMANDS[name]), *path, name)


def test_the_table_tells_of_every_command_what_the_command_says() -> None:
    for row in COMMANDS.values():
        assert load(row).help.partition("\n\n")[0].replace("\n", " ") == row.help


@pytest.mark.parametrize("name", COMMANDS)
def test_no_line_of_help_is_wrapped_by_hand_and_examples_fit_a_terminal(name: str) -> None:
    def texts(command: Any) -> Iterator[str]:
        yield command.help
        for inner in getattr(command, "commands", {}).values():
            yield from texts(inner)

    for paragraph in [paragraph for text in texts(load(COMMANDS[name])) for paragraph in text.split("\n\n")]:
        lines = paragraph.splitlines()
        assert all(line.startswith("[bold]") for line in lines) or len(lines) == 1
        if paragraph.startswith("[bold]"):
            assert max(len(Text.from_markup(line)) for line in lines) <= 78


def test_the_help_of_every_command_is_that_of_the_golden_file(monkeypatch: pytest.MonkeyPatch) -> None:
    runner = CliRunner(env={"COLUMNS": "120", "TERM": "dumb", "NO_COLOR": "1"})
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    told = list[str]()
    for path in commands(typer.main.get_command(app)):
        shown = runner.invoke(app, [*path, "--help"], prog_name="sweeps")
        assert shown.exit_code == 0
        told += [" ".join(("$ sweeps", *path, "--help")), *(line.rstrip() for line in shown.output.splitlines()), ""]
    matches_golden(Path(__file__).parent / "golden" / "help.txt", "\n".join(told))


def test_every_command_of_the_docs_stands_on_a_line_of_its_own_and_is_one() -> None:
    root = Path(__file__).parents[4]
    number = 0
    for page in (root / "README.md", *sorted((root / "docs").glob("*.md"))):
        for line in page.read_text(encoding="utf-8").splitlines():
            assert not re.search(r"^\S.* {3,}(sweeps|python -m trainers) ", line), (page, line)  # a block in one piece
            if not (block := re.match(r"    (sweeps|python -m trainers) ([a-z][^#<>|&\[]*)", line)):
                continue
            program, words = block[1], shlex.split(block[2].replace("…", ""))
            if program == "sweeps":
                command, rest = load(COMMANDS[words[0]]), words[1:]
                while rest and rest[0] in getattr(command, "commands", {}):
                    command, rest = command.commands[rest[0]], rest[1:]
                command.make_context(block[0], rest)
            else:
                _parser().parse_intermixed_args(words)
            number += 1
    assert number > 50
