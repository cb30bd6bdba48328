import json
import random
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.unit.trainers.tasks import make_shop_sums
from tests.unit.trainers.tasks.chats import add_benchmark, add_dataset, write_benchmark
from trainers.config import WordProblemsTask
from trainers.errors import ConfigError
from trainers.tasks.base import Completion, Problem
from trainers.tasks.dataset_rows import dataset_file
from trainers.tasks.word_problems import WordProblems

SHOP = WordProblems(WordProblemsTask(reward="number"), Path("absent"))


def line(number: int, **changes: Any) -> dict[str, Any]:
    return {"problem": f"What is {number} and 1?", "answer": str(number + 1)} | changes


def write(cache: Path, lines: Sequence[object], name: str = "sums", split: str = "train") -> Path:
    add_dataset(cache, name, {split: lines})
    return cache / "datasets" / name / f"{split}.jsonl"


def task(cache: Path, **changes: Any) -> WordProblems:
    return WordProblems(WordProblemsTask.model_validate({"data": "sums", "reward": "number"} | changes), cache)


def kept(problems: WordProblems) -> int:
    return len(problems.training) + len(problems.validation)


def left_out(problems: WordProblems) -> dict[str, int]:
    return dict(Counter(reason for reason, _ in problems.left_out))


def test_the_shipped_file_is_the_one_that_its_script_makes_and_its_answers_are_right() -> None:
    assert dataset_file("shop-sums", "train", Path("absent")).read_text().splitlines() == list(make_shop_sums.lines())
    problems = SHOP.training + SHOP.validation
    assert (len(SHOP.training), len(SHOP.validation), len({problem.prompt for problem in problems})) == (360, 40, 400)
    judgements = SHOP.judge(problems, [Completion(problem.answer, 1, truncated=False) for problem in problems])
    assert all(judgement.correct for judgement in judgements)


def test_a_prompt_is_the_text_between_prefix_and_suffix(tmp_path: Path) -> None:
    write(tmp_path, [line(number, source="elsewhere") for number in range(1, 21)])
    problems = task(tmp_path, data={"ref": "sums", "system": "Q: ", "suffix": " A:"})
    assert problems.training[0] == Problem("Q: What is 1 and 1? A:", "2")
    assert [problem.answer for problem in problems.validation] == ["11", "21"]


def test_repeated_problems_are_all_on_one_side(tmp_path: Path) -> None:
    texts = [f"What is {number} and 1?" for number in range(1, 11)]
    again = [f"what  IS {number} and 1 ?".replace(" ?", "?") for number in range(1, 11)]
    lines = [line(number, problem=text) for number, text in enumerate([*again, *texts, *texts])]
    write(tmp_path, lines)
    problems = task(tmp_path, validation_every=5)
    training, validation = (
        {" ".join(problem.prompt.lower().split()) for problem in part}
        for part in (problems.training, problems.validation)
    )
    assert not training & validation
    assert (len(training), len(validation)) == (8, 2)
    assert len(problems.training) + len(problems.validation) == 30


def test_training_leaves_out_what_validation_has_and_no_other_held_out_problem(tmp_path: Path) -> None:
    add_dataset(tmp_path, "both", {"train": [line(n) for n in range(30)], "test": [line(n) for n in range(10)]})
    problems = task(tmp_path, data="both", validation={"split": "test", "problems": 4})
    training, validation = ({problem.answer for problem in part} for part in (problems.training, problems.validation))
    assert (len(validation), left_out(problems)) == (4, {"like_validation": 4})
    assert training == {str(number + 1) for number in range(30)} - validation


def test_the_warm_start_is_taught_the_training_answers_in_boxes() -> None:
    random_numbers = random.Random(0)
    answers = {problem.prompt: problem.answer for problem in SHOP.training}
    examples = [SHOP.worked_example(random_numbers) for _ in range(500)]
    assert all(answer == rf"\boxed{{{answers[prompt]}}}" for prompt, answer in examples)
    assert len({prompt for prompt, _ in examples}) > 200


