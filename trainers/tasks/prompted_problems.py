"""Word problems as the policy reads them: in its template, without those it cannot be asked, and all counted."""

from collections.abc import Iterable, Sequence
from itertools import compress
from statistics import median_low
from typing import TYPE_CHECKING, Any

from trainers.errors import ConfigError
from trainers.tasks.base import Problem, Task, by_length
from trainers.tasks.data_record import DataRecord, Groups, Problems, Reason, Tokens
from trainers.tasks.prompts import chat_prompts, is_chat, misplaced_tokens, token_ids
from trainers.tasks.word_problems import WordProblems

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class PromptedProblems:
    """The task, its prompts in the chat template if the configuration says so, none longer than `max_prompt_tokens`.

    `lengths` are those of the prompts of training and of validation, in tokens.

    Raises: ConfigError, if the tokenizer cannot write the prompts, or none of a set is short enough.
    """

    def __init__(self, task: WordProblems, tokenizer: "PreTrainedTokenizerBase") -> None:
        self._task, self._tokenizer = task, tokenizer
        self.judge, self.close = task.judge, task.close
        self.tokenizer, self.worked_example = task.tokenizer, task.worked_example
        self._left_out = dict[Reason, list[str]]()
        for reason, row in task.left_out:
            self._left_out.setdefault(reason, []).append(row)
        self._long = dict[str, int]()
        self.lengths = dict[str, list[int]]()
        self.training = self._asked("training", task.training)
        self.validation = self._asked("validation", task.validation)
        lengths = [*self.lengths["training"], *self.lengths["validation"]]
        self.record = DataRecord(
            sources=tuple(task.sources),
            training=_digested(self.training),
            validation=_digested(self.validation),
            validation_groups=_groups(self.validation),
            left_out={reason: Problems.of((row,) for row in rows) for reason, rows in self._left_out.items()},
            repeated=task.repeated,
            contradicting=task.contradicting,
            prompt_tokens=Tokens(shortest=min(lengths), median=median_low(lengths), longest=max(lengths)),
            rewards=task.reward_records,
        )

    def warning(self) -> dict[str, Any] | None:
        """Return the warning about problems whose prompts are too long, if there are any."""
        if not any(self._long.values()):
            return None
        message = (
            f"{self._long['training']} training and {self._long['validation']} validation problems are left out: "
            f"their prompts are longer than task.max_prompt_tokens {self._task.config.max_prompt_tokens}"
        )
        return {"code": "LONG_PROMPTS_LEFT_OUT", "message": message, "evidence": dict(self._long)}

    @property
    def recipe(self) -> dict[str, Any]:
        """The task's recipe, with the problems as they are asked and the code that judges answers."""
        digests = {"training": self.record.training.sha256, "validation": self.record.validation.sha256}
        code = [line for reward in self.record.rewards for line in reward.code]
        return {**self._task.recipe, "asked": digests, "reward": code}

    def _asked(self, part: str, problems: Sequence[Problem]) -> list[Problem]:
        config, data = self._task.config, self._task.config.data
        readable, chat = self._readable(problems), is_chat(config)
        if not readable:
            raise ConfigError(f"task.data: every problem for {part} holds a special token of the tokenizer")
        if chat:
            prompts = chat_prompts(self._tokenizer, readable, data.system, data.template_options)
            readable = [p._replace(prompt=text) for p, text in zip(readable, prompts, strict=True)]
        sized = by_length(self._tokenizer, readable, config.max_prompt_tokens, part, chat=chat)
        if not chat:
            first = token_ids(self._tokenizer, [sized.short[0].prompt], chat=False)[0]
            if misplaced := misplaced_tokens(self._tokenizer, first):
                raise ConfigError(*misplaced)
        self._leave_out("too_long", sized.long)
        self._long[part] = len(sized.long)
        self.lengths[part] = sized.lengths
        return sized.short

    def _readable(self, problems: Sequence[Problem]) -> list[Problem]:
        """Leave out problems that contain a special token, because in a prompt it would be read as one."""
        if self._tokenizer.split_special_tokens:
            return list(problems)
        data = self._task.config.data
        system = "" if is_chat(self._task.config) else data.system or ""
        special = [token.content for token in self._tokenizer.added_tokens_decoder.values() if token.special]

        def holds(problem: Problem) -> bool:
            texts = [
                problem.prompt.removeprefix(system).removesuffix(data.suffix),
                *(text for _, text in problem.turns),
            ]
            return any(token in text for token in special for text in texts)

        held = [holds(problem) for problem in problems]
        self._leave_out("special_token", compress(problems, held))
        return [problem for problem, left in zip(problems, held, strict=True) if not left]

    def _leave_out(self, reason: Reason, problems: Iterable[Problem]) -> None:
        if prompts := [problem.prompt for problem in problems]:
            self._left_out.setdefault(reason, []).extend(prompts)


def data_record(task: Task) -> DataRecord:
    """Return the record of any task's problems."""
    if isinstance(task, PromptedProblems):
        return task.record
    return DataRecord(
        training=_digested(task.training),
        validation=_digested(task.validation),
        validation_groups=_groups(task.validation),
    )


def _digested(problems: Sequence[Problem]) -> Problems:
    return Problems.of(problem.content for problem in problems)


def _groups(problems: Sequence[Problem]) -> Groups:
    return Groups.of(problem.group_text for problem in problems)
