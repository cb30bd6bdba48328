"""Checks the data of a sweep before it is accepted, and shows in a plan what a trainer read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from sweep_service.errors import InvalidSpec, SpecError
from sweep_service.intake.catalog_check import read_configs
from sweep_service.intake.data_check import READER, DataReader
from sweep_service.intake.whole_check import missing_rewards
from sweep_service.sweep.plan import SweepPlan
from sweep_service.sweep.spec import SweepSpec
from trainers.config import TrainingConfig
from trainers.tasks.data_record import DataRecord, Preview, worked_warning

_MANY: Final = 0.1
"""Share of problems left out from which the plan warns."""
_FEW: Final = 8
"""Number of validation problems below which the plan warns."""
_MOST_CONFIGS: Final = 8
"""Combinations of data and model in one space that are read."""


class CheckedData(NamedTuple):
    """The data of a sweep, as far as they are known before it runs."""

    preview: Preview | None
    """The first data read; None if the task makes its problems itself and the policy starts from scratch."""
    unchecked: list[str]
    """Reasons why data could not be read here; trials read it."""


def check_data(spec: SweepSpec, cache: Path, reader: DataReader = READER) -> CheckedData:
    """Have a trainer read the data of a sweep, once for each combination of data and model in its space.

    Raises: StillReading, if that takes longer than a request waits; InvalidSpec, if the trainer refuses data,
        tokenizer or template, or fails on them.
    """
    if unchecked := missing_rewards(spec):
        return CheckedData(None, unchecked)
    preview, errors, configs = None, dict[SpecError, None](), read_configs(spec)
    for place, answer in enumerate(reader.read(configs[:_MOST_CONFIGS], cache)):
        if isinstance(answer, InvalidSpec):
            errors |= dict.fromkeys(answer.errors)
        elif isinstance(answer, str):
            unchecked.append(answer)
        elif place == 0:
            preview = answer
    if errors:
        raise InvalidSpec(list(errors))
    if more := len(configs[_MOST_CONFIGS:]):
        unchecked.append(f"{more} more combinations of data and model in the space are not read here")
    return CheckedData(preview, list(dict.fromkeys(unchecked)))


def with_data(plan: SweepPlan, spec: SweepSpec, checked: CheckedData) -> SweepPlan:
    """Return the plan with the prompts and data that were read first, and with what could not be checked."""
    changes: dict[str, Any] = {"unchecked": checked.unchecked}
    if (preview := checked.preview) is not None:
        warnings = [*plan.warnings, *_warnings(read_configs(spec)[0], preview)]
        changes |= {"prompts": preview.prompts, "data": preview.data, "warnings": warnings}
    return plan.model_copy(update=changes)


def _warnings(config: TrainingConfig, preview: Preview) -> Iterator[str]:
    task, answers = config.task.model_dump(), preview.answers
    if preview.chat_template and task.get("data", {}).get("template") == "raw":
        yield (
            "the model's tokenizer has a chat template and task.data.template is raw: right for base models; for a "
            "chat model set it to chat"
        )
    if answers is not None and answers.refused:
        yield (
            f"of {answers.tried} answers tried {answers.refused} are not right by the reward {answers.reward}, "
            f"such as {answers.example!r:.80}: see task.data.answer, answer_after and answer_boxed"
        )
    if answers is not None and (worked := worked_warning(answers)):
        yield worked
    yield from _data_warnings(preview.data, task)


def _data_warnings(data: DataRecord, task: dict[str, Any]) -> Iterator[str]:
    held_out, long = data.validation.problems, data.left_out.get("too_long")
    if held_out < _FEW:
        yield (
            f"only {held_out} problem{'s' * (held_out != 1)} to validate on: the objective is about these alone; keep "
            "more by task.validation, or by a lower task.validation_every"
        )
    total = data.training.problems + held_out + (long.problems if long else 0)
    if long is not None and long.problems > _MANY * total:
        yield (
            f"{long.problems} of {total} problems are left out: their prompts are longer than "
            f"task.max_prompt_tokens {task['max_prompt_tokens']}"
        )
    if data.contradicting:
        rows = "1 row repeats" if data.contradicting == 1 else f"{data.contradicting} rows repeat"
        yield f"{rows} a problem with another answer"
