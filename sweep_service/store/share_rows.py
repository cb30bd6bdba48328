"""What sweeps hold of the cluster, and who begins next: decided inside a transaction, so that no two take one slot."""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, func, not_, select, text, update

from sweep_service.store import tables as t
from sweep_service.store.base import EVALUATION_STAGE, Fence
from sweep_service.store.database import now_for_leases
from sweep_service.store.sweep_rows import is_free
from sweep_service.store.trial_rows import TrialRows
from sweep_service.sweep.endings import TrialState
from sweep_service.sweep.records import Attempt, DesiredState, ProbeState, SweepState
from sweep_service.sweep.shares import Part, Share
from sweep_service.sweep.spec import SweepSpec


class ShareRows(TrialRows):
    """Turns of the sweeps that have a runner."""

    def start_in_turn(
        self, fence: Fence, trial_id: str, directory: str, part: Part, is_turn: Callable[[Sequence[Share]], bool]
    ) -> Attempt | None:
        """Give a pending trial or evaluation to a new attempt, as `start_attempt` does, if it is its sweep's turn.

        Args:
            part: its CPUs and GPUs; if it must wait, the others see that its sweep waits for them.
            is_turn: decides by what all sweeps hold and wait for.
        Returns: None if it must wait, or waits no more, since somebody has stopped it meanwhile.
        Raises: StaleEpoch.
        """
        with self._fenced(fence) as connection:
            _one_at_a_time(connection)
            _wait_for(connection, fence, part)
            if not is_turn(_shares(connection)):
                return None
            _wait_for(connection, fence, None)
            state = select(t.trials.c.state).where(t.trials.c.id == trial_id)
            if connection.execute(state).scalar_one() != TrialState.PENDING:  # somebody has stopped it meanwhile
                return None
            return self._start_attempt(connection, fence, trial_id, directory)

    def wait_in_turn(self, fence: Fence, part: Part | None) -> list[Share]:
        """Note what the sweep waits for, or with None that it waits for nothing; return what all hold and wait for.

        Raises: StaleEpoch.
        """
        with self._fenced(fence) as connection:
            _wait_for(connection, fence, part)
            return _shares(connection)

    def unclaimed(self) -> list[Share]:
        """Return the sweeps that wait for a worker to run them: what each has used, and what its trials need."""
        with self._read() as connection:
            return _shares(connection, claimed=False)


def _one_at_a_time(connection: Connection) -> None:
    """Let no other turn be decided until this transaction ends; on SQLite there is only one that writes anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(727275)"))


def _wait_for(connection: Connection, fence: Fence, part: Part | None) -> None:
    this = update(t.sweeps).where(t.sweeps.c.id == fence.sweep_id)
    connection.execute(this.values(waits_for=None if part is None else list(part)))


def _shares(connection: Connection, *, claimed: bool = True) -> list[Share]:
    """Return what sweeps hold, have used and wait for: those that have a runner, or those that wait for one."""
    s = t.sweeps.c
    free = is_free(*now_for_leases(connection))
    wanted = and_(
        s.state.in_([state.value for state in SweepState if state.needs_runner]), not_(free) if claimed else free
    )
    if not claimed:
        wanted &= s.desired_state == DesiredState.RUN.value
    sweeps = connection.execute(select(s.id, s.name, s.spec, s.waits_for).where(wanted).order_by(s.id)).all()
    works, probing = _works(connection, wanted), _probing(connection, wanted)
    shares = list[Share]()
    for sweep in sweeps:
        spec = SweepSpec.model_validate(sweep.spec)
        training, measuring = Part.of(spec.resources), Part.of(spec.evaluation_resources)
        waits_for = Part(*sweep.waits_for) if sweep.waits_for else None
        parts = [(measuring if one.measures else training, one) for one in works if one.sweep_id == sweep.id]
        running = [part for part, one in parts for _ in range(one.running)]
        shares.append(
            Share(
                sweep_id=sweep.id,
                name=sweep.name,
                held=(*running, *([training] if sweep.id in probing else [])),
                used=tuple((part, one.held_s) for part, one in parts),
                waits_for=waits_for if claimed else training,
            )
        )
    return shares


def _works(connection: Connection, of_sweeps: ColumnElement[bool]) -> Sequence[Any]:
    """Return for each sweep, trials and evaluations apart, how many run and for how long they have held their parts."""
    c = t.trials.c
    measures = c.stage == EVALUATION_STAGE
    running = func.count().filter(c.state == TrialState.RUNNING.value).label("running")
    held = select(c.sweep_id, measures.label("measures"), func.sum(c.held_s).label("held_s"), running)
    wanted = c.sweep_id.in_(select(t.sweeps.c.id).where(of_sweeps))
    return connection.execute(held.where(wanted, c.attempts > 0).group_by(c.sweep_id, measures)).all()


def _probing(connection: Connection, of_sweeps: ColumnElement[bool]) -> set[str]:
    p = t.probes.c
    running = and_(p.sweep_id.in_(select(t.sweeps.c.id).where(of_sweeps)), p.state == ProbeState.RUNNING.value)
    return set(connection.execute(select(p.sweep_id).where(running)).scalars())