def test_the_warm_start_is_taught_no_prompt_that_is_too_long(tmp_path: Path) -> None:
    write(tmp_path, [line(number, problem="why " * (200 if number % 2 else 1) + str(number)) for number in range(20)])
    problems, random_numbers = task(tmp_path, max_prompt_tokens=100), random.Random(0)
    assert {int(problems.worked_example(random_numbers)[1][7:-1]) % 2 for _ in range(100)} == {1}


def test_the_tokenizer_spells_real_text_with_few_tokens() -> None:
    tokenizer = SHOP.tokenizer()
    assert len(tokenizer) <= 512
    for problem in SHOP.training[:50]:
        ids = tokenizer(problem.prompt)["input_ids"]
        assert tokenizer.decode(ids) == problem.prompt
        assert len(ids) < len(problem.prompt) / 2


def test_the_recipe_names_what_the_warm_start_follows_from(tmp_path: Path) -> None:
    recipes = [SHOP.recipe]
    write(tmp_path, [line(number) for number in range(20)])
    write(tmp_path, [line(number, answer="7") for number in range(20)], name="sevens")
    recipes += [
        task(tmp_path).recipe,
        task(tmp_path, data={"ref": "sums", "suffix": "?"}).recipe,
        task(tmp_path, reward="exact").recipe,
    ]
    recipes += [task(tmp_path, data="sevens").recipe, task(tmp_path, data="sevens", max_prompt_tokens=100).recipe]
    assert recipes[1] == recipes[3]  # a reward teaches nothing before training
    assert len({json.dumps(recipe) for recipe in recipes}) == 5


def test_answers_that_are_no_numbers_are_refused_before_anything_runs(tmp_path: Path) -> None:
    worked = [line(n, answer=f"{n} and 1\nmake {n + 1}\n#### {n + 1}") for n in range(9)]
    write(tmp_path, [line(9, answer="10"), *worked])
    with pytest.raises(ConfigError) as refusal:
        task(tmp_path)
    problems = refusal.value.problems
    assert problems[0].startswith("task.reward: the reward number cannot judge answers to 'What is 0 and 1?': '0 and 1")
    assert len(problems) == 9 + 1
    assert problems[-1] == (
        "task.reward: of 10 problems 9 are like this; name where the answer stands by task.data.answer_after or "
        "answer_boxed; or leave such problems out by task.unreadable_answers: leave_out"
    )
    assert kept(task(tmp_path, data={"ref": "sums", "answer_after": "####"}, validation_every=9)) == 9


def test_answers_that_are_no_numbers_can_be_left_out_and_are_counted(tmp_path: Path) -> None:
    rows = [line(number, **({"answer": "many"} if number % 4 == 0 else {})) for number in range(40)]
    write(tmp_path, rows)
    problems = task(tmp_path, unreadable_answers="leave_out")
    assert left_out(problems) == {"unreadable": 10}
    assert len(problems.training) + len(problems.validation) == 30
    with pytest.raises(ConfigError, match=r"of 40 problems 10 are like this; set task\.reward to math"):
        task(tmp_path)
    assert kept(task(tmp_path, reward="math", unreadable_answers="leave_out")) == 40
    write(tmp_path, [line(number, answer=f"many {number // 2 * 'x'}") for number in range(60)], name="words")
    with pytest.raises(ConfigError, match="of 60 problems 60 are like this; 10 more answers are not shown") as refusal:
        task(tmp_path, data="words")
    assert len(refusal.value.problems) == 20 + 1
    assert refusal.value.problems[0] == (
        "task.reward: the reward number cannot judge answers to 'What is 0 and 1?': 'many' is not one number; "
        "1 more problems have it"
    )


