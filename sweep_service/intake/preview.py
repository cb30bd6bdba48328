"""Checks the data of a sweep before it is accepted, and shows in a plan what a trainer read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from sweep_service.errors import InvalidSpec, SpecError
from sweep_service.intake.catalog_check import Catalog, name_in_space, read_configs
from sweep_service.intake.data_check import READER, DataReader
from sweep_service.intake.whole_check import missing_rewards
from sweep_service.sweep.plan import SweepPlan
from sweep_service.sweep.plan_warnings import groups_warning
from sweep_service.sweep.spec import SweepSpec
from trainers.catalog.entries import DatasetEntry
from trainers.config import TrainingConfig, WordProblemsTask
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


def check_data(
    spec: SweepSpec, cache: Path, reader: DataReader = READER, before: SweepSpec | None = None
) -> CheckedData:
    """Have a trainer read the data of a sweep, once for each combination of data and model in its space.

    Args:
        before: what the spec was before it was extended; its data are not read again.
    Raises: StillReading, if that takes longer than a request waits; InvalidSpec, if the trainer refuses data,
        tokenizer or template, or fails on them.
    """
    if unchecked := missing_rewards(spec):
        return CheckedData(None, unchecked)
    preview, errors, present = None, dict[str, SpecError](), read_configs(before) if before else {}
    configs = [config for key, config in read_configs(spec).items() if key not in present]
    for place, answer in enumerate(reader.read(configs[:_MOST_CONFIGS], cache)):
        if isinstance(answer, InvalidSpec):
            varied = () if place == 0 and spec.comparators and not before else spec.space.names  # the base is the first
            for error in answer.errors:
                name = name_in_space(error.pointer.removeprefix("/training/").replace("/", "."), varied)
                errors.setdefault(error.detail, SpecError(f"/space/{name}", error.detail) if name else error)
        elif isinstance(answer, str):
            unchecked.append(answer)
        elif place == 0:
            preview = answer
    if errors:
        raise InvalidSpec([*errors.values()])
    if more := len(configs[_MOST_CONFIGS:]):
        unchecked.append(f"{more} more combinations of data and model in the space are not read here")
    return CheckedData(preview, list(dict.fromkeys(unchecked)))


def with_data(plan: SweepPlan, spec: SweepSpec, checked: CheckedData, cache: Path) -> SweepPlan:
    """Return the plan with the prompts and data that were read first, and with what could not be checked."""
    changes: dict[str, Any] = {"unchecked": checked.unchecked}
    if (preview := checked.preview) is not None:
        config = next(iter(read_configs(spec).values()))
        warnings = [*plan.warnings, *_warnings(config, preview), *_half_prompt(config, Catalog(cache))]
        warnings += [alike] if (alike := groups_warning(spec, preview.data)) else []
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
            f"of {answers.tried} answers tried in a box {answers.refused} are not right by the reward "
            f"{answers.reward}, such as {answers.example!r:.80}: see task.data.answer, answer_after and answer_boxed"
        )
    if answers is not None and (worked := worked_warning(answers)):
        yield worked
    yield from _data_warnings(preview.data, task)


def _half_prompt(config: TrainingConfig, catalog: Catalog) -> Iterator[str]:
    """Warn of a prompt that shows one of the two columns in which alpaca's rows ask."""
    if isinstance(config.task, WordProblemsTask):
        data, both = config.task.data, {"instruction", "input"}
        entry = catalog.find(DatasetEntry, data.ref)
        if isinstance(entry, DatasetEntry) and both <= {*entry.columns} and len(both & {*data.prompt_columns}) == 1:
            yield (
                f"{data.ref} has the columns instruction and input, and task.data.prompt {data.prompt!r:.60} shows "
                r'only one of them; to ask with both set it to "{instruction}\n\n{input}"'
            )


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
