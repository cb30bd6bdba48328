"""Checks that what a spec names is in the catalog, and fits: models, datasets with their columns, benchmarks.

It reads the catalog's records only, no weights and no rows. `spec_check` has read the spec before.
"""

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from sweep_service.errors import InvalidSpec, SpecError
from sweep_service.intake.benchmark_check import benchmark_errors, context_errors
from sweep_service.sweep.spec import Benchmarks, SweepSpec
from trainers.catalog.entries import KINDS, AnyEntry, BenchmarkEntry, DatasetEntry, Entry, ModelEntry, all_entries
from trainers.config import CountdownTask, DataConfig, PretrainedModel, TrainingConfig, WordProblemsTask

_PARTS = ("task", "model", "rollout", "evaluation")
_ENOUGH = 50
"""Reasons after which the other points of the space are not looked at."""


Reason = tuple[str, str]
"""The dotted name of a setting, and why it does not fit."""


class Catalog:
    """The catalog as it is now; each kind is read once."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._kinds: dict[type[Entry], Mapping[str, Any]] = {}

    def find(self, entry_type: type[AnyEntry], name: str) -> AnyEntry | str:
        """Return the entry of this name, or the sentence that there is none."""
        if entry_type not in self._kinds:
            self._kinds[entry_type] = {entry.name: entry for entry in all_entries(self._cache, entry_type)}
        entries = self._kinds[entry_type]
        if entry := entries.get(name):
            return entry
        kind = KINDS[entry_type]
        others = _instead(name, tuple(entries)) if entries else f"; there are no {kind} yet"
        return f"{name} is not in the catalog of {kind} (`sweeps {kind} add` adds it){others}"


def check_catalog(spec: SweepSpec, cache: Path) -> None:
    """Refuse a spec that names something missing from the catalog, or something that does not fit.

    Raises: InvalidSpec, with every reason.
    """
    errors: dict[SpecError, None] = {}
    catalog = Catalog(cache)
    for config in _configs(spec.model_copy(update={"benchmarks": None}) if spec.benchmarks else spec):
        errors |= dict.fromkeys(catalog_errors(config, spec.training, catalog, spec.space.names))
        if len(errors) > _ENOUGH:
            break
    errors |= dict.fromkeys(_benchmark_errors(spec, catalog))
    if errors:
        raise InvalidSpec(list(errors))


def named_benchmark_errors(spec: SweepSpec, cache: Path) -> list[SpecError]:
    """Return the errors of benchmarks that cannot be measured, or would measure nothing."""
    return [*benchmark_errors(spec, sound=True), *_benchmark_errors(spec, Catalog(cache))]


def missing_benchmarks(benchmarks: Benchmarks | None, catalog: Catalog) -> Iterator[SpecError]:
    """Yield the errors of benchmarks that the catalog does not have."""
    for name in benchmarks.names if benchmarks else ():
        if isinstance(missing := catalog.find(BenchmarkEntry, name), str):
            yield SpecError("/benchmarks/names", missing)


def _benchmark_errors(spec: SweepSpec, catalog: Catalog) -> Iterator[SpecError]:
    """Yield the errors of benchmarks that the catalog does not have, or that do not fit a model."""
    yield from missing_benchmarks(spec.benchmarks, catalog)
    for name in {config.model.model for config in _configs(spec) if isinstance(config.model, PretrainedModel)}:
        if isinstance(model := catalog.find(ModelEntry, name), ModelEntry):
            yield from context_errors(spec, model)


def catalog_errors(
    config: TrainingConfig, training: object, catalog: Catalog, varied: Collection[str] = ()
) -> list[SpecError]:
    """Return the errors of entries that a configuration needs and that are missing, or do not fit.

    Args:
        training: the spec's `training`; the errors lead into it as deep as it is written out.
        varied: names of the space; errors of these settings lead there.
    """
    reasons = list[Reason]()
    if isinstance(config.model, PretrainedModel):
        reasons += _model_reasons(config, config.model, catalog)
    if isinstance(config.task, WordProblemsTask):
        reasons += _data_reasons(config.task, catalog)
    return [
        SpecError(f"/space/{name}" if (name := name_in_space(place, varied)) else _pointer(training, place), why)
        for place, why in reasons
    ]


def named_entries(spec: SweepSpec) -> set[tuple[type[Entry], str]]:
    """Return kind and name of each entry of the catalog that a spec's trials need."""
    return {entry for config in _configs(spec) for entry in entries_of(config)}


def entries_of(config: TrainingConfig) -> set[tuple[type[Entry], str]]:
    """Return kind and name of each entry of the catalog that a configuration needs."""
    needed = set[tuple[type[Entry], str]]()
    if isinstance(config.model, PretrainedModel):
        needed.add((ModelEntry, config.model.model))
    if isinstance(task := config.task, WordProblemsTask):
        needed.add((DatasetEntry, task.data.ref))
        needed |= {(BenchmarkEntry, name) for name in task.apart_from}
        if task.validation and task.validation.benchmark:
            needed.add((BenchmarkEntry, task.validation.benchmark))
        if task.validation and task.validation.ref:
            needed.add((DatasetEntry, task.validation.ref))
    return needed


