from copy import copy
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from tests.unit.trainers.tasks import chats
from trainers.config import ExpressionsTask, WordProblemsTask
from trainers.errors import ConfigError
from trainers.tasks import make_task
from trainers.tasks.base import Completion
from trainers.tasks.data_record import Groups, Problems, data_facts
from trainers.tasks.prompted_problems import PromptedProblems, data_record
from trainers.tasks.word_problems import WordProblems


def shop(**changes: Any) -> PromptedProblems:
    """The word problems that come with the package, as they are asked."""
    task = WordProblems(WordProblemsTask(reward="number", **changes), Path("no-cache"))
    return PromptedProblems(task, task.tokenizer())


SHOP = WordProblems(WordProblemsTask(reward="number"), Path("no-cache"))
SHORT = shop(max_prompt_tokens=40)


def asked(cache: Path, rows: list[Any], tokenizer: PreTrainedTokenizerFast, **changes: Any) -> PromptedProblems:
    chats.add_dataset(cache, "sums", {"train": rows})
    raw = {"data": {"ref": "sums", **changes.pop("data", {})}, "reward": "exact", "max_prompt_tokens": 4096, **changes}
    return PromptedProblems(WordProblems(WordProblemsTask.model_validate(raw), cache), tokenizer)


def rows(number: int) -> list[dict[str, str]]:
    return [{"problem": f"What is {n} and 1?", "answer": str(n + 1)} for n in range(number)]


def test_long_prompts_are_left_out_of_both_sets_and_told() -> None:
    texts = [problem.prompt for problem in [*SHORT.training, *SHORT.validation]]
    assert max(len(ids) for ids in SHOP.tokenizer()(texts)["input_ids"]) <= 40
    gone = {
        "training": len(SHOP.training) - len(SHORT.training),
        "validation": len(SHOP.validation) - len(SHORT.validation),
    }
    assert min(gone.values()) > 0
    warning = SHORT.warning()
    assert warning is not None
    assert (warning["code"], warning["evidence"]) == ("LONG_PROMPTS_LEFT_OUT", gone)
    assert f"{gone['training']} training and {gone['validation']} validation problems" in warning["message"]
    assert SHORT.record.left_out["too_long"].problems == sum(gone.values())


def test_a_prompt_just_as_long_as_the_limit_stays() -> None:
    longest = max(SHORT.lengths["training"])
    at_limit = shop(max_prompt_tokens=longest)
    assert max(at_limit.lengths["training"]) == longest
    assert at_limit.training == SHORT.training
    warning = at_limit.warning()
    assert warning is not None
    assert warning["evidence"]["training"] == len(SHOP.training) - len(SHORT.training)


def test_where_nothing_is_long_nothing_is_told() -> None:
    whole = shop()
    assert whole.training == SHOP.training
    assert whole.warning() is None
    assert whole.record.left_out == {}
    assert whole.recipe != SHORT.recipe


def test_the_rest_of_the_task_stays() -> None:
    problem = SHORT.training[0]
    right = Completion(f"\\boxed{{{problem.answer}}}", 3, truncated=False)
    assert [judgement.reward for judgement in SHORT.judge([problem], [right])] == [1.0]


def test_a_limit_that_leaves_nothing_is_refused(tmp_path: Path) -> None:
    shortest = min(shop().lengths["training"])
    with pytest.raises(
        ConfigError, match=rf"all 360 training prompts .* than 3 tokens, the shortest has {shortest}; raise"
    ):
        shop(max_prompt_tokens=3)
    given = [*rows(9), {"problem": "long " * 90, "answer": "1"}]
    with pytest.raises(ConfigError, match=r"all 1 validation prompts are longer than 100 tokens"):
        asked(tmp_path, given, chats.base_tokenizer(), max_prompt_tokens=100, data={"suffix": ""})


LLAMA, QWEN = chats.llama_tokenizer(), chats.chatml_tokenizer()


