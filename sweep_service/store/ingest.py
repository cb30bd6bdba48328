"""The conversion of a trainer's events to rows."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, and_, func, select, update

from sweep_service.store import tables as t
from sweep_service.store.base import Fence, append_event, change
from sweep_service.sweep.records import Attempt


def _store_points(connection: Connection, attempt: Attempt, kind: str, events: Sequence[Mapping[str, Any]]) -> None:
    """Store `step` or `evaluation` events as one chunk of curves.

    A step that an earlier attempt recorded keeps that attempt's time, so that a bit-exact repeat is the same point.
    """
    if not events:
        return
    steps = [int(event["step"]) for event in events]
    first_times: dict[int, float] = {}
    if attempt.number > 1:
        c = t.curves.c
        overlap = and_(c.last_step >= min(steps), c.first_step <= max(steps))
        earlier = and_(c.trial_id == attempt.trial_id, c.kind == kind, c.attempt < attempt.number)
        recorded = select(c.points).where(earlier, overlap).order_by(c.attempt.desc())
        for points in connection.execute(recorded).scalars():
            first_times |= zip(points["steps"], points["times"], strict=True)
    keys = sorted({key for event in events for key in event["metrics"]})
    content = {
        "steps": steps,
        "times": [first_times.get(step, event["time"]) for step, event in zip(steps, events, strict=True)],
        "metrics": {key: [event["metrics"].get(key) for event in events] for key in keys},
    }
    chunk = {"trial_id": attempt.trial_id, "attempt": attempt.number, "kind": kind, "points": content}
    connection.execute(t.curves.insert().values(chunk | {"first_step": min(steps), "last_step": max(steps)}))
    further = and_(t.trials.c.id == attempt.trial_id, t.trials.c.step < max(steps))
    connection.execute(update(t.trials).where(further).values(step=max(steps)))


def store_training(connection: Connection, fence: Fence, attempt: Attempt, events: Sequence[Mapping[str, Any]]) -> None:
    """Store events of a trainer, in their order."""
    for kind in ("step", "evaluation"):
        _store_points(connection, attempt, kind, [event for event in events if event["type"] == kind])
    for event in events:
        _store_event(connection, fence, attempt, event)


def store_measurements(
    connection: Connection, fence: Fence, attempt: Attempt, events: Sequence[Mapping[str, Any]]
) -> None:
    """Store events of a process that measures a model on benchmarks, in their order."""
    evaluation = {"evaluation_id": attempt.trial_id}
    r = t.benchmark_results
    for event in events:
        if event["type"] == "progress":
            data = {key: event[key] for key in ("phase", "done", "total")}
            append_event(connection, fence.sweep_id, "evaluation.progress", evaluation | data)
        elif event["type"] == "benchmark":
            same = and_(r.c.evaluation_id == attempt.trial_id, r.c.benchmark == event["name"])
            if connection.execute(select(r.c.content).where(same)).scalar_one_or_none() == event["result"]:
                continue  # a later attempt tells again what it found complete
            key = evaluation | {"benchmark": event["name"]}
            row = {name: event[name] for name in ("time", "model_sha256", "shown")} | {"content": event["result"]}
            connection.execute(r.delete().where(same))
            connection.execute(r.insert().values(key | row))
            measured = select(func.count()).where(r.c.evaluation_id == attempt.trial_id).scalar_subquery()
            change(connection, t.trials, attempt.trial_id, step=measured)
            score = {"avg_at_k": event["result"]["scores"]["avg_at_k"]["mean"]}
            append_event(connection, fence.sweep_id, "evaluation.measured", key | score)


def _store_event(connection: Connection, fence: Fence, attempt: Attempt, event: Mapping[str, Any]) -> None:
    """Store one event of a trainer, other than the values of its curves."""
    trial_id = attempt.trial_id
    match event["type"]:
        case "started":
            change(connection, t.attempts, attempt, versions=event.get("versions"))
        case "evaluation":
            data = {"trial_id": trial_id, "step": event["step"], "metrics": event["metrics"]}
            append_event(connection, fence.sweep_id, "trial.evaluated", data)
            if "problems" in event:  # a program of one's own need not count
                _store_problem_counts(connection, trial_id, event["step"], event["problems"])
        case "problems":
            p, digest = t.problem_sets, event["digest"]
            stored = select(p.c.digest).where(p.c.sweep_id == fence.sweep_id, p.c.digest == digest)
            if not connection.execute(stored).first():
                connection.execute(p.insert().values(sweep_id=fence.sweep_id, digest=digest, names=event["names"]))
        case "samples":
            s = t.samples
            connection.execute(s.delete().where(s.c.trial_id == trial_id, s.c.step == event["step"]))
            connection.execute(s.insert().values(trial_id=trial_id, step=event["step"], samples=event["samples"]))
        case "checkpoint" if event.get("model_only"):
            k = t.kept_models
            connection.execute(k.delete().where(k.c.trial_id == trial_id, k.c.step == event["step"]))
            connection.execute(k.insert().values(trial_id=trial_id, step=event["step"], path=event["path"]))
        case "checkpoint":
            row = {"step": event["step"], "path": event["path"], "time": event["time"]}
            connection.execute(t.checkpoints.insert().values(trial_id=trial_id, attempt=attempt.number, **row))
        case "progress":
            data = {key: event[key] for key in ("phase", "done", "total")}
            append_event(connection, fence.sweep_id, "trial.progress", {"trial_id": trial_id} | data)
        case "warning":
            warning = {key: event[key] for key in ("code", "message", "evidence", "step")}
            append_event(connection, fence.sweep_id, "trial.warned", {"trial_id": trial_id} | warning)
            earlier = connection.execute(select(t.trials.c.warnings).where(t.trials.c.id == trial_id)).scalar_one()
            warnings = [
                *(other for other in earlier if other["code"] != warning["code"] or other.get("is_sign")),
                warning,
            ]
            # MLflow does not show it yet.
            change(connection, t.trials, trial_id, warnings=warnings, mlflow_state=None)
        case "finished":
            change(connection, t.trials, trial_id, summary=event["summary"])
        case _:
            pass


def _store_problem_counts(connection: Connection, trial_id: str, step: int, counts: Mapping[str, Any]) -> None:
    """Store the counts of one evaluation; of a step that comes again the later counts stand.

    An evaluation whose judge failed on every sample has no counts, as it has no score.
    """
    p, judged = t.problem_counts, counts["judged"]
    connection.execute(p.delete().where(p.c.trial_id == trial_id, p.c.step == step))
    if any(judged) if isinstance(judged, list) else judged:
        row = {"digest": counts["digest"], "judged": judged, "right": counts["right"]}
        connection.execute(p.insert().values(trial_id=trial_id, step=step, **row))