@pytest.mark.parametrize(
    ("reward", "golds", "reason"),
    [
        ("math", {"A. 12", "?"}, "is nothing that math-verify reads"),
        ("math", {"1e-07", "2.5E3"}, "has an exponent behind an e, which is read as Euler's e; write the number out"),
        ("math", {"x" * 2001}, "has 2001 characters; at most 2000 can be read"),
        ("number", {r"\frac{1}{2}", "½", "x/2", "n<5", "A-5", "1/x", "|5|"}, "is not one number"),
        ("expression", {"7.5", "B", "50000", "1_0"}, "is not a whole number of at most four digits"),
        ("exact", {"."}, "holds no text to compare"),
        ("exact", {r"so \boxed{5}", "f(x) = {\nx"}, "can stand neither in a box nor in one line"),
    ],
)
def test_golds_that_a_reward_cannot_read_are_found_before_training(
    tmp_path: Path, reward: str, golds: set[str], reason: str
) -> None:
    readable = {
        "math": [r"0.\overline{3}", "½", "3²", "\N{FULLWIDTH DIGIT FIVE}", r"\text{no solution}", "B"],
        "number": ["1,234", "3/4", "-$5", "18 m/s", "x = 5"],
        "expression": ["7"],
        "exact": ["A. 12", "f(x) = {", "one\ntwo", r"\{1, 2\}"],
    }[reward]
    for name in ("alone", "among"):  # with another reward of another weight, too
        rows = [line(number, answer=gold) for number, gold in enumerate([*readable, *readable, *sorted(golds)])]
        write(tmp_path, rows, name=name)
    further = {} if reward == "exact" else {"further_rewards": {reward: {"weight": 0.5}}}
    for task_of in ({"data": "alone", "reward": reward}, {"data": "among", "reward": "exact"} | further):
        with pytest.raises(ConfigError) as refusal:
            task(tmp_path, **task_of)
        named = [problem for problem in refusal.value.problems if f"the reward {reward} cannot judge" in problem]
        assert len(named) == len(golds)
        assert all(
            problem.endswith(f": {gold!r:.100} {reason}") for problem, gold in zip(named, sorted(golds), strict=True)
        )
    assert kept(task(tmp_path, data="alone", reward=reward, unreadable_answers="leave_out", validation_every=2)) == (
        2 * len(readable)
    )


@pytest.mark.parametrize(
    ("reward", "further", "golds", "remedy"),
    [
        ("number", [], ["many", "5"], "set task.reward to math; or leave such problems out by"),
        ("number", [], ["many", "?", "5"], "set task.reward to exact; or leave such problems out by"),
        ("number", ["math"], ["many", "5"], "set task.reward to exact; or leave such problems out by"),
        ("number", [], ["many"], "set task.reward to math"),
        ("expression", [], ["7.5"], "set task.reward to math"),
        ("exact", [], ["."], "name another column by task.data.answer"),
        ("exact", ["number"], ["many", "5"], "take number out of task.further_rewards; or leave such problems out by"),
    ],
)
def test_what_helps_golds_that_a_reward_cannot_read_does_help(
    tmp_path: Path, reward: str, further: list[str], golds: list[str], remedy: str
) -> None:
    write(tmp_path, [line(number, answer=gold) for number, gold in enumerate(golds)])
    with pytest.raises(ConfigError) as refusal:
        task(tmp_path, reward=reward, further_rewards={name: {} for name in further})
    said = refusal.value.problems[-1].partition("are like this; ")[2]
    assert said == remedy + " task.unreadable_answers: leave_out" * remedy.endswith(" by")


def test_faults_of_data_benchmarks_and_reward_are_said_at_once(tmp_path: Path) -> None:
    write(tmp_path, [line(number, answer="many") for number in range(20)])
    held_out = {"ref": "missing", "split": "test"}
    with pytest.raises(ConfigError) as refusal:
        task(tmp_path, validation=held_out, apart_from=["aime99"])
    said = "\n".join(refusal.value.problems)
    for part in ("task.apart_from: ", "task.validation: task.data: missing", "of 20 problems 20 are like this"):
        assert part in said
    with pytest.raises(ConfigError) as refusal:
        task(tmp_path, validation=held_out, reward="unheard-of")
    assert [problem.partition(":")[0] for problem in refusal.value.problems] == ["task.reward", "task.validation"]


# columns


def test_columns_are_found_by_their_names(tmp_path: Path) -> None:
    rows = [{"q": f" What is {n}? ", "checked": {"by": [{"value": n}]}, "answer": "?"} for n in range(20)]
    write(tmp_path, rows)
    columns = {"ref": "sums", "prompt": "q", "answer": "checked.by.0.value", "suffix": ""}
    assert task(tmp_path, data=columns).training[3] == Problem("What is 3?", "3")


