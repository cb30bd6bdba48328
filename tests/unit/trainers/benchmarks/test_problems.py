import json
import operator
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.unit.trainers.benchmarks.make_arithmetic import problems as arithmetic_problems
from tests.unit.trainers.benchmarks.make_expressions import problems as expression_problems
from tests.unit.trainers.tasks.chats import write_benchmark
from trainers.benchmarks.known_benchmarks import KNOWN_BENCHMARKS
from trainers.benchmarks.problems import BenchmarkProblem, converted, jsonl, read_problems, read_upstream
from trainers.config import ExpressionsTask
from trainers.errors import ConfigError
from trainers.tasks import Problem, make_task


def _numbered(count: int) -> list[BenchmarkProblem]:
    return [BenchmarkProblem(id=f"p{i}", problem=f"What is {i}?", answer=str(i), source="own") for i in range(count)]


def test_the_shipped_benchmark_is_what_its_generator_writes_and_its_answers_are_right(tmp_path: Path) -> None:
    problems = read_problems("arithmetic", tmp_path).problems
    assert problems == arithmetic_problems()
    operations = {
        r"What is (\d+) plus (\d+)\?": operator.add,
        r"What is (\d+) minus (\d+)\?": operator.sub,
        r"What is (\d+) times (\d+)\?": operator.mul,
        r"What is the remainder of (\d+) divided by (\d+)\?": operator.mod,
    }
    for problem in problems:
        (answer,) = [
            operation(*map(int, match.groups()))
            for text, operation in operations.items()
            if (match := re.fullmatch(text, problem.problem))
        ]
        assert problem.answer == str(answer)


def test_the_benchmark_of_expressions_asks_as_the_task_does(tmp_path: Path) -> None:
    problems = read_problems("expressions", tmp_path).problems
    assert problems == expression_problems()
    task = make_task(ExpressionsTask(), tmp_path)
    asked = {Problem(problem.problem, problem.answer) for problem in problems}
    assert asked <= {*task.training, *task.validation}
    assert len(asked) == 24


def test_a_written_file_is_read_back_and_named_by_the_digest_of_its_bytes(tmp_path: Path) -> None:
    odd = BenchmarkProblem(id="p", problem="two\nlines,\u2028one \\frac{1}{2}", answer="½", source="own")
    file = write_benchmark(tmp_path, "aime24", jsonl([*_numbered(29), odd]))
    first = read_problems("aime24", tmp_path)
    assert first.problems[-1] == odd
    assert first.origin == "a local copy"
    file.write_bytes(file.read_bytes().removesuffix(b"\n"))
    second = read_problems("aime24", tmp_path)
    assert second.problems == first.problems
    assert second.sha256 != first.sha256


def test_a_missing_file_is_refused_with_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"`sweeps benchmarks add` math500, from openai/prm800k@00811d6"):
        read_problems("math500", tmp_path)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (jsonl(_numbered(29)), "29 problems; aime24 has 30"),
        (jsonl([*_numbered(29), _numbered(1)[0]]), "1 values of id occur more than once, such as 'p0'"),
        (jsonl(_numbered(30)).replace('"answer": "7"', '"answer": ""'), "line 8: answer: String should have"),
        (jsonl(_numbered(30)).replace('"id": "p9"', '"nr": 9'), "line 10: id: Field required, nr: Extra"),
        (jsonl(_numbered(30)) + '{"id": "p', "line 31: Invalid JSON"),
        ("", "line 1: Invalid JSON"),
        ("\n" * 9, "4 more such lines"),
    ],
)
def test_a_file_that_is_not_the_benchmark_is_refused(tmp_path: Path, text: str, refusal: str) -> None:
    write_benchmark(tmp_path, "aime24", text)
    with pytest.raises(ConfigError, match=re.escape(refusal)):
        read_problems("aime24", tmp_path)


def _chat(problem: str, answer: str) -> dict[str, Any]:
    """A record in the form of verl's data files."""
    return {"prompt": [{"content": problem, "role": "user"}], "reward_model": {"ground_truth": answer}, "ability": "M"}


