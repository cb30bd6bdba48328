"""Objective against retained entropy."""

from collections.abc import Sequence
from itertools import groupby
from statistics import fmean

from sweep_service.report.model import ConfigRow, TradeoffPoint
from sweep_service.report.statistics.differences import mean_interval
from sweep_service.report.sweep_facts import Facts
from sweep_service.sweep.records import Stage


def tradeoff(facts: Facts) -> list[TradeoffPoint]:
    """Return every config with a result, by number; both coordinates are of confirm trials, or of tune trials."""
    shares = kept_by_stage(facts)
    points = [point for row in facts.rows.values() if (point := _point(row, shares)) is not None]
    front = best_of_both(points)
    return [point.model_copy(update={"on_front": point.config_id in front}) for point in points]


def kept_by_stage(facts: Facts) -> dict[tuple[str, Stage], list[float]]:
    """Return the share of entropy that is left in each trial with a result, by config id and stage."""
    shares: dict[tuple[str, Stage], list[float]] = {}
    for trial in facts.trials:
        if trial.entropy_kept is not None and trial.objective is not None:
            shares.setdefault((trial.config_id, trial.stage), []).append(trial.entropy_kept)
    return shares


def _point(row: ConfigRow, shares: dict[tuple[str, Stage], list[float]]) -> TradeoffPoint | None:
    stage, result = (Stage.CONFIRM, row.confirm) if row.confirm else (Stage.TUNE, row.tune)
    values = shares.get((row.id, stage))
    if result is None or values is None:
        return None
    entropy = mean_interval(values)
    return TradeoffPoint(
        config_id=row.id,
        objective=result.mean,
        objective_low=result.low,
        objective_high=result.high,
        entropy_kept=fmean(values),
        entropy_low=entropy.low,
        entropy_high=entropy.high,
        n=len(values),
        on_front=False,
    )


def best_of_both(points: Sequence[TradeoffPoint]) -> set[str]:
    """Return the ids of the points that no other point beats in one coordinate without losing in the other."""
    front: set[str] = set()
    highest = float("-inf")
    for _, equal in groupby(sorted(points, key=lambda point: -point.objective), key=lambda point: point.objective):
        level = list(equal)
        entropy = max(point.entropy_kept for point in level)
        if entropy > highest:
            highest = entropy
            front |= {point.config_id for point in level if point.entropy_kept == entropy}
    return front