def test_problems_have_the_group_of_their_row(tmp_path: Path) -> None:
    kinds: list[Any] = [{"of": "add"}, {"of": 7}, {"of": 7.0}, {"of": " "}, {"of": None}, {}]
    write(tmp_path, [line(number, kind=kind) for number, kind in enumerate(kinds)])
    problems = task(tmp_path, data={"ref": "sums", "group": "kind.of"}, validation_every=2)
    assert [problem.group for problem in problems.validation] == ["7", "", ""]
    assert problems.validation[0].content[2:] == ("7",)
    assert problems.validation[1].content == problems.validation[1][:2]


@pytest.mark.parametrize(
    ("group", "complaint"),
    [
        ("familly", "task.data.group: sums has no column familly; it has problem, answer, kind"),
        ("kind.fro", "task.data.group: no row of sums has kind.fro; in the first, kind has of"),
        ("kind", 'line 1 and 1 more: kind is {"of": true}; the group must be a text or a number, or missing'),
        ("kind.of", "line 1 and 1 more: kind.of is true; the group must be a text or a number, or missing"),
    ],
)
def test_a_group_that_is_none_is_refused(tmp_path: Path, group: str, complaint: str) -> None:
    write(tmp_path, [line(number, kind={"of": True}) for number in range(2)])
    with pytest.raises(ConfigError, match=re.escape(complaint)):
        task(tmp_path, data={"ref": "sums", "group": group})


def test_groups_are_read_of_the_rows_that_are_validated_on(tmp_path: Path) -> None:
    add_dataset(
        tmp_path, "both", {"train": [line(n) for n in range(9)], "test": [line(n + 20, kind="k") for n in range(3)]}
    )
    problems = task(tmp_path, data={"ref": "both", "group": "kind"}, validation={"split": "test"})
    assert [problem.group for problem in problems.validation] == ["k"] * 3
    with pytest.raises(
        ValueError, match=r"data\.group kind is for rows that are validated on, and validation\.benchmark"
    ):
        task(tmp_path, data={"ref": "both", "group": "kind"}, validation={"benchmark": "aime24"})
    rows = [{"id": f"{n}", "problem": f"{n}?", "answer": "1", "source": ""} for n in range(2)]
    write_benchmark(tmp_path, "mine", "\n".join(map(json.dumps, [rows[0] | {"group": "g"}, rows[1]])))
    tested = task(tmp_path, data={"ref": "both"}, validation={"benchmark": "mine"}).validation
    assert [problem.group for problem in tested] == ["g", ""]


def test_a_path_that_no_row_has_is_refused_with_what_there_is(tmp_path: Path) -> None:
    write(tmp_path, [{"q": [{"text": "What is 1?"}], "a": {"truth": {"value": n}}} for n in range(20)])
    with pytest.raises(ConfigError) as refusal:
        task(tmp_path, data={"ref": "sums", "prompt": "q.-2.text", "answer": "a.truth.valeu"})
    assert refusal.value.problems == (
        "task.data.prompt: no row of sums has q.-2.text; in the first, q is a list of 1",
        "task.data.answer: no row of sums has a.truth.valeu; in the first, a.truth has value",
    )


@pytest.mark.parametrize(
    ("row", "prompt"),
    [
        ({"task": "Add.", "input": "3 and 4"}, "Sum {up}:\nAdd.\n\n3 and 4"),
        ({"task": "Add.", "input": "3\r\nand\r4"}, "Sum {up}:\nAdd.\n\n3\nand\n4"),
        ({"task": " Add 3 and 4.\n", "input": ""}, "Sum {up}:\nAdd 3 and 4."),
        ({"task": "Add 3 and 4.", "input": None}, "Sum {up}:\nAdd 3 and 4."),
        ({"task": "{input}", "input": 7.0}, "Sum {up}:\n{input}\n\n7"),
    ],
)
def test_a_prompt_may_be_made_of_several_columns(tmp_path: Path, row: dict[str, Any], prompt: str) -> None:
    blank = {"task": " ", "input": None, "answer": 1}
    add_dataset(tmp_path, "sums", {"train": [row | {"answer": 1}, blank], "test": [line(1, task="Other", input="")]})
    data = {"ref": "sums", "prompt": "Sum {{up}}:\n{task}\n\n{input}", "suffix": ""}
    problems = task(tmp_path, data=data, validation={"split": "test"})
    assert left_out(problems) == {"empty": 1}
    assert (problems.training, problems.validation) == ([Problem(prompt, "1")], [Problem("Sum {up}:\nOther", "2")])