PUBLISHED: dict[str, Sequence[dict[str, Any]]] = {
    "each problem 32 times": [_chat(f"Problem {i}", str(i)) for _ in range(32) for i in range(30)],
    "questions with solutions": [{"question": f"Problem {i}", "answer": f"so\n2+{i}\n#### {i}"} for i in range(30)],
    "answers as floats": [{"id": i, "problem": f"Problem {i}", "answer": float(i)} for i in range(30)],
}


@pytest.mark.parametrize("records", PUBLISHED.values(), ids=PUBLISHED)
@pytest.mark.parametrize("as_list", [True, False])
def test_published_forms_become_numbered_problems(
    tmp_path: Path, records: Sequence[dict[str, Any]], as_list: bool
) -> None:
    file = tmp_path / "published.json"
    file.write_text(json.dumps(records) if as_list else "\n".join(map(json.dumps, records)))
    problems = read_upstream("aime24", [file], "Kwai-Klear/CE-GPPO@10558fe")
    assert [problem.problem for problem in problems] == [f"Problem {i}" for i in range(30)]
    assert [problem.answer for problem in problems] == [str(i) for i in range(30)]
    assert problems[29].id == "aime24-0030"
    assert problems[0].source.startswith("Kwai-Klear/CE-GPPO@10558fe")


@pytest.mark.parametrize(
    ("answer", "kept"), [("#### 2,125", "2125"), ("1,234.5", "1234.5"), ("(1,2)", "(1,2)"), (27.0, "27"), (2.5, "2.5")]
)
def test_only_numbers_lose_their_commas(answer: Any, kept: str) -> None:
    records = [{"problem": f"Problem {i}", "answer": answer} for i in range(30)]
    assert converted("aime24", records, "here")[0].answer == kept


def test_a_column_with_the_group_is_kept_and_files_without_one_stay_as_they_are(tmp_path: Path) -> None:
    records = [{"problem": f"{n}?", "answer": "1", "group": group} for n, group in enumerate(["a", 7, None, True])]
    problems = converted("own", [*records, records[0]], "here")
    assert [problem.group for problem in problems] == ["a", "7", "", ""]
    assert ["group" in json.loads(line) for line in jsonl(problems).splitlines()] == [True, True, False, False]
    file = tmp_path / "own.jsonl"
    file.write_text(jsonl(problems))
    assert read_upstream("own", [file], "here") == problems
    with pytest.raises(ConfigError, match="record 2: group 'b', but 'a' before"):
        converted("own", [records[0], records[0] | {"group": "b"}], "here")


def test_records_that_contradict_or_lack_something_are_refused() -> None:
    records = [{"problem": "a", "answer": "1"}, {"problem": "a", "answer": "2"}, {"text": "b"}, {"problem": "c"}]
    with pytest.raises(ConfigError) as refusal:
        converted("aime24", records, "here")
    assert refusal.value.problems == (
        "here, record 2: answer '2', but '1' before",
        "here, record 3: no problem or no answer among text",
        "here, record 4: no problem or no answer among problem",
    )
    with pytest.raises(ConfigError, match="1 problems; aime24 has 30"):
        converted("aime24", records[:1], "here")


def test_the_documentation_has_the_catalog() -> None:
    rows = (Path(__file__).parents[4] / "docs" / "benchmarks.md").read_text().splitlines()
    for name, known in KNOWN_BENCHMARKS.items():
        (row,) = [row for row in rows if row.startswith(f"| `{name}` |")]
        assert row.startswith(f"| `{name}` | {known.problems} | {known.samples} | {known.max_tokens} | ")
        assert known.source is None or f"| {known.source} " in row
    published = [known for name, known in KNOWN_BENCHMARKS.items() if name != "expressions"]
    assert {(one.temperature, one.top_p, one.chat, one.reward) for one in published} == {(0.6, 0.95, True, "math")}
