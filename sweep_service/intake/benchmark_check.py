"""Checks what a spec says of benchmarks: first by itself, then against the catalog's records."""

from collections.abc import Iterator

from sweep_service.errors import SpecError
from sweep_service.sweep.spec import SweepSpec
from trainers.benchmarks.known_benchmarks import usual
from trainers.catalog.entries import ModelEntry


def benchmark_errors(spec: SweepSpec) -> list[SpecError]:
    """Return why a spec's benchmarks could not be measured, or would measure nothing."""
    if (benchmarks := spec.benchmarks) is None:
        return []
    errors = list[SpecError]()
    if benchmarks.of == "confirmed" and spec.seeds.confirm is None:
        detail = (
            "confirmed: there is no confirm stage whose models could be measured; give seeds.confirm, or set it to all"
        )
        errors.append(SpecError("/benchmarks/of", detail))
    return errors


def context_errors(spec: SweepSpec, model: ModelEntry) -> Iterator[SpecError]:
    """Yield why the longest completion of a benchmark does not fit a model's context."""
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