def test_a_brace_of_no_column_is_refused() -> None:
    for prompt in ("{instruction}\n\n{input", "{problem} }", "{problem} in \\boxed{}", "{"):
        with pytest.raises(ValueError, match=r"a brace that is none of a column's; write \{\{ and \}\} for braces"):
            WordProblemsTask.model_validate({"data": {"prompt": prompt}})


def test_a_prompt_that_would_show_its_answer_is_refused() -> None:
    for data in ({"prompt": "answer"}, {"prompt": "{problem} = {answer}"}, {"prompt": "{a.b}", "answer": "a.b"}):
        with pytest.raises(ValueError, match="every prompt would show its answer"):
            WordProblemsTask.model_validate({"data": data})


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        (18, "18"),
        (18.0, "18"),
        (0.5, "0.5"),
        (0.00001, "0.00001"),
        (-3, "-3"),
        pytest.param(10**400, "1" + 400 * "0", id="400 digits"),
        (" 1,200 ", "1,200"),
        (r"\frac{1}{2}", r"\frac{1}{2}"),
    ],
)
def test_an_answer_may_be_a_number(tmp_path: Path, answer: object, read: str) -> None:
    path = write(tmp_path, [line(number) for number in range(20)])
    path.write_text("".join(json.dumps(line(number, answer=answer)) + "\n" for number in range(20)))
    assert task(tmp_path, reward="exact").training[0].answer == read


def test_the_answer_is_what_follows_the_last_marker(tmp_path: Path) -> None:
    rows = [line(number, answer=f"{number} + 1 #### no\n#### {number + 1}") for number in range(20)]
    write(tmp_path, [*rows, line(20, answer="21"), line(21, answer="####  ")])
    problems = task(tmp_path, data={"ref": "sums", "answer_after": "####"})
    assert problems.training[0].answer == "1"
    assert left_out(problems) == {"no_answer": 2}


def test_the_answer_is_in_the_last_box(tmp_path: Path) -> None:
    rows = [line(n, answer=rf"Not \boxed{{0}} but $\boxed{{\frac{{{n}}}{{2}}}}$.") for n in range(20)]
    write(tmp_path, [*rows, line(20, answer="no box")])
    problems = task(tmp_path, data={"ref": "sums", "answer_boxed": True}, reward="exact")
    assert problems.training[1].answer == r"\frac{1}{2}"
    assert left_out(problems) == {"no_answer": 1}


def test_rows_pass_by_the_values_of_their_columns(tmp_path: Path) -> None:
    rows = [line(n, level=f"Level {n % 3}", hard=bool(n % 2), size=n % 4) for n in range(60)]
    write(tmp_path, rows)
    levels = {"level": ["Level 1", "Level 2"], "hard": True, "size": [1, 3]}
    problems = task(tmp_path, data={"ref": "sums", "filter": levels})
    kept = [*problems.training, *problems.validation]
    assert sorted(int(problem.answer) - 1 for problem in kept) == [n for n in range(60) if n % 3 and n % 2]
    assert left_out(problems) == {"filter": 60 - len(kept)}


def test_rows_without_problem_or_answer_are_left_out_and_counted(tmp_path: Path) -> None:
    bad = [line(50, problem=""), line(51, problem=" \n"), line(52, problem=None), {"answer": "1"}]
    write(tmp_path, [*(line(number) for number in range(20)), *bad, line(53, answer=None), {"problem": "?"}])
    problems = task(tmp_path)
    assert left_out(problems) == {"empty": 4, "no_answer": 2}
    assert len(problems.training) + len(problems.validation) == 20


