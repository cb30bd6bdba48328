"""Prints entries of the catalog for people."""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final

from rich.text import Text

from sweep_service.cli.output import print_facts, print_table, say, stdout
from trainers.catalog.entries import BenchmarkEntry, DatasetEntry, ModelEntry
from trainers.catalog.new_entry import origin_text, size_text
from trainers.catalog.row_files import likely_columns
from trainers.tasks.row_values import MISSING, is_chat, value_at

_MAX_VALUE: Final = 160
"""Most characters of a value that are shown."""
_AFTER: Final = "####"
_BOXED: Final = "\\boxed"
_TRUTH: Final = "reward_model.ground_truth"
"""Path to the answer in the format of verl."""


def print_entries(entries: Sequence[ModelEntry | DatasetEntry | BenchmarkEntry]) -> None:
    """Print a row for each entry of one kind; there is one at least."""
    rows = [_row(entry) for entry in entries]
    right = ("SIZE", "PARAMETERS", "CONTEXT", "PROBLEMS")
    print_table(tuple(rows[0]), [tuple(row.values()) for row in rows], right)


def _row(entry: ModelEntry | DatasetEntry | BenchmarkEntry) -> dict[str, str]:
    """Return the cells of an entry, by the names of their columns."""
    match entry:
        case ModelEntry():
            own = {
                "ARCHITECTURE": entry.architecture,
                "PARAMETERS": count_text(entry.parameters),
                "WEIGHTS": entry.weights_dtype,
                "CONTEXT": str(entry.context_length or "-"),
                "CHAT": "yes" if entry.chat_template else "no",
            }
        case DatasetEntry():
            own = {"SPLITS (ROWS)": splits_text(entry.splits), "COLUMNS": ", ".join(entry.columns)}
        case BenchmarkEntry():
            own = {"PROBLEMS": str(entry.problems)}
    return {"NAME": entry.name, **own, "SIZE": size_text(entry.bytes), "FROM": _from(entry)}


def print_model(entry: ModelEntry, folder: Path) -> None:
    """Print a model, and how a spec names it."""
    heads = f"{entry.num_heads} heads, {entry.num_kv_heads} of keys and values"
    template = "yes; a spec asks for it by data.template: chat" if entry.chat_template else "none; data.template: raw"
    _print_facts(
        entry,
        folder,
        {
            "architecture": f"{entry.architecture}: {entry.num_layers} layers, width {entry.hidden_size}, {heads}",
            "parameters": f"{count_text(entry.parameters)} in {entry.weights_dtype}",
            "vocabulary": f"{entry.vocabulary} tokens",
            "context": f"{entry.context_length} tokens" if entry.context_length else "no limit",
            "chat template": template,
        },
    )
    stdout().print()
    _print_spec([f"model: {{name: pretrained, model: {entry.name}}}"])


def print_dataset(entry: DatasetEntry, folder: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a dataset, its first rows, and how a spec names it."""
    _print_facts(entry, folder, {"splits": splits_text(entry.splits), "columns": ", ".join(entry.columns)})
    console = stdout()
    for number, row in enumerate(rows, 1):
        console.print(Text(f"\nrow {number}", "bold"))
        width = max(14, *(len(column) + 2 for column in row))
        for column, value in row.items():
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            shown = shown.replace("\n", "\\n")
            cut = shown if len(shown) <= _MAX_VALUE else shown[: _MAX_VALUE - 1] + "…"
            console.print(Text.assemble(("  " + column.ljust(width), "bright_black"), cut))
    console.print()
    data = {"ref": entry.name, "split": next(iter(entry.splits)), **mapping(entry.columns, rows)}
    fields = ", ".join(f"{name}: {value}" for name, value in data.items())
    note = ["  # template: chat is for a model with a chat template; a base model reads chats of one turn without it"]
    _print_spec(["task:", "  name: word_problems", f"  data: {{{fields}}}", *(note if "template" in data else ())])
    lacking = [name for name in ("prompt", "answer") if name not in data]
    if lacking:
        say(f"no column looks like the {' or the '.join(lacking)}; name it in the spec")


def print_benchmark(entry: BenchmarkEntry, folder: Path, first: Mapping[str, Any]) -> None:
    """Print a benchmark and its first problem."""
    _print_facts(entry, folder, {"problems": str(entry.problems)})
    console = stdout()
    console.print(Text(f"\n{first['id']}", "bold"))
    console.print(Text(f"  {first['problem']}\n  answer: {first['answer']}\n"))
    _print_spec(["task:", "  name: word_problems", f"  apart_from: [{entry.name}]     # train on none of its problems"])


def mapping(columns: Collection[str], rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Guess which columns hold problem and answer; return the settings of a spec that name them."""
    settings = {setting: column for setting, column in likely_columns(columns)._asdict().items() if column}
    if {"instruction", "input"} <= set(columns):
        settings["prompt"] = r'"{instruction}\n\n{input}"'
    if chat := next((name for name in columns if any(is_chat(row.get(name)) for row in rows)), None):
        settings |= {"prompt": chat, "template": "chat"}
    if any(value_at(row, _TRUTH) is not MISSING for row in rows):
        settings["answer"] = _TRUTH
    elif chat and "answer" not in settings:
        last = next(row[chat][-1] for row in rows if is_chat(row.get(chat)))
        fields = {"assistant": "content", "gpt": "value"}  # by the role of who replies
        if field := fields.get(last.get("role") or last.get("from")):
            settings["answer"] = f"{chat}.-1.{field}"
    answers = [str(value_at(row, settings.get("answer", ""))) for row in rows]
    if any(_AFTER in answer for answer in answers):
        settings["answer_after"] = f'"{_AFTER}"'
    elif any(_BOXED in answer for answer in answers):
        settings["answer_boxed"] = "true"
    return settings


def first_rows(file: Path, count: int) -> list[dict[str, Any]]:
    """Return the first rows of a JSONL file."""
    with file.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in islice(lines, count)]


def count_text(count: int) -> str:
    """Return a number of parameters as text, such as `1.54 B`."""
    for unit, factor in (("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return str(count)


def splits_text(splits: Mapping[str, int]) -> str:
    """Return splits with their numbers of rows, such as `train 7473, test 1319`."""
    return ", ".join(f"{name} {rows}" for name, rows in splits.items())


def _from(entry: ModelEntry | DatasetEntry | BenchmarkEntry) -> str:
    if entry.added_at is None:
        return "the package"
    origin = entry.origin
    if origin.repository is None or origin.revision is None:
        return "a local copy"
    return f"{origin.repository}@{origin.revision[:7]}" + (f":{origin.part}" if origin.part else "")


def _print_facts(entry: ModelEntry | DatasetEntry | BenchmarkEntry, folder: Path, facts: Mapping[str, str]) -> None:
    stdout().print(Text(entry.name, "bold"))
    where = {"from": "the package"}
    if entry.added_at is not None:
        added = datetime.fromtimestamp(entry.added_at, UTC)
        where = {"from": origin_text(entry.origin), "added": f"{added:%Y-%m-%d %H:%M} UTC"}
    where |= {"size": size_text(entry.bytes), "in": str(folder), "digest": entry.digest}
    print_facts({**facts, **where}, 14)


def _print_spec(lines: Sequence[str]) -> None:
    console = stdout()
    console.print(Text("in a spec", "bold"))
    for line in ["training:", *(f"  {line}" for line in lines)]:
        console.print(Text(f"  {line}"), soft_wrap=True)