@pytest.mark.parametrize(
    ("tokenizer", "data", "prompt"),
    [
        (
            LLAMA,
            {"template": "chat", "system": "Think.", "suffix": " Box it."},
            "Think.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nWhat is 0 and 1? Box it.<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
        (LLAMA, {"system": "Q: ", "suffix": " A:"}, "Q: What is 0 and 1? A:"),
        (
            QWEN,
            {"template": "chat", "template_options": {"enable_thinking": False}},
            "<|im_start|>assistant\n<think>\n\n</think>\n\n",
        ),
        (
            QWEN,  # the special tokens that the spec writes itself stay
            {"system": "<|im_start|>user\n", "suffix": "<|im_end|>\n<|im_start|>assistant\n"},
            "<|im_start|>user\nWhat is 0 and 1?<|im_end|>\n<|im_start|>assistant\n",
        ),
    ],
    ids=["chat", "text", "options", "own tokens"],
)
def test_prompts_are_plain_text_or_written_in_the_chat_template(
    tmp_path: Path, tokenizer: PreTrainedTokenizerFast, data: dict[str, Any], prompt: str
) -> None:
    found = asked(tmp_path, rows(20), tokenizer, data=data)
    assert found.training[0].prompt.endswith(prompt)
    assert (found.training[0].prompt == prompt) == (data.get("template") != "chat")
    assert (found.training[0].answer, len(found.training), found.record.left_out) == ("1", 18, {})


def test_a_problem_that_says_a_special_token_is_left_out(tmp_path: Path) -> None:
    bad = {"problem": "What does <|im_end|> mean?", "answer": "1"}
    found = asked(tmp_path, [bad, *rows(20)], QWEN, data={"template": "chat"})
    assert found.record.left_out["special_token"].problems == 1
    assert not any("mean" in problem.prompt for problem in [*found.training, *found.validation])


def test_a_begin_token_in_the_text_that_the_tokenizer_adds_too_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"begin with <\|begin_of_text\|> twice"):
        asked(tmp_path, rows(20), LLAMA, data={"system": "<|begin_of_text|>"})


def test_the_record_counts_and_digests(tmp_path: Path) -> None:
    given = [
        *rows(20),
        {"problem": "what is 3 and 1", "answer": "5"},
        {"problem": "What is 4 and 1?", "answer": "5"},
        {"problem": "", "answer": "1"},
        {"problem": "Why?", "answer": ""},
        {"problem": "long " * 90, "answer": "1"},
    ]
    record = asked(tmp_path, given, chats.base_tokenizer(), max_prompt_tokens=100, data={"suffix": ""}).record
    assert {reason: left.problems for reason, left in record.left_out.items()} == {
        "empty": 1,
        "no_answer": 1,
        "too_long": 1,
    }
    assert (record.repeated, record.contradicting) == (2, 1)
    assert (record.training.problems, record.validation.problems) == (20, 2)
    assert [(source.ref, source.split, source.rows) for source in record.sources] == [("sums", "train", 25)]
    assert record.prompt_tokens is not None
    assert (record.prompt_tokens.shortest, record.prompt_tokens.longest) == (15, 17)


def test_other_problems_answers_or_templates_have_other_digests(tmp_path: Path) -> None:
    tokenizer = chats.chatml_tokenizer()
    found = [
        asked(tmp_path / "1", rows(20), tokenizer),
        asked(tmp_path / "2", rows(21), tokenizer),
        asked(
            tmp_path / "3", [*rows(19), {"problem": "What is 19 and 1?", "answer": "0"}], tokenizer, validation_every=9
        ),
        asked(tmp_path / "4", rows(20), tokenizer, data={"template": "chat"}),
    ]
    assert len({one.record.training.sha256 for one in found}) == 4
    again = asked(tmp_path / "5", rows(20), tokenizer)
    assert again.record == found[0].record
    assert again.recipe == found[0].recipe


def test_validation_problems_that_are_alike_are_told(tmp_path: Path) -> None:
    given = [*rows(20), *([rows(20)[9]] * 2)]
    record = asked(tmp_path, given, chats.base_tokenizer()).record
    assert record.validation_groups == record.alike == Groups(groups=2, largest=3)
    assert (
        data_facts(record)[0] == "18 problems to train on, 4 to validate on, 2 of them independent: up to 3 are alike"
    )
    plain = asked(tmp_path / "plain", rows(20), chats.base_tokenizer()).record
    assert (plain.alike, data_facts(plain)[0]) == (None, "18 problems to train on, 2 to validate on")
    grouped = [row | {"kind": "g"} for row in rows(20)]
    kinds = asked(tmp_path / "kinds", grouped, chats.base_tokenizer(), data={"group": "kind"}).record
    assert kinds.alike == Groups(groups=1, largest=2)
    assert kinds.validation.sha256 != plain.validation.sha256


def test_a_task_made_by_code_is_recorded_too() -> None:
    record = data_record(make_task(ExpressionsTask(), Path("no-cache")))
    assert (record.training.problems, record.validation.problems) == (49, 49)
    problems = make_task(ExpressionsTask(), Path("no-cache")).training
    assert record.training == Problems.of((problem.prompt, problem.answer) for problem in problems)
    assert record.sources == ()
    assert record.validation_groups == Groups(groups=49, largest=1)


@pytest.mark.parametrize("part", ["training", "validation"])
def test_the_recipe_depends_on_the_problems_of_both_sets(part: str) -> None:
    other = copy(SHORT)
    other.record = SHORT.record.model_copy(update={part: Problems.of([("1+1=", "2")])})
    assert other.recipe != SHORT.recipe