def test_a_missing_column_is_refused_with_those_there_are(tmp_path: Path) -> None:
    write(tmp_path, [line(number, level=1) for number in range(20)])
    with pytest.raises(ConfigError) as refusal:
        task(tmp_path, data={"ref": "sums", "prompt": "question", "answer": "solution", "filter": {"lvl": 1}})
    assert refusal.value.problems == (
        "task.data.prompt: sums has no column question; it has problem, answer, level",
        "task.data.answer: sums has no column solution; it has problem, answer, level",
        "task.data.filter.lvl: sums has no column lvl; it has problem, answer, level",
    )


# apart


def test_validation_is_another_split_whose_problems_are_not_trained_on(tmp_path: Path) -> None:
    again = [line(n, problem=f"what is  ${n}$ and 1 ?") for n in range(5, 8)]
    add_dataset(
        tmp_path, "sums", {"train": [line(n) for n in range(20)], "test": [*again, *(line(n) for n in range(30, 37))]}
    )
    problems = task(tmp_path, validation={"split": "test"})
    assert [int(problem.answer) - 1 for problem in problems.training] == [*range(5), *range(8, 20)]
    assert len(problems.validation) == 10
    assert left_out(problems) == {"like_validation": 3}
    assert [(source.split, source.rows) for source in problems.sources] == [("train", 20), ("test", 10)]
    few = task(tmp_path, validation={"split": "test", "problems": 4})
    assert few.validation == [problems.validation[place] for place in (0, 2, 5, 7)]


def test_validation_may_be_another_dataset_with_a_filter_of_its_own(tmp_path: Path) -> None:
    write(tmp_path, [line(n, level=1) for n in range(10)])
    write(tmp_path, [line(n, level=n % 2) for n in range(100, 110)], name="others")
    held_out = {"ref": "others", "split": "train", "filter": {"level": 0}}
    problems = task(tmp_path, validation=held_out, data={"ref": "sums", "filter": {"level": 1}})
    assert (len(problems.training), len(problems.validation)) == (10, 5)


def test_problems_of_a_benchmark_are_neither_trained_nor_validated_on(tmp_path: Path) -> None:
    write(tmp_path, [line(n) for n in range(30)])
    add_benchmark(tmp_path, "held", [f"WHAT is {n} and $1$?" for n in (3, 9, 29, 77)])
    problems = task(tmp_path, apart_from=["held", "arithmetic"])
    kept = [int(problem.answer) - 1 for problem in [*problems.training, *problems.validation]]
    assert sorted(kept) == [n for n in range(30) if n not in (3, 9, 29)]
    assert left_out(problems) == {"like_benchmark": 3}
    with pytest.raises(ConfigError, match=r"task\.apart_from: aime24 is not in the catalog of benchmarks"):
        task(tmp_path, apart_from=["aime24"])


def test_validation_may_be_a_benchmark_from_which_the_data_is_kept_apart(tmp_path: Path) -> None:
    write(tmp_path, [line(n) for n in range(30)])
    add_benchmark(tmp_path, "held", [f"WHAT is {n} and $1$?" for n in (3, 9, 29, 77)])
    problems = task(tmp_path, validation={"benchmark": "held"})
    asked = "WHAT is 3 and $1$?\nPut the final answer in \\boxed{}.\n"
    assert problems.validation[0] == Problem(asked, "1")
    assert len(problems.validation) == 4
    assert [int(problem.answer) - 1 for problem in problems.training] == [n for n in range(30) if n not in (3, 9, 29)]
    assert left_out(problems) == {"like_benchmark": 3}
    assert [(source.ref, source.split, source.rows) for source in problems.sources] == [
        ("sums", "train", 30),
        ("held", "benchmark", 4),
    ]
    few = task(tmp_path, validation={"benchmark": "held", "problems": 2})
    assert few.validation == [problems.validation[0], problems.validation[2]]
    assert few.training == problems.training


