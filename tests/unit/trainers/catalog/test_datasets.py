import gzip
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest

from trainers.catalog.add_from_disk import add_local_dataset
from trainers.catalog.entries import DatasetEntry, entry_folder, read_entry
from trainers.errors import ConfigError

ROWS: list[dict[str, Any]] = [
    {"problem": "What is 1,\n2 and\u2028½?", "answer": "012", "level": 3, "tags": ["a"], "date": "2020-01-01"},
    {"problem": 'Say "hi"', "answer": "1.50", "level": None, "tags": [], "date": "x"},
]


def kept(cache: Path, split: str = "train", name: str = "mine") -> list[dict[str, Any]]:
    text = (entry_folder(cache, DatasetEntry, name) / f"{split}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.removesuffix("\n").split("\n")]


def lines(rows: Any) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.jsonl", lines(ROWS).encode()),
        ("rows.jsonl", ("\ufeff" + lines(ROWS).replace("\n", "\r\n")).encode()),
        ("rows.json", json.dumps(ROWS).encode()),
        ("rows.json", json.dumps({"version": 1, "data": ROWS}, indent=2).encode()),
        ("rows.json", lines(ROWS).encode()),
        ("rows.jsonl.gz", gzip.compress(lines(ROWS).encode())),
    ],
)
def test_rows_are_kept_as_they_are(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    entry = add_local_dataset(tmp_path / name, tmp_path / "cache", "mine")
    assert kept(tmp_path / "cache") == ROWS
    assert (entry.splits, entry.columns) == ({"train": 2}, ("problem", "answer", "level", "tags", "date"))
    assert read_entry(tmp_path / "cache", DatasetEntry, "mine") == entry


def test_values_keep_their_own_types(tmp_path: Path) -> None:
    """No column has one type for all rows, as it has in tables: there 012 becomes 12, and long integers are rounded."""
    rows = [{"a": 1, "b": 10**30}, {"a": "012"}, {"a": [1.5], "c": "2020-01-01"}]
    (tmp_path / "rows.jsonl").write_text(lines(rows))
    add_local_dataset(tmp_path / "rows.jsonl", tmp_path / "cache", "mine")
    assert kept(tmp_path / "cache") == rows


def test_columns_of_a_table_are_texts(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text('problem,answer\n"What is 1,\n2?",012\nb,\n', encoding="utf-8")
    add_local_dataset(tmp_path / "rows.csv", tmp_path / "cache", "mine", split="hard")
    assert kept(tmp_path / "cache", "hard") == [
        {"problem": "What is 1,\n2?", "answer": "012"},
        {"problem": "b", "answer": ""},
    ]


def test_two_columns_of_one_name_in_parquet_are_refused(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table([pa.array(["4"]), pa.array(["7"])], names=["a", "a"]), tmp_path / "rows.parquet")
    with pytest.raises(ConfigError, match=r"read as \.parquet: two columns are named 'a'; rename one"):
        add_local_dataset(tmp_path / "rows.parquet", tmp_path / "cache", "mine")


def test_columns_without_a_name_may_be_several(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,,\n1,,\n")
    add_local_dataset(tmp_path / "rows.csv", tmp_path / "cache", "mine")
    assert [row["a"] for row in kept(tmp_path / "cache")] == ["1"]


@pytest.mark.parametrize(
    ("content", "row"),
    [
        ('\ufeffa , "the answer"\r\n"1, or\r\n2", "3, 4"\r\n', {"a": "1, or\r\n2", "the answer": "3, 4"}),
        ("a,b\n 1, 2\n", {"a": " 1", "b": " 2"}),
    ],
)
def test_a_table_may_have_spaces_after_its_commas(tmp_path: Path, content: str, row: dict[str, str]) -> None:
    (tmp_path / "rows.csv").write_bytes(content.encode())
    add_local_dataset(tmp_path / "rows.csv", tmp_path / "cache", "mine")
    assert kept(tmp_path / "cache") == [row]


def test_parquet_keeps_nested_columns_and_dates_become_texts(tmp_path: Path) -> None:
    import datetime

    import datasets

    table = {
        "chat": [[{"role": "user", "content": "hi"}]],
        "when": [datetime.date(2024, 2, 29)],
        "score": [float("nan")],
    }
    datasets.Dataset.from_dict(table).to_parquet(tmp_path / "rows.parquet")
    add_local_dataset(tmp_path / "rows.parquet", tmp_path / "cache", "mine")
    assert kept(tmp_path / "cache") == [
        {"chat": [{"role": "user", "content": "hi"}], "when": "2024-02-29", "score": None}
    ]


def test_narrow_numbers_of_parquet_keep_the_digits_that_they_have(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    numbers = [0.1, 1 / 3, None, float("nan")]
    types = {"half": pyarrow.float16(), "single": pyarrow.float32(), "double": pyarrow.float64()}
    half = [number if number is None else numpy.float16(number) for number in numbers]
    table = {name: pyarrow.array(half if name == "half" else numbers, kind) for name, kind in types.items()}
    parquet.write_table(pyarrow.table(table), tmp_path / "rows.parquet")
    add_local_dataset(tmp_path / "rows.parquet", tmp_path / "cache", "mine")
    assert kept(tmp_path / "cache") == [
        {"half": 0.1, "single": 0.1, "double": 0.1},
        {"half": 0.3333, "single": 0.33333334, "double": 1 / 3},
        {"half": None, "single": None, "double": None},
        {"half": None, "single": None, "double": None},
    ]


@pytest.mark.parametrize(
    ("name", "content", "refusal"),
    [
        ("rows.jsonl", '{"a": 1}\n[2]\n', "rows.jsonl, row 2: expected an object with columns, got '[2]'"),
        ("rows.jsonl", '{"a": 1}\n{"a": NaN}\n', "line 2: NaN is not a number in JSON"),
        ("rows.jsonl", '{"a": 1}\n{"a"\n', "rows.jsonl cannot be read as .jsonl: line 2"),
        ("rows.jsonl", '{"a": ' + "[" * 5000 + "]" * 5000 + "}\n", "read as .jsonl: its values are nested too deep"),
        ("rows.json", '{"a": 1, "b": 2}', "expected a list of objects, or an object with one such list"),
        (
            "rows.jsonl",
            '{"a": 1}\n{"a": 1, "b": {"c": 1, "c": 2}}\n',
            "line 2: the key 'c' appears twice in one object",
        ),
        ("rows.json", '[{"a": 1, "a": 2}]', "read as .json: the key 'a' appears twice in one object"),
        ("rows.json", '{"data": [\n{"a": 1, "a": 2}]}', "read as .json: the key 'a' appears twice in one object"),
        ("rows.csv", "a,b,a\n1,2,3\n", "rows.csv cannot be read as .csv: two columns are named 'a'; rename one"),
        ("rows.csv", "a, b,a \n1,2,3\n", "two columns are named 'a'; rename one"),
        ("rows.tsv", "a\tb\ta\n1\t2\t3\n", "two columns are named 'a'; rename one"),
        ("rows.csv", "a,b\n1,2,3\n", "rows.csv, row 1: more values than the first line names columns"),
        ("rows.csv", 'a,b\n1,"2\n', "rows.csv cannot be read as .csv"),
        ("rows.csv", "a;b\n1;2\n", "one column named 'a;b': is the separator a comma?"),
        ("rows.tsv", "a,b\n1,2\n", "one column named 'a,b': is the separator a tab?"),
        ("rows.csv", "a,b\nMünchen,2\n".encode("latin-1"), "rows.csv is not in UTF-8 (invalid"),
        ("rows.jsonl", '{"a": "ü"}\n'.encode("latin-1"), "; save it as UTF-8"),
        ("rows.parquet", "PAR1", "rows.parquet cannot be read as .parquet"),
        ("rows.jsonl.gz", "plain", "rows.jsonl.gz cannot be read as .jsonl"),
        ("rows.txt", "a", "rows.txt: rows are read from .jsonl"),
        ("rows.jsonl", "", "split train has no rows"),
    ],
)
def test_what_is_no_dataset_is_refused_and_leaves_nothing(
    tmp_path: Path, name: str, content: str | bytes, refusal: str
) -> None:
    (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ConfigError) as refused:
        add_local_dataset(tmp_path / name, tmp_path / "cache", "mine")
    assert refusal in str(refused.value)
    assert str(refused.value).count(name) == 1
    assert [path.name for path in (tmp_path / "cache" / "datasets").iterdir()] == [".mine~lock"]


def test_files_side_by_side_are_a_split_each(tmp_path: Path) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "train.jsonl").write_text(lines(ROWS))
    (folder / "hard.csv").write_text("problem,level\na,1\n")
    (folder / "LICENSE").write_text("yours")
    entry = add_local_dataset(folder, tmp_path / "cache", "mine")
    assert entry.splits == {"hard": 1, "train": 2}
    assert set(entry.columns) == {"problem", "answer", "level", "tags", "date"}


CARD = """---
configs:
- config_name: main
  data_files:
  - split: train
    path: main/train-*
  - split: test
    path: main/test-*
- config_name: other
  data_files: other/*.jsonl
---
"""


def dataset_with_a_card(folder: Path) -> Path:
    for name in ("main/train-0-of-2", "main/train-1-of-2", "main/test-0-of-1", "other/rows"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.jsonl").write_text(lines([{"from": name}]))
    (folder / "README.md").write_text(CARD)
    return folder


def test_a_card_tells_the_splits_of_a_configuration(tmp_path: Path) -> None:
    folder, cache = dataset_with_a_card(tmp_path / "here"), tmp_path / "cache"
    assert add_local_dataset(folder, cache, "mine", config="main").splits == {"train": 2, "test": 1}
    assert [row["from"] for row in kept(cache)] == ["main/train-0-of-2", "main/train-1-of-2"]
    assert add_local_dataset(folder, cache, "another", config="other").splits == {"train": 1}
    for config, refusal in ((None, "it has several configurations"), ("third", "it has no configuration third")):
        with pytest.raises(ConfigError, match=f"{refusal}; name one with --config: main, other"):
            add_local_dataset(folder, cache, "third", config=config)


def test_a_dataset_made_by_a_script_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "here.py").write_text("raise SystemExit")
    with pytest.raises(ConfigError, match=r"it is made by a script \(here\.py\), and such code is never run here"):
        add_local_dataset(folder, tmp_path / "cache", "mine")


def test_the_same_rows_again_are_there_already_and_others_are_refused(tmp_path: Path) -> None:
    file, cache = tmp_path / "rows.jsonl", tmp_path / "cache"
    file.write_text(lines(ROWS))
    first = add_local_dataset(file, cache, "mine")
    assert add_local_dataset(file, cache, "mine") == first
    file.write_text(lines(ROWS[:1]))
    with pytest.raises(ConfigError, match=r"mine is in the catalog of datasets with other content"):
        add_local_dataset(file, cache, "mine")
    assert kept(cache) == ROWS
    assert {path.name for path in (cache / "datasets").iterdir()} == {"mine", ".mine~lock"}


def test_rows_that_grow_beyond_the_disk_are_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(b'{"a": 1}\n' * 2000))
    free = iter([1 << 40, 1 << 40, 1000])
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=next(free)))
    with pytest.raises(ConfigError, match=r"more is needed and .*datasets has 1\.0 kB free; make room"):
        add_local_dataset(tmp_path / "rows.jsonl.gz", tmp_path / "cache", "mine")
    assert [path.name for path in (tmp_path / "cache" / "datasets").iterdir()] == [".mine~lock"]
