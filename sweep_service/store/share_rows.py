"""Shares of the cluster, and the next to begin: decided inside a transaction, so that no two take one slot."""

import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, NamedTuple

from pydantic import ValidationError
from sqlalchemy import ColumnElement, Connection, case, func, select

from sweep_service.store import tables as t
from sweep_service.store.base import EVALUATION_STAGE, Fence, change
from sweep_service.store.database import Lock, now_for_leases, take
from sweep_service.store.sweep_rows import SweepRows, is_free
from sweep_service.store.trial_rows import TrialRows
from sweep_service.sweep.endings import TrialState
from sweep_service.sweep.plan import stage_counts
from sweep_service.sweep.records import Attempt, DesiredState, ProbeState, Sweep, SweepState
from sweep_service.sweep.shares import Part, Share
from sweep_service.sweep.spec import SweepSpec

_NEED_RUNNER: Final = [state.value for state in SweepState if state.needs_runner]


class ShareRows(SweepRows, TrialRows):
    """Turns of the sweeps: who gets a runner, and whose runner begins the next trial."""

    def claim(
        self, holder: str, lease_s: float, *, to_cancel: bool = False, besides: Collection[str] = ()
    ) -> Sweep | None:
        """Take over a sweep that needs a runner and that no live lease holds; this raises its epoch by one.

        Sweeps that the user wants to end or to pause come first, then the sweep whose turn it is.

        Args:
            holder: name of the new holder, for people to read.
            lease_s: seconds until the lease ends unless it is renewed.
            to_cancel: take only a sweep that the user wants stopped.
            besides: ids of sweeps that are left alone, because the caller has a runner for each.
        """
        s = t.sweeps.c
        wanted = s.state.in_(_NEED_RUNNER) & s.id.not_in(besides)
        if to_cancel:
            wanted &= s.desired_state == DesiredState.CANCEL
        in_order = sorted(self.unclaimed(), key=lambda share: share.order)
        places = {share.sweep_id: place for place, share in enumerate(in_order, 1)}
        return self._claim(holder, lease_s, wanted, *([case(places, value=s.id, else_=0)] if places else []))

    def start_in_turn(
        self,
        fence: Fence,
        trial_id: str,
        directory: str,
        part: Part,
        slots: int,
        is_turn: Callable[[Sequence[Share]], bool],
    ) -> Attempt | None:
        """Give a pending trial or evaluation to a new attempt, as `start_attempt` does, if it is its sweep's turn.

        Args:
            part: its CPUs and GPUs; if it must wait, the others see that its sweep waits for them.
            slots: number of such parts in the cluster.
            is_turn: decides by the shares of all sweeps.
        Returns: None if it must wait, or waits no more, since somebody has stopped it meanwhile.
        """
        with self._fenced(fence) as connection:
            take(connection, Lock.TURN)
            _wait_for(connection, fence, part, slots=slots)
            if not is_turn(_shares(connection)):
                return None
            _wait_for(connection, fence, None)
            state = select(t.trials.c.state).where(t.trials.c.id == trial_id)
            if connection.execute(state).scalar_one() != TrialState.PENDING:  # somebody has stopped it meanwhile
                return None
            return self._start_attempt(connection, fence, trial_id, directory)

    def wait_in_turn(self, fence: Fence, part: Part | None, slots: int | None = None) -> list[Share]:
        """Note the part that the sweep waits for, or with None that it waits for nothing; return all shares.

        Args:
            slots: number of such parts in the cluster.
        """
        with self._fenced(fence) as connection:
            _wait_for(connection, fence, part, **({} if slots is None else {"slots": slots}))
            return _shares(connection)

    def shares(self) -> list[Share]:
        """Return the shares of the sweeps that have a runner."""
        with self._read() as connection:
            return _shares(connection)

    def unclaimed(self) -> list[Share]:
        """Return the shares of the sweeps that wait for a worker to run them."""
        with self._read() as connection:
            return _shares(connection, claimed=False)


def _wait_for(connection: Connection, fence: Fence, part: Part | None, **changes: int) -> None:
    change(connection, t.sweeps, fence.sweep_id, waits_for=None if part is None else list(part), **changes)


class _Design(NamedTuple):
    """A spec's demands for its trials; cached, because parsing a spec takes longer than all else here."""

    trial: Part
    evaluation: Part
    max_parallel: int | None
    trials: int
    """Number of trials that the sweep needs, at most."""
    steps: int
    """Number of optimizer updates of one trial of its base configuration."""


_DESIGNS = dict[str, _Design]()
"""Designs by the spec's digest."""


