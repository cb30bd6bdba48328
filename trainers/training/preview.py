"""Shows the prompts that a run would read and counts the data it would leave out; reads no weights.

python -m trainers CONFIG.yaml --preview
"""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median_low
from typing import Any, Final

from trainers.config import PretrainedModel, TrainingConfig, WordProblemsTask
from trainers.errors import ConfigError, Faults, GraderError
from trainers.rewards import REWARDS
from trainers.rewards.final_answer import LONG, boxed, looks_worked
from trainers.tasks import Completion, Task, make_task
from trainers.tasks.data_record import AnswersTried, Preview, Prompt, data_facts, lines, title, worked_warning
from trainers.tasks.prompted_problems import PromptedProblems, data_record
from trainers.tasks.prompts import beyond_context, end_tokens, is_chat, token_counts, token_ids
from trainers.tasks.word_problems import WordProblems

_TRIED_ANSWERS: Final = 64
_MANY: Final = 0.1  # share of answers with the marks of worked solutions


def preview(config: TrainingConfig, cache: Path) -> Preview:
    """Return the shortest, the middle and the longest prompt as training would read them, and the counts of the data.

    Raises: ConfigError, if the data, the tokenizer or the template cannot be used, or prompts and completions together
        pass the model's context.
    """
    faults, made, folder, tokenizer = Faults(), list[Task](), None, None
    with faults.noted():
        made.append(make_task(config.task, cache))
    try:
        with faults.noted():
            if isinstance(config.model, PretrainedModel):
                from trainers.policy.load_policy import load_tokenizer, pretrained_folder  # imports torch: seconds

                folder = pretrained_folder(config.model, cache)
                try:
                    tokenizer = load_tokenizer(folder)
                except (OSError, ValueError, KeyError, TypeError) as error:
                    raise ConfigError(f"model.model {folder.name}: its tokenizer cannot be loaded: {error}") from error
        faults.raise_all()
        (task,) = made
        tokenizer = tokenizer or task.tokenizer()
        if isinstance(task, WordProblems):
            task = PromptedProblems(task, tokenizer)
        return _previewed(config, task, tokenizer, folder)
    finally:
        for task in made:
            task.close()


def _previewed(config: TrainingConfig, task: Task, tokenizer: Any, folder: Path | None) -> Preview:
    chat, context, own_ends = is_chat(config.task), None, None
    if isinstance(task, PromptedProblems):
        lengths = task.lengths
    else:
        lengths = {
            part: token_counts(tokenizer, [problem.prompt for problem in problems], chat=False)
            for part, problems in {"training": task.training, "validation": task.validation}.items()
        }
    if folder is not None:
        from transformers import AutoConfig

        settings: Any = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        context = getattr(settings.get_text_config(), "max_position_embeddings", None)
    if faults := beyond_context(config, max(max(lengths["training"]), max(lengths["validation"])), context):
        raise ConfigError(*faults)
    if folder is not None and (generation := folder / "generation_config.json").exists():
        own_ends = json.loads(generation.read_text(encoding="utf-8")).get("eos_token_id")
    by_length = sorted(range(len(task.training)), key=lambda index: lengths["training"][index])
    places = dict.fromkeys(by_length[place] for place in (0, len(by_length) // 2, -1))
    shown = [task.training[place] for place in places]
    prompts = token_ids(tokenizer, [problem.prompt for problem in shown], chat=chat)
    return Preview(
        prompts=tuple(
            Prompt(text=tokenizer.decode(ids), tokens=len(ids), answer=problem.answer)
            for problem, ids in zip(shown, prompts, strict=True)
        ),
        data=data_record(task),
        chat_template=bool(tokenizer.chat_template),
        ends=tuple(tokenizer.convert_ids_to_tokens(end_tokens(tokenizer, own_ends, chat=chat))),
        answers=_tried(task, config.task) if isinstance(config.task, WordProblemsTask) else None,
    )


def _tried(task: Task, config: WordProblemsTask) -> AnswersTried | None:
    """Tell whether the reward takes problems' own answers for right; only our rewards are known to read a box."""
    if config.judging.name not in REWARDS.ours:
        return None
    step = max(1, len(task.training) // _TRIED_ANSWERS)
    tried = list(task.training[::step][:_TRIED_ANSWERS])
    try:
        judged = task.judge(tried, [Completion(boxed(problem.answer), 1, truncated=False) for problem in tried])
    except GraderError as error:
        raise ConfigError(f"task.reward: {error}") from error
    wrong = [problem.answer for problem, judgement in zip(tried, judged, strict=True) if not judgement.correct]
    answers = [problem.answer for problem in tried]
    return AnswersTried(
        reward=config.judging.name,
        tried=len(tried),
        refused=len(wrong),
        example=wrong[0] if wrong else None,
        median_length=median_low(map(len, answers)),
        worked=_worked(answers),
    )


def _worked(answers: Sequence[str]) -> str | None:
    """Return one of the answers, if they look like worked solutions."""
    marked = [answer for answer in answers if looks_worked(answer)]
    if len(marked) > _MANY * len(answers):
        return marked[0]
    middle = sorted(answers, key=len)[(len(answers) - 1) // 2]
    return middle if len(middle) > LONG else None


def text(shown: Preview) -> str:
    """Write a preview for people."""
    prompts = (f"{number}. {title(prompt)}\n{lines(prompt)}" for number, prompt in enumerate(shown.prompts, 1))
    facts = [*data_facts(shown.data), f"a completion ends with {' or '.join(shown.ends)}"]
    if (answers := shown.answers) is not None:
        by = f"right by the reward {answers.reward}"
        wrong = f"{answers.refused} are not {by}, such as {answers.example!r:.80}"
        facts.append(f"{answers.tried} answers tried{f'; {wrong}' if answers.refused else f', all {by}'}")
        if warning := worked_warning(answers):
            facts.append(f"warning: {warning}")
    return "\n\n".join([*prompts, "\n".join(facts)]) + "\n"