def test_a_benchmark_is_kept_apart_from_columns_and_turns_and_asked_as_the_data_are(tmp_path: Path) -> None:
    write(tmp_path, [line(n) for n in range(30)])
    add_benchmark(tmp_path, "held", [f"WHAT is {n} and 1?" for n in (3, 77)])
    data = {"ref": "sums", "prompt": "Problem: {problem}", "suffix": ""}
    assert left_out(task(tmp_path, data=data, apart_from=["held"])) == {"like_benchmark": 1}
    problems = task(tmp_path, data=data, validation={"benchmark": "held"})
    assert [problem.prompt for problem in problems.validation] == [f"Problem: WHAT is {n} and 1?" for n in (3, 77)]
    assert len(problems.training) == 29
    several = {**data, "prompt": "{task} {problem}"}
    write(tmp_path, [line(n, task="Add:") for n in range(30)], name="tasks")
    assert left_out(task(tmp_path, data=several | {"ref": "tasks"}, apart_from=["held"])) == {"like_benchmark": 1}
    turns = [{"role": "user", "content": "What is 3 and 1?"}, {"role": "assistant", "content": "4?"}]
    chat = [*turns, {"role": "user", "content": "Check it."}]
    write(tmp_path, [*(line(n) for n in range(20, 30)), line(3, problem=chat)], name="chats")
    assert left_out(task(tmp_path, data={"ref": "chats", "template": "chat"}, apart_from=["held"])) == {
        "like_benchmark": 1
    }


def test_a_chat_with_a_turn_that_is_validated_on_is_not_trained_on(tmp_path: Path) -> None:
    def chat(*turns: str) -> list[dict[str, str]]:
        return [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(turns)]

    asked = "What is {} and 1?".format
    rows = [*map(line, range(9)), line(9, problem=chat(asked(0), "1", asked(1))), line(10)]  # it is another problem
    earlier, last = chat(asked(10), "10?", "Check it."), chat("Ready?", "Yes.", asked(10))
    write(tmp_path, [*rows, *(line(11, problem=turns) for turns in (earlier, last))])
    add_dataset(tmp_path, "two", {"train": [*map(line, range(9)), line(9, problem=earlier)], "test": [line(10)]})
    chats = task(tmp_path, data={"ref": "sums", "template": "chat"}, validation_every=11)
    assert ([problem.answer for problem in chats.validation], left_out(chats)) == (["11"], {"like_validation": 2})
    two = task(tmp_path, data={"ref": "two", "template": "chat"}, validation={"split": "test"})
    assert (len(two.training), left_out(two)) == (9, {"like_validation": 1})


def test_a_benchmark_to_validate_on_is_kept_apart_from_others(tmp_path: Path) -> None:
    write(tmp_path, [line(n) for n in range(30)])
    add_benchmark(tmp_path, "held", [f"What is {n} and 1?" for n in (3, 9, 77)])
    add_benchmark(tmp_path, "final", [f"What is {n} and 1?" for n in (4, 77)])
    problems = task(tmp_path, validation={"benchmark": "held"}, apart_from=["final"])
    assert (len(problems.training), len(problems.validation)) == (27, 2)


def test_a_benchmark_to_validate_on_that_is_missing_or_damaged_is_refused(tmp_path: Path) -> None:
    write(tmp_path, [line(n) for n in range(30)])
    with pytest.raises(ConfigError, match=r"^task\.validation\.benchmark: aime24 is not in the catalog of benchmarks"):
        task(tmp_path, validation={"benchmark": "aime24"})
    add_benchmark(tmp_path, "held", ["What is 3 and 1?"])
    (tmp_path / "benchmarks" / "held" / "problems.jsonl").write_text("{}\n")
    with pytest.raises(ConfigError, match=r"task\.validation\.benchmark held: .* is damaged"):
        task(tmp_path, validation={"benchmark": "held"})