def _design(connection: Connection, digest: str) -> _Design:
    if digest not in _DESIGNS:
        stored = select(t.sweeps.c.spec).where(t.sweeps.c.spec_digest == digest).limit(1)
        spec = SweepSpec.model_validate(connection.execute(stored).scalar_one())
        parts = Part.of(spec.resources), Part.of(spec.evaluation_resources)
        try:
            training = sum(stage_counts(spec)), spec.trained_base.steps
        except ValidationError:
            training = 0, 0  # stored by another version; its runner says so, and no other sweep is kept from its turn
        _DESIGNS[digest] = _Design(*parts, spec.resources.max_parallel, *training)
    return _DESIGNS[digest]


def _shares(connection: Connection, *, claimed: bool = True) -> list[Share]:
    """Return the shares of the sweeps that have a runner, or of those that wait for one."""
    s = t.sweeps.c
    free = is_free(*now_for_leases(connection))
    wanted = s.state.in_(_NEED_RUNNER) & (~free if claimed else free & (s.desired_state == DesiredState.RUN))
    columns = s.id, s.name, s.spec_digest, s.waits_for, s.slots, s.asks_since, s.added_benchmarks, s.epoch
    sweeps = connection.execute(select(*columns).where(wanted).order_by(s.id)).all()
    works, done_s = _works(connection, wanted), _done_s(connection, wanted)
    p = t.probes.c
    running_probes = select(p.sweep_id).where(p.sweep_id.in_(select(s.id).where(wanted)), p.state == ProbeState.RUNNING)
    probing = set(connection.execute(running_probes).scalars())
    shares = list[Share]()
    for sweep in sweeps:
        design = _design(connection, sweep.spec_digest)
        own = [one for one in works if one.sweep_id == sweep.id]
        running = [design.evaluation if one.measures else design.trial for one in own for _ in range(one.running)]
        waits_for = Part(*sweep.waits_for) if sweep.waits_for else None
        shares.append(
            Share(
                sweep_id=sweep.id,
                name=sweep.name,
                held=(*running, *([design.trial] if sweep.id in probing else [])),
                waits_for=waits_for if claimed else design.trial,
                asks_since=sweep.asks_since,
                asked_s=max(0.0, time.time() - sweep.asks_since),
                done_s=done_s.get(sweep.id, 0.0),
                left_s=_left_s(design, own, trains=not sweep.added_benchmarks),
                slots=max(1, min(sweep.slots, design.max_parallel or sweep.slots, design.trials)),
                lacks_node=not sweep.slots,
                claims=sweep.epoch,
            )
        )
    return shares


def _works(connection: Connection, of_sweeps: ColumnElement[bool]) -> Sequence[Any]:
    """Return each sweep's work, trials and evaluations apart: the part that is done, and the part that is left."""
    c = t.trials.c
    measures = c.stage == EVALUATION_STAGE
    under_way = c.state.in_([state.value for state in TrialState if not state.is_over])
    counted = select(
        c.sweep_id,
        measures.label("measures"),
        func.count().label("number"),
        func.count().filter(c.state == TrialState.RUNNING).label("running"),
        func.count().filter(c.held_s > 0).label("begun"),
        func.sum(c.held_s).label("held_s"),
        func.sum(c.step).label("steps"),
        func.coalesce(func.sum(c.total_steps - c.step).filter(under_way), 0).label("steps_left"),
    )
    wanted = c.sweep_id.in_(select(t.sweeps.c.id).where(of_sweeps))
    return connection.execute(counted.where(wanted).group_by(c.sweep_id, measures)).all()


def _done_s(connection: Connection, of_sweeps: ColumnElement[bool]) -> dict[str, float]:
    """Return by sweep the seconds for which it has held parts in attempts that began since it asks."""
    a, c, s = t.attempts.c, t.trials.c, t.sweeps.c
    held = select(s.id, func.sum(a.held_s).label("held_s")).join_from(t.attempts, t.trials)
    held = held.join(t.sweeps, c.sweep_id == s.id).where(of_sweeps, a.started_at >= s.asks_since).group_by(s.id)
    return {row.id: row.held_s for row in connection.execute(held)}


def _left_s(design: _Design, works: Sequence[Any], *, trains: bool) -> float | None:
    """Return the seconds for which a sweep will hold parts from now on, if its work takes as long as so far.

    Trials that it will need and does not have yet are counted, evaluations are not. Before the first update a trial
    takes as long as those that have begun have held their parts, at least.
    """
    left_s = 0.0
    for one in works:
        steps_left, number = one.steps_left, one.number
        if trains and not one.measures:
            number = max(number, design.trials)
            steps_left += (number - one.number) * design.steps
        if not steps_left:
            continue
        if one.steps:
            left_s += one.held_s / one.steps * steps_left
        elif one.begun:
            left_s += one.held_s / one.begun * number - one.held_s
        elif not one.measures:
            return None
    return left_s
