"""Prompts as a policy reads them: a text, or a turn of a chat; and what ends a completion of one. Imports no torch."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from trainers.config import TaskConfig, TrainingConfig, WordProblemsTask
from trainers.errors import ConfigError

if TYPE_CHECKING:
    from trainers.tasks.base import Problem

_TODAY: Final = date(2024, 7, 26)
"""Date for chat templates that write one; with the real date a run would read other prompts tomorrow."""
_NOW: Final = re.compile(r"""strftime_now\(\s*(["'])(.*?)\1\s*\)""")
_REPLY: Final = "The reply."
_AT_ONCE: Final = 1000
"""Number of prompts written or read at once: more take more memory and no less time."""


def is_chat(task: TaskConfig) -> bool:
    """Tell whether the task's prompts are turns of a chat."""
    return isinstance(task, WordProblemsTask) and task.data.template == "chat"


def chat_prompts(
    tokenizer: Any, problems: "Sequence[Problem]", system: str | None, options: Mapping[str, Any]
) -> Iterator[str]:
    """Write the chat of each problem up to where the reply begins, special tokens written out.

    Args:
        system: system turn of chats that have none of their own.
    Raises: ConfigError, if the tokenizer has no chat template, or its template cannot write such a chat.
    """
    for start in range(0, len(problems), _AT_ONCE):
        chats = [[*problem.turns, ("user", problem.prompt)] for problem in problems[start : start + _AT_ONCE]]
        if system:
            chats = [chat if chat[0][0] == "system" and chat[0][1] else [("system", system), *chat] for chat in chats]
        messages = [[{"role": role, "content": content} for role, content in chat] for chat in chats]
        for chat, text in zip(chats, _written(tokenizer, messages, options, add_generation_prompt=True), strict=True):
            _check_whole(chat, text)
            yield text


def _check_whole(chat: Sequence[tuple[str, str]], text: str) -> None:
    """Refuse a template that writes a chat without one of its turns; the thoughts of earlier replies may go."""
    for role, content in chat:
        if content.rpartition("</think>")[2].strip() not in text:
            raise ConfigError(
                f"task.data: the model's chat template leaves out the turn of the {role} {content!r:.60}; take a model "
                "whose template writes it, or leave such turns out of the data"
            )


def token_ids(tokenizer: Any, prompts: Sequence[str], *, chat: bool) -> list[list[int]]:
    """Return token ids of prompts; to plain text the tokenizer adds tokens such as BOS, which a chat brings along."""
    return tokenizer(text=list(prompts), add_special_tokens=not chat)["input_ids"]


def token_counts(tokenizer: Any, prompts: Sequence[str], *, chat: bool) -> list[int]:
    """Count the tokens of prompts; the ids of 200,000 prompts of 300 tokens would fill 6 GB."""
    parts = (prompts[start : start + _AT_ONCE] for start in range(0, len(prompts), _AT_ONCE))
    return [len(ids) for part in parts for ids in token_ids(tokenizer, part, chat=chat)]


def misplaced_tokens(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """Describe each fault in the special tokens of a prompt that is plain text."""
    begin, end, problems = tokenizer.bos_token_id, tokenizer.eos_token_id, list[str]()
    if begin is not None and list(ids[:2]) == [begin, begin]:
        problems.append(
            f"task.data: prompts begin with {tokenizer.bos_token} twice: the text has one, and the tokenizer adds one; "
            "take it out of task.data.system"
        )
    if ids and ids[-1] == end:
        problems.append(
            f"task.data: prompts end with the end token {tokenizer.eos_token}; set add_eos_token to false in the "
            "model's tokenizer_config.json, and leave it out of task.data.suffix"
        )
    return problems


def beyond_context(config: TrainingConfig, longest: int, context: int | None) -> list[str]:
    """Return a sentence for each kind of completion that may exceed the model's context; all lengths in tokens."""
    lengths = {"rollout": config.rollout.max_completion_tokens, "evaluation": config.evaluation.max_completion_tokens}
    return [
        f"{part}.max_completion_tokens {completion}: with the longest prompt of {longest} tokens it exceeds the "
        f"model's context of {context}; use at most {context - longest}"
        for part, completion in lengths.items()
        if context is not None and completion is not None and longest + completion > context
    ]


def end_tokens(tokenizer: Any, model_ends: int | Sequence[int] | None, *, chat: bool) -> list[int]:
    """List the ids of the tokens that end a completion: the model's own, the tokenizer's, and what ends a chat turn."""
    ends = [model_ends] if isinstance(model_ends, int) else list(model_ends or ())
    turn = _end_of_turn(tokenizer) if chat else None
    return list(dict.fromkeys(id_ for id_ in (*ends, tokenizer.eos_token_id, turn) if id_ is not None))


def _end_of_turn(tokenizer: Any) -> int | None:
    """Return the first added token that the chat template writes after a reply, if it writes one."""
    turns = [{"role": "user", "content": "A question."}, {"role": "assistant", "content": _REPLY}]
    try:
        (written,) = _written(tokenizer, [turns], {}, add_generation_prompt=False)
        _, reply, after = written.rpartition(_REPLY)
    except ConfigError:
        return None
    ids = tokenizer(after, add_special_tokens=False)["input_ids"] if reply else []
    return next((id_ for id_ in ids if id_ in tokenizer.added_tokens_decoder), None)


def _written(
    tokenizer: Any, chats: list[list[dict[str, str]]], options: Mapping[str, Any], **settings: Any
) -> list[str]:
    from jinja2.exceptions import TemplateError

    if not tokenizer.chat_template:
        raise ConfigError(
            "task.data.template chat: the model's tokenizer has no chat template; use template raw, or a model that "
            "has one"
        )
    try:
        template = _NOW.sub(lambda match: repr(_TODAY.strftime(match[2])), tokenizer.get_chat_template())
        return tokenizer.apply_chat_template(chats, chat_template=template, tokenize=False, **options, **settings)
    except (TemplateError, TypeError, ValueError) as error:
        raise ConfigError(
            f"task.data: the model's chat template refuses the chat: {error}; see task.data.system and template_options"
        ) from error
