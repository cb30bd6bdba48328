"""The list of sweeps: what each row says."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sweep_service.pages.rendering import render
from sweep_service.schemas import SweepSummary
from sweep_service.sweep.records import DesiredState, SweepState

PAGE: Final = 50


@dataclass(frozen=True)
class SweepRow:
    """One sweep in the list."""

    id: str
    name: str
    state: SweepState
    cancelling: bool
    message: str | None
    counts: dict[str, int]
    total: int
    done: int
    trouble: int
    """Trials that failed or diverged."""
    created_at: float
    age: float
    """Seconds since it was submitted."""
    took: float | None
    """Seconds that it has been running, or ran."""

    @property
    def share(self) -> float:
        """Of its trials, those that have ended."""
        return self.done / self.total if self.total else 0.0


def overview(sweeps: Sequence[SweepSummary], now: float, before: str | None) -> str:
    """Return the page of sweeps.

    Args:
        sweeps: at most `PAGE`, newest first, and one more if there are older ones.
        now: seconds since the Unix epoch.
        before: the id that the page begins after, if it is not the first one.
    """
    shown = sweeps[:PAGE]
    older = shown[-1].id if len(sweeps) > PAGE else None
    return render("sweeps", rows=[_row(sweep, now) for sweep in shown], older=older, before=before)


def _row(sweep: SweepSummary, now: float) -> SweepRow:
    counts = sweep.trials
    return SweepRow(
        id=sweep.id,
        name=sweep.name,
        state=sweep.state,
        cancelling=sweep.desired_state is DesiredState.CANCEL and not sweep.state.is_over,
        message=sweep.message,
        counts={state.value: number for state, number in counts.items()},
        total=sum(counts.values()),
        done=sum(number for state, number in counts.items() if state.is_over),
        trouble=sum(number for state, number in counts.items() if state.went_wrong),
        created_at=sweep.created_at,
        age=now - sweep.created_at,
        took=(sweep.ended_at or now) - sweep.started_at if sweep.started_at else None,
    )
