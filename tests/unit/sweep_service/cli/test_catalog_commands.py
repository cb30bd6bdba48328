"""The arguments with which commands have an entry added to the catalog."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sweep_service.cli.app import app
from sweep_service.cli.catalog_print import mapping
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


@pytest.mark.parametrize(
    ("row", "settings"),
    [
        ({"problem": "1?", "solution": "1"}, {"prompt": "problem", "answer": "solution"}),
        (
            {"question": "1?", "answer": "so\n#### 1"},
            {"prompt": "question", "answer": "answer", "answer_after": '"####"'},
        ),
        (
            {"instruction": "Add.", "input": "", "output": 1},
            {"prompt": r'"{instruction}\n\n{input}"', "answer": "output"},
        ),
        (
            {"prompt": [{"role": "user", "content": "1?"}], "reward_model": {"ground_truth": r"\boxed{1}"}},
            {
                "prompt": "prompt",
                "template": "chat",
                "answer": "reward_model.ground_truth",
                "answer_boxed": "true",
            },
        ),
        (
            {"conversations": [{"from": "human", "value": "1?"}, {"from": "gpt", "value": "1"}]},
            {"prompt": "conversations", "template": "chat", "answer": "conversations.-1.value"},
        ),
        (
            {"chat": [{"role": "user", "content": "1?"}]},
            {"prompt": "chat", "template": "chat"},
        ),
        (
            {"messages": [{"role": "user", "content": "1?"}], "label": 1},
            {"prompt": "messages", "template": "chat", "answer": "label"},
        ),
    ],
)
def test_a_dataset_is_shown_with_what_a_spec_says_about_rows_like_these(
    row: dict[str, Any], settings: dict[str, str]
) -> None:
    assert mapping(list(row), [row]) == settings
