"""Checks the benchmarks of a spec: first by themselves, then against the catalog's records."""

from collections.abc import Iterator

from sweep_service.errors import SpecError
from sweep_service.sweep.spec import SweepSpec
from trainers.benchmarks.known_benchmarks import usual
from trainers.catalog.entries import ModelEntry
from trainers.config import WordProblemsTask


def benchmark_errors(spec: SweepSpec, *, sound: bool) -> Iterator[SpecError]:
    """Yield the errors of benchmarks that could not be measured, or would measure nothing.

    Args:
        sound: true if the base configuration is right; else nothing that depends on it is checked.
    """
    if (benchmarks := spec.benchmarks) is None:
        return
    if benchmarks.of == "confirmed" and spec.seeds.confirm is None:
        detail = (
            "confirmed: there is no confirm stage whose models could be measured; give seeds.confirm, or set it to all"
        )
        yield SpecError("/benchmarks/of", detail)
    if not sound:
        return
    if benchmarks.at != "end" and (late := [step for step in benchmarks.at if step > spec.base.steps]):
        detail = f"{', '.join(map(str, late))}: trials have {spec.base.steps} steps; name steps from 1 to that"
        yield SpecError("/benchmarks/at", detail)
    task = spec.base.task
    validation = task.validation if isinstance(task, WordProblemsTask) else None
    if validation is not None and validation.benchmark in benchmarks.names:
        detail = (
            f"{validation.benchmark} is what configs are chosen by (training.task.validation); leave it out of either"
        )
        yield SpecError("/benchmarks/names", detail)


def context_errors(spec: SweepSpec, model: ModelEntry) -> Iterator[SpecError]:
    """Yield an error for each benchmark whose longest completion does not fit a model's context."""
    benchmarks, context = spec.benchmarks, model.context_length
    if benchmarks is None or context is None:
        return
    for name in benchmarks.names:
        longest = benchmarks.longest or usual(name).max_tokens
        if longest >= context:
            yield SpecError(
                "/benchmarks/longest",
                f"{name} allows completions of {longest} tokens, and {model.name} has a context of {context} for "
                f"prompt and completion together; set it below {context}",
            )
