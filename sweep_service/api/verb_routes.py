"""The routes that steer a submitted sweep: those of the table of verbs, and those that take options of their own."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Depends, Query, Response

from sweep_service.api.json_body import json_body
from sweep_service.api.problems import documented
from sweep_service.api.sweep_routes import By, Service, SweepId, TrialId, body_of, v1_router, view_of
from sweep_service.schemas import DeletionView, ReportsView, SweepView
from sweep_service.service import SweepService
from sweep_service.sweep.deletion import DeletionState
from sweep_service.sweep.records import Sweep
from sweep_service.verbs import VERBS, Verb

router = v1_router()


def _add_route(verb: Verb) -> None:
    """Add the route of a verb, which asks the service's method of its name."""
    renews, request = verb.answer == "ReportsView", verb.request_model

    def answer(service: SweepService, *asked: Any) -> SweepView | ReportsView:
        rule: Callable[..., Sweep] = getattr(service, verb.name)
        sweep_id = rule(*asked).id
        return service.reports(sweep_id) if renews else view_of(service, sweep_id)

    def of_sweep(service: Service, sweep_id: SweepId, by: By) -> Any:
        return answer(service, sweep_id, by)

    def of_trial(service: Service, trial_id: TrialId, by: By) -> Any:
        return answer(service, trial_id, by)

    def with_request(service: Service, sweep_id: SweepId, raw: Annotated[Any, Depends(json_body)], by: By) -> Any:
        return answer(service, sweep_id, raw, by)

    refusals = (404, 409, 411, 413, 415) if request else (404, 409)
    router.add_api_route(
        f"/{verb.path}",
        with_request if request else of_trial if "{trial_id}" in verb.path else of_sweep,
        methods=["POST"],
        name=verb.name,
        status_code=202 if renews else 200,
        response_model=ReportsView if renews else SweepView,
        responses=documented(*refusals),
        openapi_extra=body_of(request.model_json_schema()) if request else None,
        description=f"{verb.text}\n\nAsking again is no change; 409 if {verb.conflict}.",
    )


for _verb in VERBS.values():
    _add_route(_verb)


@router.post("/trials/{trial_id}/stop", responses=documented(404, 409))
def stop_trial(
    service: Service,
    trial_id: TrialId,
    by: By,
    counts: Annotated[
        bool, Query(description="True if its recorded evaluations count; otherwise it has no result.")
    ] = True,
) -> SweepView:
    """Stop one trial while its sweep goes on. Asking again is no error; 409 if it has ended otherwise.

    A running one saves as for a pause and ends, and its slot is free; one that waits ends at once.
    """
    return view_of(service, service.stop_trial(trial_id, counts=counts, by=by).id)


@router.get("/sweeps/{sweep_id}/deletion", responses=documented(404))
def get_deletion(service: Service, sweep_id: SweepId) -> DeletionView:
    """Return what deleting a sweep would free; once that is asked for, how far it is, also when the sweep is gone."""
    return service.deletion(sweep_id)


@router.delete(
    "/sweeps/{sweep_id}",
    status_code=202,
    response_model=DeletionView,
    responses={200: {"description": "It is done.", "model": DeletionView}, **documented(404, 409)},
)
def delete(
    service: Service,
    response: Response,
    sweep_id: SweepId,
    by: By,
    keep_report: Annotated[
        bool, Query(description="Archive it instead: spec, trials and report stay; files, curves and samples go.")
    ] = False,
) -> DeletionView:
    """Delete a sweep that has ended: its rows, its files and its runs in MLflow. Asking again is no error."""
    deletion = service.delete(sweep_id, keep_report=keep_report, by=by)
    if deletion.state is not DeletionState.ASKED:
        response.status_code = 200
    return deletion
