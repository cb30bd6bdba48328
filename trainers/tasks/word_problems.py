r"""Task "word_problems": the prompt is a text of a dataset, the answer stands in `\boxed{}`; a reward judges it.

A policy made from scratch reads it through a byte-level tokenizer trained on the problems. Imports no torch.
"""

import functools
import hashlib
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trainers.catalog.new_entry import about
from trainers.config import WordProblemsTask
from trainers.config.reward_config import reward_settings
from trainers.errors import ConfigError, Faults
from trainers.rewards import REWARDS, make_reward, make_rewards
from trainers.rewards.checked import CheckedReward, Unread
from trainers.rewards.final_answer import LONG, boxed, looks_worked
from trainers.rewards.weighted import WeightedRewards
from trainers.tasks.base import Completion, Judgement, Problem, by_length
from trainers.tasks.benchmark_texts import benchmark_rows, benchmark_texts
from trainers.tasks.data_record import Reason, RewardRecord, Source
from trainers.tasks.dataset_rows import DatasetRows, in_text, read_dataset
from trainers.tasks.same_text import same_text
from trainers.tasks.tokenizers import byte_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_VOCABULARY: Final = 512
"""Number of tokens of a policy made from scratch: 256 bytes and the most frequent pieces of words."""
_SHOWN: Final = 20
"""Number of problems that one error names."""

_REMEDIES: Final[Mapping[Reason, str]] = {
    "filter": "allow more values in task.data.filter or task.validation.filter",
    "empty": "name the column with the problem in task.data.prompt",
    "no_answer": "name the column with the answer in task.data.answer",
    "like_benchmark": "name other data, or other benchmarks to hold apart",
    "like_validation": "name other rows in task.validation, or leave it out: task.validation_every holds some apart",
    "unreadable": "name a reward that can read the answers in task.reward",
}
"""Ways to have problems left, by the reason for which most were left out."""


