"""The routes of a sweep's benchmarks: its evaluations, their scores, single problems, and completions to read."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Depends, Query, Response
from pydantic import BaseModel

from sweep_service.api.paging import Pages
from sweep_service.api.problems import documented
from sweep_service.api.sweep_routes import REFUSALS, Service, SweepId, authorize, check_parameters
from sweep_service.schemas import BenchmarkSample, BenchmarkScoreView, EvaluationView, Page
from sweep_service.sweep.benchmark_scores import BenchmarkScore, ProblemScore, as_csv
from trainers.config import CatalogName

Row = TypeVar("Row", bound=BaseModel)
Format = Annotated[Literal["json", "csv"], Query(description="csv: all rows at once, whatever the page.")]
_CSV: dict[int | str, dict[str, Any]] = {200: {"content": {"text/csv": {"schema": {"type": "string"}}}}}
router = APIRouter(
    prefix="/v1/sweeps/{sweep_id}",
    dependencies=[Depends(authorize), Depends(check_parameters)],
    responses=REFUSALS | documented(404),
)


@router.get("/evaluations")
def list_evaluations(service: Service, sweep_id: SweepId, paging: Pages) -> Page[EvaluationView]:
    """List the evaluations of a sweep's models on its benchmarks, in the order in which they were asked for."""
    after = paging.after(-1)
    rows = [EvaluationView(**dict(row)) for row in service.store.list_evaluations(sweep_id) if row.number > after]
    return paging.page(rows[: paging.size + 1], lambda row: row.number)


@router.get("/benchmarks", response_model=Page[BenchmarkScoreView], responses=_CSV)
def list_scores(service: Service, sweep_id: SweepId, paging: Pages, format: Format = "json") -> Any:
    """List what the sweep's models score on its benchmarks: avg@k, pass@k, majority@k, lengths and errors."""
    rows = [BenchmarkScoreView(**dict(score)) for score in service.benchmark_scores(sweep_id)]
    if format == "csv":
        return _as_csv(rows, BenchmarkScoreView)
    after = paging.after((-1, ""))
    return paging.page([row for row in rows if _place(row) > after][: paging.size + 1], _place)


def _place(score: BenchmarkScore) -> tuple[int, str]:
    return score.evaluation_number, score.benchmark


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
    after, rows = paging.after(""), service.store.benchmark_results(sweep_id, name)
    later = sorted((row for row in rows if row.evaluation_id > after), key=lambda row: row.evaluation_id)
    shown = [
        BenchmarkSample(evaluation_id=row.evaluation_id, **sample)
        for row in later[: paging.size + 1]
        for sample in row.shown
    ]
    return paging.page(shown, lambda sample: sample.evaluation_id)


def _as_csv(rows: Sequence[Row], kind: type[Row]) -> Response:
    return Response(as_csv(rows, kind), media_type="text/csv; charset=utf-8")
