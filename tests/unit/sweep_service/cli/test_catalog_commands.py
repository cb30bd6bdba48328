"""The arguments with which commands have an entry added to the catalog."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sweep_service.cli.app import app
from sweep_service.cli.transfer import Transfer
from trainers.benchmarks import add_benchmark
from trainers.catalog.entries import BenchmarkEntry


@pytest.mark.parametrize(
    ("source", "maker", "given"),
    [
        ("math500", "add_known", ["math500"]),
        ("exam=./exam.jsonl", "add_file", ["exam", Path("exam.jsonl")]),
        ("minerva=math-ai/minervamath:test", "add_hub", ["minerva", "math-ai/minervamath:test", "main", "a token"]),
    ],
)
def test_a_benchmark_is_added_from_where_its_source_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: str, maker: str, given: list[object]
) -> None:
    heard = list[Any]()

    def add(*arguments: object) -> BenchmarkEntry:
        heard.extend(arguments)
        return BenchmarkEntry.model_construct(name="the-name", problems=7)

    monkeypatch.setattr(add_benchmark, maker, add)
    for name, value in (("SWEEPS_CACHE", str(tmp_path)), ("HF_TOKEN", "a token")):
        monkeypatch.setenv(name, value)
    result = CliRunner().invoke(app, ["benchmarks", "add", source, "--config", "main"])
    assert (result.exit_code, result.stdout) == (0, "the-name\n")
    assert tmp_path in heard
    assert [one for one in heard if one != tmp_path and not isinstance(one, Transfer)] == given
    assert isinstance(heard[-1], Transfer)