class WordProblems:
    """The task over the rows of a dataset; docs/tasks.md says which are trained on and which validated on.

    Prompts hold all that is asked but a chat's system turn, and no chat template yet: `PromptedProblems` writes that.
    Raises: ConfigError, if dataset, benchmarks or reward are missing or wrong, or no problem is left; or if the reward
        cannot read an answer.
    """

    def __init__(self, config: WordProblemsTask, cache: Path) -> None:
        self.config = config
        self.left_out: list[tuple[Reason, str]] = []
        self.sources = list[Source]()
        self.repeated = self.contradicting = 0
        """Rows kept whose problem an earlier one has, up to layout, and those of them with another answer."""
        self._same = functools.cache(same_text)
        faults = Faults()
        rewards, columns = list[CheckedReward | WeightedRewards](), dict[str, str]()
        with faults.noted():
            rewards.append(make_rewards(config))
            columns = rewards[0].columns
        benchmarks, datasets, tested = set[str](), list[list[Problem]](), list[Problem]()
        with faults.noted():
            benchmarks = benchmark_texts(config.apart_from, cache)
        held_out, held_apart = config.validation, benchmarks
        if held_out is not None and held_out.benchmark is not None:
            with faults.noted():
                place = "task.validation.benchmark"
                rows = benchmark_rows(held_out.benchmark, cache, place, columns)
                tested = self._without_benchmarks(rows, benchmarks)
                held_apart = benchmarks | {self._same(row.prompt) for row in tested}
        with faults.noted():
            read = config.data if held_out is None else config.data.model_copy(update={"group": None})
            datasets.append(self._without_benchmarks(read_dataset(read, cache, columns), held_apart))
        if held_out is not None and held_out.benchmark is not None:
            self.sources = [*self.sources[1:], *self.sources[:1]]  # first what is trained on
            datasets.append([row._replace(prompt=in_text(config.data, row.prompt)) for row in tested])
        elif held_out is not None:
            with faults.noted(), about("task.validation"):
                held_out_rows = read_dataset(held_out.dataset(config.data), cache, columns)
                datasets.append(self._without_benchmarks(held_out_rows, benchmarks))
        with faults.noted():
            for reward in rewards:
                datasets = self._readable(reward, datasets, cache)
            if not faults:
                training, validation = self._parted(datasets)
                self.training, self.validation = self._asked(training), self._asked(validation)
        self._same.cache_clear()  # it has read each problem, which no later step needs
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
        return problem.prompt, boxed(problem.answer)

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
        texts = [problem.prompt + boxed(problem.answer) for problem in self.training]
        return byte_tokenizer(texts, _VOCABULARY)

    @cached_property
    def _teachable(self) -> list[Problem]:
        return by_length(self._tokenizer, self.training, self.config.max_prompt_tokens).short

    def _without_benchmarks(self, dataset: DatasetRows, benchmarks: set[str]) -> list[Problem]:
        """Return a dataset's problems without those of the benchmarks."""
        self.sources.append(dataset.source)
        self.left_out += dataset.left_out
        left = [bool(benchmarks) and any(self._same(text) in benchmarks for text in texts) for texts in dataset.texts]
        return self._without(dataset.problems, "like_benchmark", left)

    def _readable(
        self, reward: CheckedReward | WeightedRewards, datasets: Sequence[list[Problem]], cache: Path
    ) -> list[list[Problem]]:
        """Leave out problems whose answer the reward cannot read, or refuse them. Raises: ConfigError, naming them."""
        rows = [row for rows in datasets for row in rows]
        unread = reward.unreadable([row.answer for row in rows], cache)
        if self.config.unreadable_answers == "leave_out":
            return [self._without(part, "unreadable", [row.answer in unread for row in part]) for part in datasets]
        others = [row for row in rows if row.answer in unread]
        if others:
            raise ConfigError(*self._unread_answers(others, unread), self._remedy(others, unread, len(rows), cache))
        return list(datasets)

    def _unread_answers(self, rows: Sequence[Problem], unread: Mapping[str, Unread]) -> Iterator[str]:
        """Name the answers of these rows that a reward cannot read, each once, up to a number."""
        by_answer = dict[str, list[Problem]]()
        for row in rows:
            by_answer.setdefault(row.answer, []).append(row)
        for answer, problems in list(by_answer.items())[:_SHOWN]:
            reward, reason = unread[answer]
            place = "reward" if reward == self.config.judging.name else f"further_rewards.{reward}"
            alike = f"; {len(problems) - 1} more problems have it" if len(problems) > 1 else ""
            yield (
                f"task.{place}: the reward {reward} cannot judge answers to {problems[0].prompt!r:.100}: "
                f"{answer!r:.100} {reason}{alike}"
            )

    def _remedy(self, rows: Sequence[Problem], unread: Mapping[str, Unread], total: int, cache: Path) -> str:
        """Say how many problems have answers that a reward cannot read, and all that helps."""
        answers, judging = list(dict.fromkeys(row.answer for row in rows)), self.config.judging.name
        remedies = list[str]()
        if any(looks_worked(answer) or len(answer) > LONG for answer in answers):
            remedies.append("name where the answer stands by task.data.answer_after or answer_boxed")
        refusing = dict.fromkeys(unread[answer].reward for answer in answers)
        if not remedies and judging in refusing and (other := _reward_for(answers, self.config, cache)):
            remedies.append(f"set task.reward to {other}")
        remedies += [f"take {name} out of task.further_rewards" for name in refusing if name != judging]
        if len(rows) < total:
            remedies.append("leave such problems out by task.unreadable_answers: leave_out")
        more = f"; {len(answers) - _SHOWN} more answers are not shown" if len(answers) > _SHOWN else ""
        remedy = "; or ".join(remedies) or "name another column by task.data.answer"
        return f"task.reward: of {total} problems {len(rows)} are like this{more}; {remedy}"

    def _parted(self, datasets: Sequence[list[Problem]]) -> tuple[list[Problem], list[Problem]]:
        """Return the rows to train and to validate on."""
        held_out = self.config.validation
        if held_out is None:
            (rows,) = datasets
            training, validation = _every_nth_apart(rows, [self._same(row.question) for row in rows], self.config)
        else:
            training, validation = datasets
            if (count := held_out.problems) is not None and count < len(validation):
                validation = [validation[place * len(validation) // count] for place in range(count)]  # spread evenly
        texts = {self._same(row.question) for row in validation}
        asked = ((row.question, row.prompt, *(content for _, content in row.turns)) for row in training)
        left = [any(self._same(text) in texts for text in of_row) for of_row in asked]
        training = self._without(training, "like_validation", left)
        counts = Counter[Reason](reason for reason, _ in self.left_out)
        left_out = ", ".join(f"{reason} {count}" for reason, count in counts.items())
        if problems := [
            f"task.data: no problem is left for {name}; rows left out: {left_out}; "
            f"{_REMEDIES[counts.most_common(1)[0][0]]}"
            for name, rows in (("training", training), ("validation", validation))
            if not rows
        ]:
            raise ConfigError(*problems)
        answers = dict[str, str]()  # by problem, of its first row
        for row in (*training, *validation):
            self.contradicting += answers.setdefault(self._same(row.question), row.answer) != row.answer
        self.repeated = len(training) + len(validation) - len(answers)
        return training, validation

    def _without(self, rows: Sequence[Problem], reason: Reason, left: Sequence[bool]) -> list[Problem]:
        """Leave out the rows for which `left` is true, for this reason."""
        self.left_out.extend((reason, json.dumps(row[:2])) for row, is_left in zip(rows, left, strict=True) if is_left)
        return [row for row, is_left in zip(rows, left, strict=True) if not is_left]

    def _asked(self, rows: Sequence[Problem]) -> list[Problem]:
        data = self.config.data
        before = (data.system or "") if data.template == "raw" else ""
        return [row._replace(prompt=before + row.prompt + data.suffix) for row in rows]


def _reward_for(answers: Sequence[str], config: WordProblemsTask, cache: Path) -> str | None:
    """Return another reward that reads all of these answers, if one of ours does."""
    for name in ("math", "exact"):
        if name not in {reward.name for reward in config.rewards}:
            with closing(make_reward(name)) as reward:
                if not reward.unreadable(answers, cache):
                    return name
    return None


def _every_nth_apart(
    rows: Sequence[Problem], texts: Sequence[str], config: WordProblemsTask
) -> tuple[list[Problem], list[Problem]]:
    """Part rows into training and validation: every n-th different text, with its repetitions, is for validation."""
    different = list(dict.fromkeys(texts))
    held_out = set(different[config.validation_every - 1 :: config.validation_every])
    if different and not held_out:
        raise ConfigError(
            f"task.data: {config.data.ref} has {len(different)} different problems, so that none is kept for "
            f"validation by task.validation_every {config.validation_every}; lower that, or name task.validation"
        )
    pairs = list(zip(rows, texts, strict=True))
    return [row for row, text in pairs if text not in held_out], [row for row, text in pairs if text in held_out]