def read_configs(spec: SweepSpec) -> dict[str, TrainingConfig]:
    """Return the configurations whose data a trainer can read before the sweep runs, each by its task and model.

    These are the points of the space that differ in data or model; first the base, if comparators are trained as it is.

    A task that makes its problems itself has nothing to read, unless a pretrained model's tokenizer reads its prompts,
    or its settings may ask for more problems than there are.
    """
    if spec.trainer is not None:
        return {}
    in_space = _configs(spec) if any(name.startswith(("task", "model")) for name in spec.space.names) else []
    different = dict[str, TrainingConfig]()
    base = [spec.base] if spec.comparators or not in_space else []
    for config in (*base, *in_space):
        made = isinstance(config.task, CountdownTask) and config.task != CountdownTask()  # perhaps more than there are
        if made or isinstance(config.model, PretrainedModel) or isinstance(config.task, WordProblemsTask):
            different.setdefault(config.model_dump_json(include={"task", "model"}), config)
    return different


def _configs(spec: SweepSpec) -> list[TrainingConfig]:
    """Return the configurations at the space's corner points that differ in settings checked here."""
    names = [name for name in spec.space.names if name.partition(".")[0] in _PARTS]
    corners = spec.space.corners() if names else [{}]
    return [spec.bind(point) for point in {str([point[name] for name in names]): point for point in corners}.values()]


def _model_reasons(config: TrainingConfig, model: PretrainedModel, catalog: Catalog) -> Iterator[Reason]:
    entry = catalog.find(ModelEntry, model.model)
    if isinstance(entry, str):
        yield "model.model", entry
        return
    if model.lora and model.lora.rank > entry.hidden_size:
        yield "model.lora.rank", f"{model.lora.rank} is more than {entry.name}'s width of {entry.hidden_size}"
    if not isinstance(task := config.task, WordProblemsTask):
        return
    if task.data.template == "chat" and not entry.chat_template:
        yield "task.data.template", f"{entry.name} has no chat template; use raw, or a model that was trained for chats"
    prompt, context = task.max_prompt_tokens, entry.context_length
    for name, part in (("rollout", config.rollout), ("evaluation", config.evaluation)):
        completion = part.max_completion_tokens
        if completion is not None and context is not None and prompt + completion > context:
            yield (
                f"{name}.max_completion_tokens",
                f"{completion}, with task.max_prompt_tokens {prompt}, exceeds the context of {context} tokens that "
                f"{entry.name} has; lower either, together to at most {context}",
            )


def _data_reasons(task: WordProblemsTask, catalog: Catalog) -> Iterator[Reason]:
    data, validation = task.data, task.validation
    columns = [*(("prompt", column) for column in data.prompt_columns), ("answer", data.answer)]
    yield from _dataset_reasons(catalog, "task.data", data, columns)
    benchmarks = [("task.apart_from", name) for name in task.apart_from]
    if validation and validation.benchmark:
        benchmarks.append(("task.validation.benchmark", validation.benchmark))
    elif validation:
        held_out = validation.dataset(data)
        columns = columns if held_out.ref != data.ref else []  # the training data's are checked already
        yield from _dataset_reasons(catalog, "task.validation", held_out, columns)
    for place, name in benchmarks:
        entry = catalog.find(BenchmarkEntry, name)
        if isinstance(entry, str):
            yield place, entry


def _dataset_reasons(
    catalog: Catalog, place: str, data: DataConfig, columns: Sequence[tuple[str, str]]
) -> Iterator[Reason]:
    """Yield what a dataset lacks: the split, columns, each with the setting that names it, or columns of the filter."""
    entry = catalog.find(DatasetEntry, data.ref)
    if isinstance(entry, str):
        yield f"{place}.ref", entry
        return
    if data.split not in entry.splits:
        yield f"{place}.split", f"{data.ref} has no split {data.split!r}{_instead(data.split, tuple(entry.splits))}"
    for setting, column in [*columns, *(("filter", column) for column in data.filter)]:
        if not {column, column.partition(".")[0]} & set(entry.columns):
            yield f"{place}.{setting}", f"{data.ref} has no column {column!r}{_instead(column, entry.columns)}"


@lru_cache(maxsize=1000)
def _instead(name: str, names: tuple[str, ...]) -> str:
    """Name the entries that were probably meant, or else all entries."""
    if close := difflib.get_close_matches(name, names, n=1):
        return f"; did you mean {close[0]!r}?"
    return f"; there are {', '.join(names)}"


def name_in_space(setting: str, names: Collection[str]) -> str | None:
    """Return the name with which a space sets this setting, a group around it, or else a part of it."""
    around = (name for name in names if f"{setting}.".startswith(f"{name}."))
    return next(around, None) or next((name for name in names if name.startswith(f"{setting}.")), None)


def _pointer(training: object, place: str) -> str:
    """Return the pointer to a training setting, as deep in `training` as the spec writes it out."""
    node: Any = training
    path = "/training"
    for key in place.split("."):
        if not isinstance(node, Mapping):
            break
        path, node = f"{path}/{key}", node.get(key, {})
    return path
