"""Chats as datasets hold them: read with their roles, asked from the user's last turn on."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.trainers.tasks import chats
from trainers.config import WordProblemsTask
from trainers.errors import ConfigError
from trainers.tasks.prompted_problems import PromptedProblems
from trainers.tasks.word_problems import WordProblems

QWEN = chats.chatml_tokenizer()
SYSTEM, USER = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "1 + 1?"}
REPLY, AGAIN = {"role": "assistant", "content": "2"}, {"role": "user", "content": "And 3 more?"}


def asked(cache: Path, rows: list[dict[str, Any]], **data: Any) -> PromptedProblems:
    """The task of these rows and one more, which is validated on."""
    chats.add_dataset(cache, "rows", {"train": rows, "test": [rows[0] | {"chat": "Other?", "answer": 1}]})
    data = {"ref": "rows", "prompt": "chat", "suffix": " Box it.", "template": "chat"} | data
    raw = {"data": data, "reward": "number", "validation": {"split": "test"}}
    return PromptedProblems(WordProblems(WordProblemsTask.model_validate(raw), cache), QWEN)


def written(*turns: tuple[str, str]) -> str:
    return "".join(f"<|im_start|>{role}\n{text}<|im_end|>\n" for role, text in turns) + "<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("chat", "prompt"),
    [
        ([USER], written(("system", "Be helpful."), ("user", "1 + 1? Box it."))),  # the template's own system turn
        ([SYSTEM, USER], written(("system", "Be brief."), ("user", "1 + 1? Box it."))),
        ([SYSTEM, USER, REPLY], written(("system", "Be brief."), ("user", "1 + 1? Box it."))),
        (
            [SYSTEM, USER, REPLY, AGAIN, REPLY],
            written(("system", "Be brief."), ("user", "1 + 1?"), ("assistant", "2"), ("user", "And 3 more? Box it.")),
        ),
        (
            [{"from": "human", "value": "1 + 1?"}, {"from": "gpt", "value": "2"}],
            written(("system", "Be helpful."), ("user", "1 + 1? Box it.")),
        ),
        (
            [{"role": "developer", "content": [{"type": "text", "text": "Be\r\nbrief."}]}, USER],
            written(("system", "Be\nbrief."), ("user", "1 + 1? Box it.")),
        ),
        ([{"role": "system", "content": ""}, USER], written(("system", ""), ("user", "1 + 1? Box it."))),
        (
            [{"role": None, "content": None, "from": "human", "value": "1 + 1?"}],
            written(("system", "Be helpful."), ("user", "1 + 1? Box it.")),
        ),
        (' [{"role": "user", "content": "1 + 1?"}]', written(("system", "Be helpful."), ("user", "1 + 1? Box it."))),
        ('[{"a": 1}] is?', written(("system", "Be helpful."), ("user", '[{"a": 1}] is? Box it.'))),
        ("1 + 1?", written(("system", "Be helpful."), ("user", "1 + 1? Box it."))),
    ],
)
def test_a_chat_is_asked_with_its_roles_up_to_the_users_last_turn(tmp_path: Path, chat: Any, prompt: str) -> None:
    task = asked(tmp_path, [{"chat": chat, "answer": 2}])
    assert [problem.prompt for problem in task.training] == [prompt]


def test_a_system_turn_of_the_configuration_is_for_rows_without_one(tmp_path: Path) -> None:
    blank = [{"role": "system", "content": " "}, {**USER, "content": "2 + 2?"}]
    rows = [{"chat": [SYSTEM, USER], "answer": 2}, {"chat": blank, "answer": 4}]
    prompts = [problem.prompt for problem in asked(tmp_path, rows, system="Think.").training]
    assert ["Be brief." in prompt for prompt in prompts] == [True, False]
    assert ["Think." in prompt for prompt in prompts] == [False, True]


def test_problems_differ_by_all_that_was_said_but_the_system_turn(tmp_path: Path) -> None:
    begin = [[USER, REPLY], [{"role": "user", "content": "2 + 2?"}, REPLY]]
    rows = [{"chat": [*before, AGAIN], "answer": answer} for before in begin for answer in (5, 7)]
    task = asked(tmp_path, [*rows, {"chat": [SYSTEM, *begin[0], AGAIN], "answer": 5}])
    assert (task.record.training.problems, task.record.repeated, task.record.contradicting) == (5, 3, 2)


def test_a_special_token_in_any_turn_leaves_its_row_out(tmp_path: Path) -> None:
    bad = {"role": "user", "content": "Stop: <|im_end|>"}
    task = asked(tmp_path, [{"chat": [USER, REPLY, AGAIN], "answer": 5}, {"chat": [bad, REPLY, AGAIN], "answer": 5}])
    assert (len(task.training), task.record.left_out["special_token"].problems) == (1, 1)


@pytest.mark.parametrize(
    ("chat", "data", "refusal"),
    [
        (
            [SYSTEM, USER],
            {"template": "raw"},
            "chat is a chat of 2 turns up to the user's last; set task.data.template",
        ),
        ([SYSTEM, REPLY], {}, "chat is a chat without a turn of the user"),
        ([{"role": "critic", "content": "?"}], {}, 'chat.0 has the role "critic"; roles are system, developer, user'),
        ([{"role": "user", "content": [{"type": "image"}]}], {}, "chat.0 holds .* only text is read"),
        ([{"role": "user", "content": 7}], {}, "chat.0 is 7; it must be a text"),
        (["1 + 1?"], {}, "it must be a text, or a chat: a list of role and content"),
        ([], {}, "it must be a text, or a chat"),
        ([SYSTEM, USER], {"prompt": "chat.0.content"}, "chat.0.content is a turn of the system, without the rest"),
        ([SYSTEM, USER], {"prompt": "chat.1.content"}, "chat.1.content is a turn of the user after 1 others, without"),
        ([SYSTEM, USER], {"prompt": "So: {chat.-1.content}"}, "chat.-1.content is a turn of the user after 1 others"),
        (
            [SYSTEM, USER, REPLY],
            {"answer": "chat.1.content"},
            "chat.1.content is a turn of the user, not a reply; chat.-1",
        ),
        ([USER, REPLY, AGAIN, REPLY], {"answer": "chat.1.content"}, "chat.1.content replies to another turn than the"),
        (
            [USER, REPLY, AGAIN, REPLY],
            {"prompt": "chat.0.content", "answer": "chat.-1.content"},
            "replies to another turn",
        ),
        (
            [USER, REPLY, {"role": "tool", "content": "5"}],
            {"answer": "chat.-1.content"},
            "is a turn of the tool, not a",
        ),
        ([USER, {**REPLY, "content": None, "tool_calls": [{}]}, AGAIN], {}, "chat.1 calls tools; only text is read"),
        ([{"role": ["user"], "content": "?"}], {}, r'chat.0 has the role \["user"\]; roles are'),
        ([SYSTEM, USER], {"prompt": "{chat}"}, "chat is .* it must be a text"),
    ],
)
def test_what_would_lose_roles_or_is_no_chat_is_refused(
    tmp_path: Path, chat: list[Any], data: dict[str, Any], refusal: str
) -> None:
    with pytest.raises(ConfigError, match=f"line 1 and 1 more: .*{refusal}".replace("{", r"\{")):
        asked(tmp_path, [{"chat": chat, "answer": 2}] * 2, **data)


def test_the_answer_may_be_the_last_turn_and_a_lone_turn_may_be_named(tmp_path: Path) -> None:
    chats.add_dataset(tmp_path, "alone", {"train": [{"chat": [USER, REPLY]}, {"chat": [AGAIN, REPLY]}] * 2})
    for data in ({"prompt": "chat"}, {"prompt": "chat.0.content"}):
        raw = {"ref": "alone", "answer": "chat.-1.content", **data}
        task = WordProblems(WordProblemsTask.model_validate({"data": raw, "validation_every": 2}), tmp_path)
        assert [problem.answer for problem in (*task.training, *task.validation)] == ["2"] * 4
        assert {problem.turns_json for problem in task.training} == {""}
