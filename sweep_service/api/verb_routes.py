"""The routes that steer a submitted sweep: pause, cancel, stop, extend, retry, delete, measure more, a new report."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response

from sweep_service.api.json_body import json_body
from sweep_service.api.problems import documented
from sweep_service.api.sweep_routes import (
    REFUSALS,
    By,
    Service,
    SweepId,
    TrialId,
    authorize,
    body_of,
    check_parameters,
    view_of,
)
from sweep_service.schemas import DeletionView, ReportsView, SweepView
from sweep_service.sweep.added_benchmarks import BenchmarksRequest
from sweep_service.sweep.deletion import DeletionState
from sweep_service.sweep.extension import Extension

router = APIRouter(prefix="/v1", dependencies=[Depends(authorize), Depends(check_parameters)], responses=REFUSALS)


@router.post("/sweeps/{sweep_id}/cancel", responses=documented(404, 409))
def cancel(service: Service, sweep_id: SweepId, by: By) -> SweepView:
    """Stop a sweep. Asking again is no error; 409 if it has ended otherwise."""
    service.cancel(sweep_id, by)
    return view_of(service, sweep_id)


@router.post("/sweeps/{sweep_id}/pause", responses=documented(404, 409))
def pause(service: Service, sweep_id: SweepId, by: By) -> SweepView:
    """Stop a sweep until it is resumed. Asking again is no error; 409 if its trials have ended.

    Running trials save after the optimizer step under way, or the state before the completions that they sample, and
    end: the sweep is PAUSED once they have, and holds no slot.
    """
    service.pause(sweep_id, by)
    return view_of(service, sweep_id)


@router.post("/sweeps/{sweep_id}/resume", responses=documented(404, 409))
def resume(service: Service, sweep_id: SweepId, by: By) -> SweepView:
    """Let a paused sweep go on from what its trials have saved. Asking again is no error; 409 if it has ended."""
    service.resume(sweep_id, by)
    return view_of(service, sweep_id)


@router.post(
    "/sweeps/{sweep_id}/extend",
    responses=documented(404, 409, 411, 413, 415),
    openapi_extra=body_of(Extension.model_json_schema()),
)
def extend(service: Service, sweep_id: SweepId, raw: Annotated[Any, Depends(json_body)], by: By) -> SweepView:
    """Give a sweep more configs, seeds, a larger `top_k`, or other limits: the values that its spec shall have.

    One that runs goes on with them; one that has ended is QUEUED again, and its report is built anew. Asking again for
    the same is no change.
    """
    service.extend(sweep_id, raw, by)
    return view_of(service, sweep_id)


@router.post("/sweeps/{sweep_id}/retry-failed", responses=documented(404, 409))
def retry_failed(service: Service, sweep_id: SweepId, by: By) -> SweepView:
    """Try all failed trials again, from their newest checkpoints. Of a sweep without any this is no change."""
    service.retry_failed(sweep_id, by)
    return view_of(service, sweep_id)


@router.post("/trials/{trial_id}/retry", responses=documented(404, 409))
def retry_trial(service: Service, trial_id: TrialId, by: By) -> SweepView:
    """Try a failed trial again, or one that was stopped, from its newest checkpoint.

    Of one that waits or runs this is no change.
    """
    return view_of(service, service.retry_trial(trial_id, by).id)


@router.post("/trials/{trial_id}/stop", responses=documented(404, 409))
def stop_trial(
    service: Service,
    trial_id: TrialId,
    by: By,
    counts: Annotated[
        bool, Query(description="Whether the evaluations that it has recorded count; otherwise it has no result.")
    ] = True,
) -> SweepView:
    """Stop one trial while its sweep goes on. Asking again is no error; 409 if it has ended otherwise.

    A running one saves as for a pause and ends, and its slot is free; one that waits ends at once.
    """
    return view_of(service, service.stop_trial(trial_id, counts=counts, by=by).id)


@router.post(
    "/sweeps/{sweep_id}/benchmarks",
    responses=documented(404, 409, 411, 413, 415),
    openapi_extra=body_of(BenchmarksRequest.model_json_schema()),
)
def add_benchmarks(service: Service, sweep_id: SweepId, raw: Annotated[Any, Depends(json_body)], by: By) -> SweepView:
    """Measure models of a sweep that has SUCCEEDED on more benchmarks, without training anything.

    The sweep is QUEUED again, and its report is built anew. Asking again for the same is no change.
    """
    service.add_benchmarks(sweep_id, raw, by)
    return view_of(service, sweep_id)


@router.post("/sweeps/{sweep_id}/report", status_code=202, responses=documented(404, 409))
def renew_report(service: Service, sweep_id: SweepId, by: By) -> ReportsView:
    """Have the report of a sweep that has ended built anew, by the present version. Asking again is no error.

    409 if it has not ended, or is archived. The report before stays, and stands if the new one would be the same.
    """
    service.renew_report(sweep_id, by)
    return service.reports(sweep_id)


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
