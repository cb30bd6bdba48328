import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from trainers.config import WordProblemsTask
from trainers.errors import ConfigError
from trainers.tasks import shop_sums
from trainers.tasks.base import Completion, Problem, within
from trainers.tasks.word_problems import SHIPPED, WordProblems

SHOP = WordProblems(WordProblemsTask(reward="number"), Path("absent"))


def line(number: int, **changes: Any) -> dict[str, Any]:
    return {"id": f"p{number}", "problem": f"What is {number} and 1?", "answer": str(number + 1)} | changes


def write(cache: Path, lines: Sequence[object], name: str = "sums") -> Path:
    path = cache / "data" / f"{name}.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{text if isinstance(text, str) else json.dumps(text)}\n" for text in lines))
    return path


def task(cache: Path, **changes: Any) -> WordProblems:
    return WordProblems(WordProblemsTask.model_validate({"data": "sums", "reward": "number"} | changes), cache)


def test_the_shipped_file_is_the_one_that_its_script_makes() -> None:
    assert (SHIPPED / "shop-sums.jsonl").read_text().splitlines() == list(shop_sums.lines())


def test_every_shipped_problem_has_a_right_answer_and_a_text_of_its_own() -> None:
    problems = SHOP.training + SHOP.validation
    assert (len(SHOP.training), len(SHOP.validation)) == (360, 40)
    assert len({problem.prompt for problem in problems}) == 400
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


def test_long_prompts_are_parted_by_the_tokenizer_that_reads_them() -> None:
    tokenizer = SHOP.tokenizer()
    lengths = {problem: len(tokenizer(problem.prompt)["input_ids"]) for problem in SHOP.training}
    kept, dropped = within(tokenizer, SHOP.training, 40)
    assert kept == [problem for problem in SHOP.training if lengths[problem] <= 40]
    assert dropped == [problem for problem in SHOP.training if lengths[problem] > 40]
    assert kept
    assert dropped
    with pytest.raises(ConfigError, match=f"all 360 prompts are longer than 3 .* {min(lengths.values())}; raise it"):
        within(tokenizer, SHOP.training, 3)


def test_the_recipe_names_what_the_warm_start_follows_from(tmp_path: Path) -> None:
    recipes = [SHOP.recipe]
    write(tmp_path, [line(number) for number in range(20)])
    recipes += [
        task(tmp_path).recipe,
        task(tmp_path, data={"ref": "sums", "suffix": "?"}).recipe,
        task(tmp_path, reward="exact").recipe,
    ]
    write(tmp_path, [line(number, answer="7") for number in range(20)])
    recipes += [task(tmp_path).recipe, task(tmp_path, max_prompt_tokens=100).recipe]
    assert recipes[1] == recipes[3]  # a reward teaches nothing before training
    assert len({json.dumps(recipe) for recipe in recipes}) == 5


# bad files


def test_a_missing_file_is_refused_with_where_it_should_be(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"sums cannot be read from {tmp_path}/data/sums.jsonl: No such .*shop-sums"):
        task(tmp_path)


def test_a_file_with_the_name_of_a_shipped_one_is_refused(tmp_path: Path) -> None:
    write(tmp_path, [line(1)], name="shop-sums")
    with pytest.raises(ConfigError, match=r"shop-sums comes with the package, and .* is another; rename"):
        task(tmp_path, data="shop-sums")


def test_too_few_problems_to_validate_are_refused(tmp_path: Path) -> None:
    write(tmp_path, [line(number) for number in range(9)])
    with pytest.raises(ConfigError, match="9 different problems, so that none is kept for validation"):
        task(tmp_path)


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        (line(2, answer=3), "answer: Input should be a valid string"),
        (line(2, answer=""), "answer: String should have at least 1 character"),
        ({"id": "p2", "problem": "?"}, "answer: Field required"),
        ({}, "id: Field required; problem: Field required; answer: Field required"),
        (line(1), "id 'p1' is that of line 1, too"),
        ("[1]", "Input should be an object"),
        ("{", "Invalid JSON: EOF while parsing"),
        ('{"id": "p2", "problem": "\\ud800", "answer": "1"}', "Invalid JSON: unexpected end of hex escape"),
        ("[" * 100_000, "Invalid JSON: recursion limit"),
    ],
    ids=range(9),
)
def test_a_bad_line_is_refused_with_its_place_and_what_is_wrong(tmp_path: Path, bad: object, complaint: str) -> None:
    path = write(tmp_path, [line(1), bad, *(line(number) for number in range(3, 30))])
    with pytest.raises(ConfigError, match=rf"(?s){path}, line 2: .*{complaint}.*\nEvery line must be .*`answer`"):
        task(tmp_path)


def test_a_line_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    write(tmp_path, [line(1)]).write_bytes(json.dumps(line(1)).encode() + b'\n{"id": "\xff"}\n')
    with pytest.raises(ConfigError, match="line 2: Invalid JSON"):
        task(tmp_path)


def test_all_bad_lines_are_named_up_to_twenty(tmp_path: Path) -> None:
    write(tmp_path, [*(line(number, answer=0) for number in range(30)), "", line(30)])
    with pytest.raises(ConfigError) as refusal:
        task(tmp_path)
    assert [problem.split(": ")[0].split(", ")[-1] for problem in refusal.value.problems[:20]] == [
        f"line {number}" for number in range(1, 21)
    ]
    assert refusal.value.problems[20].endswith("10 more such lines")
    assert len(refusal.value.problems) == 22
