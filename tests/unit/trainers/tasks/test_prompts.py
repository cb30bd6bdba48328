import json
from datetime import datetime
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from tests.unit.trainers.tasks import chats
from trainers.config import DataConfig, TrainingConfig, WordProblemsTask
from trainers.errors import ConfigError
from trainers.tasks.base import Problem
from trainers.tasks.prompts import beyond_context, chat_prompts, end_tokens, is_chat, misplaced_tokens, token_ids

QWEN, LLAMA, DEEPSEEK = chats.chatml_tokenizer(), chats.llama_tokenizer(), chats.deepseek_tokenizer()
BASE = chats.base_tokenizer()


def chat_prompt(tokenizer: PreTrainedTokenizerFast, text: str, system: str | None, options: dict[str, Any]) -> str:
    """The one chat of a problem."""
    (prompt,) = chat_prompts(tokenizer, [Problem(text, "")], system, options)
    return prompt


def test_a_chat_has_its_system_turn_the_problem_and_the_beginning_of_the_reply() -> None:
    assert chat_prompt(QWEN, "1 + 1?", "Think.", {}) == (
        "<|im_start|>system\nThink.<|im_end|>\n<|im_start|>user\n1 + 1?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert chat_prompt(QWEN, "1 + 1?", None, {}).startswith("<|im_start|>system\nBe helpful.")  # the template's own
    assert chat_prompt(QWEN, "1?", None, {"enable_thinking": False}).endswith("<think>\n\n</think>\n\n")


@pytest.mark.parametrize("tokenizer", [QWEN, LLAMA, DEEPSEEK])
def test_a_chat_is_tokenized_as_the_tokenizer_would_itself(tokenizer: PreTrainedTokenizerFast) -> None:
    turns = [{"role": "system", "content": "Think."}, {"role": "user", "content": "1 + 1?"}]
    template = str(tokenizer.chat_template).replace("strftime_now('%d %b %Y')", "'26 Jul 2024'")
    asked: Any = tokenizer.apply_chat_template(turns, chat_template=template, add_generation_prompt=True)
    assert token_ids(tokenizer, [chat_prompt(tokenizer, "1 + 1?", "Think.", {})], chat=True) == [asked["input_ids"]]


def test_a_prompt_has_one_begin_token_in_a_chat_and_as_plain_text() -> None:
    begin = LLAMA.bos_token_id
    chat = token_ids(LLAMA, [chat_prompt(LLAMA, "1 + 1?", None, {})], chat=True)[0]
    plain = token_ids(LLAMA, ["1 + 1?"], chat=False)[0]
    assert (chat[0], chat.count(begin)) == (plain[0], plain.count(begin)) == (begin, 1)
    twice = token_ids(LLAMA, [chat_prompt(LLAMA, "1 + 1?", None, {})], chat=False)[0]
    assert "begin with <|begin_of_text|> twice" in misplaced_tokens(LLAMA, twice)[0]
    assert misplaced_tokens(LLAMA, plain) == misplaced_tokens(BASE, token_ids(BASE, ["1?"], chat=False)[0]) == []


def test_a_prompt_that_ends_with_the_end_token_is_found() -> None:
    ids = token_ids(BASE, ["1 + 1?<|endoftext|>"], chat=False)[0]
    assert "prompts end with the end token <|endoftext|>; set add_eos_token to false" in misplaced_tokens(BASE, ids)[0]


def test_a_template_writes_the_same_date_every_day() -> None:
    prompt = chat_prompt(LLAMA, "1?", None, {})
    assert "Today Date: 26 Jul 2024\n" in prompt
    assert f"{datetime.now().astimezone():%d %b %Y}" not in prompt


def test_a_tokenizer_without_a_chat_template_is_refused() -> None:
    with pytest.raises(ConfigError, match="has no chat template; use template raw, or a model that has one"):
        chat_prompt(BASE, "1?", None, {})


def test_a_template_that_leaves_out_a_turn_is_refused_but_thoughts_may_go() -> None:
    last = "{{ messages[-1].content }}{% if messages[1] %}{{ messages[1].content.split('</think>')[-1] }}{% endif %}"
    tokenizer = chats.base_tokenizer(chat_template=last)
    with pytest.raises(ConfigError, match=r"leaves out the turn of the system 'Think\.'; take a model whose template"):
        chat_prompt(tokenizer, "1?", "Think.", {})
    turns = json.dumps([("user", "2?"), ("assistant", "<think>One.</think> 1")])
    assert list(chat_prompts(tokenizer, [Problem("2?", "", turns_json=turns)], None, {})) == ["2? 1"]


def test_what_a_template_refuses_is_told() -> None:
    tokenizer = chats.base_tokenizer(chat_template=chats.NO_SYSTEM + "{{ messages[0].content }}")
    assert chat_prompt(tokenizer, "1?", None, {}) == "1?"
    with pytest.raises(ConfigError, match=r"refuses the chat: System role not supported; see task\.data\.system"):
        chat_prompt(tokenizer, "1?", "Think.", {})


@pytest.mark.parametrize(
    ("tokenizer", "ends"),
    [
        (QWEN, ["<|endoftext|>", "<|im_end|>"]),
        (LLAMA, ["<|end_of_text|>", "<|eot_id|>"]),
        (DEEPSEEK, [DEEPSEEK.eos_token]),
        (BASE, ["<|endoftext|>"]),
    ],
)
def test_a_chat_s_completion_ends_with_its_turn(tokenizer: PreTrainedTokenizerFast, ends: list[str]) -> None:
    ids = tokenizer.convert_tokens_to_ids(ends)
    assert end_tokens(tokenizer, None, chat=True) == ids
    assert end_tokens(tokenizer, tokenizer.eos_token_id, chat=True) == ids
    assert end_tokens(tokenizer, ids[::-1], chat=True) == ids[::-1]
    assert end_tokens(tokenizer, [7, ids[0]], chat=False) == [7, ids[0]]


def test_lengths_beyond_the_context_are_told() -> None:
    config = TrainingConfig.model_validate({"rollout": {"max_completion_tokens": 60}})
    assert beyond_context(config, 40, 100) == beyond_context(config, 400, None) == []
    assert beyond_context(config, 41, 100)[0].startswith(
        "rollout.max_completion_tokens 60: with the longest prompt of 41"
    )


def test_only_word_problems_are_chats() -> None:
    assert not is_chat(TrainingConfig().task)
    assert is_chat(WordProblemsTask(data=DataConfig(template="chat")))
    assert not is_chat(WordProblemsTask())
