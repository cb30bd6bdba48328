"""A task without the problems whose prompts are too long."""

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trainers.tasks.base import Completion, Judgement, Problem, Task, within

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast


class Shortened:
    """The task, its problems limited to prompts of `max_prompt_tokens` in the tokens that the policy is given.

    Raises: ConfigError, if no prompt of training or of validation is short enough.
    """

    def __init__(self, task: Task, tokenizer: "PreTrainedTokenizerBase", max_prompt_tokens: int) -> None:
        self._task, self._limit = task, max_prompt_tokens
        self.training, long_training = within(tokenizer, task.training, max_prompt_tokens)
        self.validation, long_validation = within(tokenizer, task.validation, max_prompt_tokens)
        self.left_out = {"training": len(long_training), "validation": len(long_validation)}

    def warning(self) -> dict[str, Any] | None:
        """What to record of the problems left out, if there are any."""
        if not any(self.left_out.values()):
            return None
        message = (
            f"{self.left_out['training']} training and {self.left_out['validation']} validation problems are left out: "
            f"their prompts are longer than task.max_prompt_tokens {self._limit}"
        )
        return {"code": "LONG_PROMPTS_LEFT_OUT", "message": message, "evidence": self.left_out}

    def judge(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[Judgement]:
        """Judge each completion of the problem beside it."""
        return self._task.judge(problems, completions)

    def tokenizer(self) -> "PreTrainedTokenizerFast":
        """As the task's."""
        return self._task.tokenizer()

    def worked_example(self, random_numbers: random.Random) -> tuple[str, str]:
        """As the task's."""
        return self._task.worked_example(random_numbers)

    @property
    def recipe(self) -> dict[str, Any]:
        """As the task's, with what is left out."""
        return {**self._task.recipe, "left_out": self.left_out}

    def close(self) -> None:
        """End what the judge keeps running."""
        self._task.close()
