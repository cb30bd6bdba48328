"""The routes of a sweep's benchmarks: its evaluations, their scores, single problems, and completions to read."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Query, Response
from pydantic import BaseModel

from sweep_service.api.paging import Pages
from sweep_service.api.problems import documented
from sweep_service.api.sweep_routes import Service, SweepId, v1_router
from sweep_service.schemas import BenchmarkSample, BenchmarkScoreView, EvaluationView, Page
from sweep_service.sweep.benchmark_scores import ProblemScore, as_csv
from trainers.config import CatalogName

Row = TypeVar("Row", bound=BaseModel)
Format = Annotated[Literal["json", "csv"], Query(description="csv: all rows at once, whatever the page.")]
_CSV: dict[int | str, dict[str, Any]] = {200: {"content": {"text/csv": {"schema": {"type": "string"}}}}}
router = v1_router("/sweeps/{sweep_id}", documented(404))


@router.get("/evaluations")
def list_evaluations(service: Service, sweep_id: SweepId, paging: Pages) -> Page[EvaluationView]:
    """List the evaluations of a sweep's models on its benchmarks, in the order in which they were asked for."""
    rows = [EvaluationView(**dict(row)) for row in service.store.list_evaluations(sweep_id)]
    return paging.page_of_all(rows, lambda row: row.number)


@router.get("/benchmarks", response_model=Page[BenchmarkScoreView], responses=_CSV)
def list_scores(service: Service, sweep_id: SweepId, paging: Pages, format: Format = "json") -> Any:
    """List what the sweep's models score on its benchmarks: avg@k, pass@k, majority@k, lengths and errors."""
    rows = [BenchmarkScoreView(**dict(score)) for score in service.benchmark_scores(sweep_id)]
    if format == "csv":
        return _as_csv(rows, BenchmarkScoreView)
    return paging.page_of_all(rows, lambda score: (score.evaluation_number, score.benchmark))


@router.get("/benchmarks/{name}/problems", response_model=Page[ProblemScore], responses=_CSV)
def list_problems(
    service: Service, sweep_id: SweepId, name: CatalogName, paging: Pages, format: Format = "json"
) -> Any:
    """List how many completions of each problem each model had right."""
    rows = service.problem_scores(sweep_id, name)
    if format == "csv":
        return _as_csv(rows, ProblemScore)
    places = range(first := paging.after(-1) + 1, len(rows))[: paging.size + 1]
    page = paging.page(places, lambda place: place)
    items = rows[first : first + len(page.items)]
    return Page(items=items, next_page_token=page.next_page_token, page_size=page.page_size)


@router.get("/benchmarks/{name}/samples")
def list_samples(service: Service, sweep_id: SweepId, name: CatalogName, paging: Pages) -> Page[BenchmarkSample]:
    """List a few completions of each model with their judgements. A page never splits those of one model."""
    rows = sorted(service.store.benchmark_results(sweep_id, name), key=lambda row: row.evaluation_id)
    shown = [BenchmarkSample(evaluation_id=row.evaluation_id, **sample) for row in rows for sample in row.shown]
    return paging.page_of_all(shown, lambda sample: sample.evaluation_id)


def _as_csv(rows: Sequence[Row], kind: type[Row]) -> Response:
    return Response(as_csv(rows, kind), media_type="text/csv; charset=utf-8")
