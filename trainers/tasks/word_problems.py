r"""Task "word_problems": the prompt is a text of a dataset, the answer stands in `\boxed{}`; a reward judges it.

A policy made from scratch reads it through a byte-level tokenizer trained on the problems. Imports no torch.
"""

import hashlib
import json
import random
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trainers.catalog.new_entry import about
from trainers.config import WordProblemsTask
from trainers.config.reward_config import reward_settings
from trainers.errors import ConfigError, Faults
from trainers.rewards import REWARDS, make_rewards
from trainers.rewards.checked import CheckedReward
from trainers.rewards.number import no_number, remedy, value_of
from trainers.rewards.weighted import WeightedRewards
from trainers.tasks.base import Completion, Judgement, Problem, by_length
from trainers.tasks.benchmark_texts import benchmark_rows, benchmark_texts
from trainers.tasks.data_record import Reason, RewardRecord, Source
from trainers.tasks.dataset_rows import DatasetRows, read_dataset
from trainers.tasks.same_text import same_text
from trainers.tasks.tokenizers import byte_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_VOCABULARY: Final = 512
"""Number of tokens of a policy made from scratch: 256 bytes and the most frequent pieces of words."""
_SHOWN: Final = 20
"""Number of problems that one error names."""


class WordProblems:
    """The task over the rows of a dataset; docs/tasks.md says which are trained on and which validated on.

    Prompts hold all that is asked but a chat's system turn, and no chat template yet: `PromptedProblems` writes that.
    Raises: ConfigError, if dataset, benchmarks or reward are missing or wrong, or no problem is left; or if an answer
        is not a number and the reward needs one.
    """

    def __init__(self, config: WordProblemsTask, cache: Path) -> None:
        self.config = config
        self.left_out: list[tuple[Reason, str]] = []
        self.sources = list[Source]()
        faults = Faults()
        rewards, columns = list[CheckedReward | WeightedRewards](), dict[str, str]()
        with faults.noted():
            rewards.append(make_rewards(config))
            columns = rewards[0].columns
        benchmarks, datasets = set[str](), list[list[Problem]]()
        with faults.noted():
            benchmarks = benchmark_texts(config.apart_from, cache)
        with faults.noted():
            datasets.append(self._rows(read_dataset(config.data, cache, columns), benchmarks))
        if (held_out := config.validation) is not None and held_out.benchmark is not None:
            with faults.noted():
                place = "task.validation.benchmark"
                tested = self._rows(benchmark_rows(held_out.benchmark, cache, place, columns), benchmarks)
                texts = {same_text(row.prompt) for row in tested}
                datasets = [self._without_texts(rows, "like_benchmark", texts) for rows in datasets]
                datasets.append(tested)
        elif held_out is not None:
            with faults.noted(), about("task.validation"):
                datasets.append(self._rows(read_dataset(held_out.dataset(config.data), cache, columns), benchmarks))
        with faults.noted():
            if faults:
                self._refuse_unreadable([row for rows in datasets for row in rows])
            else:
                training, validation = self._parted(datasets)
                self.rows = [*training, *validation]
                self._refuse_unreadable(self.rows)
                self.training, self.validation = self._asked(training), self._asked(validation)
        if faults:
            for reward in rewards:
                reward.close()
        faults.raise_all()
        (self._reward,) = rewards

    def judge(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[Judgement]:
        """Judge each completion of the problem beside it, by the reward that the configuration names."""
        return self._reward.judge(problems, completions)

    def tokenizer(self) -> "PreTrainedTokenizerFast":
        """Return a byte-level tokenizer trained on the training problems."""
        return self._tokenizer

    def worked_example(self, random_numbers: random.Random) -> tuple[str, str]:
        """Draw a training problem that is short enough to be trained on, and its answer alone in a box."""
        problem = random_numbers.choice(self._teachable)
        return problem.prompt, boxed(problem)

    @property
    def recipe(self) -> dict[str, Any]:
        """The digest of the training problems, and the length of prompts that are short enough."""
        text = "\0".join(part for problem in self.training for part in problem.content)
        return {
            "task": "word_problems",
            "training": hashlib.sha256(text.encode()).hexdigest(),
            "max_prompt_tokens": self.config.max_prompt_tokens,
        }

    def close(self) -> None:
        """End the processes that the rewards keep running."""
        self._reward.close()

    @property
    def reward_records(self) -> tuple[RewardRecord, ...]:
        """The rewards, each with all of its settings and what names its code."""
        return tuple(
            RewardRecord(
                name=reward.name,
                weight=reward.weight,
                settings=own.model_dump(mode="json") if (own := reward_settings(reward.name, reward.settings)) else {},
                code=tuple(REWARDS.code(reward.name)),
            )
            for reward in self.config.rewards
        )

    @cached_property
    def _tokenizer(self) -> "PreTrainedTokenizerFast":
        texts = [problem.prompt + boxed(problem) for problem in self.training]
        return byte_tokenizer(texts, _VOCABULARY)

    @cached_property
    def _teachable(self) -> list[Problem]:
        return by_length(self._tokenizer, self.training, self.config.max_prompt_tokens).short

    def _rows(self, dataset: DatasetRows, benchmarks: set[str]) -> list[Problem]:
        """Return a dataset's problems without those of the benchmarks and those that the reward cannot judge."""
        self.sources.append(dataset.source)
        self.left_out += dataset.left_out
        rows = self._without_texts(dataset.problems, "like_benchmark", benchmarks)
        if self.config.unreadable_answers == "refuse":
            return rows
        return self._without(rows, "unreadable", [self._is_unreadable(row) for row in rows])

    def _is_unreadable(self, row: Problem) -> bool:
        return self.config.judging.name == "number" and value_of(row.answer) is None

    def _refuse_unreadable(self, rows: Sequence[Problem]) -> None:
        """Refuse problems whose answer the reward cannot read. Raises: ConfigError, naming them."""
        others = [row for row in rows if self._is_unreadable(row)]
        if not others:
            return
        named = [f"task.reward: {no_number(row.prompt, row.answer)}" for row in others[:_SHOWN]]
        more = f"; {len(others) - _SHOWN} more are not shown" if len(others) > _SHOWN else ""
        helps = remedy([row.answer for row in others])
        raise ConfigError(*named, f"task.reward: of {len(rows)} problems {len(others)} are like this{more}; {helps}")

    def _parted(self, datasets: Sequence[list[Problem]]) -> tuple[list[Problem], list[Problem]]:
        """Return the rows to train and to validate on."""
        held_out = self.config.validation
        if held_out is None:
            (rows,) = datasets
            training, validation = _every_nth_apart(rows, self.config)
        else:
            training, validation = datasets
            if (count := held_out.problems) is not None and count < len(validation):
                validation = [validation[place * len(validation) // count] for place in range(count)]  # spread evenly
            texts = {same_text(row.prompt) for row in validation}
            training = self._without_texts(training, "like_validation", texts)
        reasons = [reason for reason, _ in self.left_out]
        counts = ", ".join(f"{reason} {reasons.count(reason)}" for reason in dict.fromkeys(reasons))
        if problems := [
            f"task.data: no problem is left for {name}; rows left out: {counts or 'none'}"
            for name, rows in (("training", training), ("validation", validation))
            if not rows
        ]:
            raise ConfigError(*problems)
        return training, validation

    def _without_texts(self, rows: Sequence[Problem], reason: Reason, texts: set[str]) -> list[Problem]:
        """Leave out the rows whose problem is one of these texts, up to layout."""
        return self._without(rows, reason, [bool(texts) and same_text(row.prompt) in texts for row in rows])

    def _without(self, rows: Sequence[Problem], reason: Reason, left: Sequence[bool]) -> list[Problem]:
        """Leave out the rows for which `left` is true, for this reason."""
        self.left_out.extend((reason, json.dumps(row[:2])) for row, is_left in zip(rows, left, strict=True) if is_left)
        return [row for row, is_left in zip(rows, left, strict=True) if not is_left]

    def _asked(self, rows: Sequence[Problem]) -> list[Problem]:
        data = self.config.data
        before = (data.system or "") if data.template == "raw" else ""
        return [row._replace(prompt=before + row.prompt + data.suffix) for row in rows]


def boxed(problem: Problem) -> str:
    """Return the shortest right completion of a problem."""
    return rf"\boxed{{{problem.answer}}}"


def _every_nth_apart(rows: Sequence[Problem], config: WordProblemsTask) -> tuple[list[Problem], list[Problem]]:
    """Part rows into training and validation: every n-th different problem, with its repetitions, is for validation."""
    texts = [same_text(row.prompt) for row in rows]
    different = list(dict.fromkeys(texts))
    held_out = set(different[config.validation_every - 1 :: config.validation_every])
    if different and not held_out:
        raise ConfigError(
            f"task.data: {config.data.ref} has {len(different)} different problems, so that none is kept for "
            f"validation by task.validation_every {config.validation_every}; lower that, or name task.validation"
        )
    pairs = list(zip(rows, texts, strict=True))
    return [row for row, text in pairs if text not in held_out], [row for row, text in pairs if text in held_out]