# what is refused


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"data": "absent"}, r"task\.data: absent is not in the catalog .*sums.*add it.*shop-sums$"),
        ({"data": {"ref": "sums", "split": "test"}}, "sums has no split test; it has train"),
        ({"filter": {"flag": 1}}, r"task\.data\.filter\.flag: no row has 1; there are true"),
        ({"filter": {"level": [0, 7, 1, 9]}}, r"level: no row has 7 or 9; there are"),
        ({"filter": {"level": "1"}}, r'task\.data\.filter\.level: no row has "1"; there are (0, 1|1, 0)$'),
        (
            {"filter": {"level": {"min": 7, "max": 9}}},
            "level: no row has a number of at least 7 and of at most 9; there",
        ),
        (
            {"filter": {"level": 1, "even": True}},
            "no problem is left for training; rows left out: filter 20; allow more",
        ),
        ({"validation": {}}, r"task\.validation: task\.data: sums has no split validation; it has train"),
        (
            {"validation": {"split": "train"}},
            "rows left out: like_validation 20; name other rows in task.validation, or",
        ),
        ({"validation_every": 21}, "20 different problems, so that none is kept for validation"),
    ],
)
def test_data_that_leave_nothing_or_are_not_there_are_refused_with_what_there_is(
    tmp_path: Path, changes: dict[str, Any], refusal: str
) -> None:
    write(tmp_path, [line(n, level=n % 2, even=n % 2 == 0, flag=True) for n in range(20)])
    data = {"data": {"ref": "sums", "filter": changes["filter"]}} if "filter" in changes else changes
    with pytest.raises(ConfigError, match=refusal):
        task(tmp_path, **data)


def test_a_dataset_with_the_name_of_a_shipped_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "datasets" / "shop-sums").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"shop-sums comes with the package, and .* is another; rename"):
        task(tmp_path, data="shop-sums")


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        (line(2, answer=[3]), r"answer is a list; it must be a text or a number, as answer\.0 may be"),
        (line(2, answer={"a": 1}), "answer is an object; it must be a text or a number, as answer.a may be"),
        (line(2, answer=True), "answer is true; it must be a text or a number"),
        (line(2, answer=float("nan")), "answer is NaN; it must be a text or a number"),
        (line(2, problem=7), "problem is 7; it must be a text"),
        (line(2, problem=[{"role": "user"}]), r'problem is \[\{"role": "user"\}\]; it must be a text'),
        ("[1]", "it is a JSON list, not an object"),
        ("{", "it is not valid JSON: "),
        ('{"problem": "\\ud800", "answer": "1"}', "problem holds half a character"),
        ("[" * 100_000, "it is not valid JSON: nested too deep"),
        (b'{"problem": "\xff", "answer": "1"}', "it is not valid JSON: 'utf-8' codec"),
    ],
    ids=range(11),
)
def test_a_bad_line_is_refused_with_its_place_and_what_is_wrong(tmp_path: Path, bad: object, complaint: str) -> None:
    path = write(tmp_path, [line(1)])
    lines = [json.dumps(one).encode() if isinstance(one, dict) else one for one in (line(1), bad, line(3))]
    path.write_bytes(b"\n".join(one if isinstance(one, bytes) else str(one).encode() for one in lines))
    with pytest.raises(ConfigError, match=rf"(?s)^{path}, line 2: {complaint}"):
        task(tmp_path)


def test_all_bad_lines_are_named_up_to_twenty(tmp_path: Path) -> None:
    path = write(tmp_path, [line(1)])
    path.write_text("".join(json.dumps(line(n, problem=n // 2)) + "\n" for n in range(60)))
    with pytest.raises(ConfigError) as refusal:
        task(tmp_path)
    assert [problem.split(": ")[0].split(", ")[-1] for problem in refusal.value.problems[:20]] == [
        f"line {number} and 1 more" for number in range(1, 41, 2)
    ]
    assert refusal.value.problems[20:] == (f"{path}: 20 more such lines",)


@pytest.mark.parametrize(
    "bounds",
    [{"min": 3}, {"max": 3}, {"min": 2, "max": 3.5}, {"min": -1, "max": 9}],
)
def test_rows_pass_by_a_range_of_numbers(tmp_path: Path, bounds: dict[str, float]) -> None:
    levels: list[object] = [1, 2, 3, 4.5, 5, 6.0]
    others = [{"level": "3"}, {"level": True}, {"level": None}, {}]
    rows = [line(n, level=levels[n % 6]) for n in range(60)]
    write(tmp_path, [*rows, *(line(60 + n, **other) for n, other in enumerate(others))])
    problems = task(tmp_path, data={"ref": "sums", "filter": {"level": bounds}})
    wanted = 10 * sum(bounds.get("min", -9) <= float(str(level)) <= bounds.get("max", 9) for level in levels)
    assert kept(problems) == wanted
    assert left_out(problems) == {"filter": 64 - wanted}
