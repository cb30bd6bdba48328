"""Requests for what trainers and runners have printed."""

from pathlib import Path

from sweep_service.errors import NoLog, NotReady, ServiceError
from sweep_service.processes.child_processes import this_host
from sweep_service.processes.log_files import LOG_FILE, MAX_PART, read_log
from sweep_service.schemas import LogPart
from sweep_service.service.base import ServicePart
from sweep_service.sweep.records import Work


class Logs(ServicePart):
    """Parts of logs, whose files the service finds below its storage."""

    def trial_log(
        self, work_id: str, attempt: int | None, offset: int = 0, limit: int = MAX_PART, tail: int | None = None
    ) -> LogPart:
        """Return a part of what the trainer of a trial or an evaluation printed in one attempt.

        Args:
            attempt: its number; None for the newest one.
            offset, limit, tail: which part, as for `read_log`.
        Raises: NotFound; NotReady, while no attempt has written any; NoLog.
        """
        work, attempts = self.store.get_work(work_id), self.store.attempts_of(work_id)
        if not attempts:
            raise _no_attempt(work)
        if attempt is not None and attempt > len(attempts):
            raise NoLog(f"{work_id} has no attempt {attempt}; its newest is attempt {len(attempts)}")
        one = attempts[-1 if attempt is None else attempt - 1]
        path, ended = Path(one.directory) / LOG_FILE, one.ended_at is not None
        try:
            part = read_log(path, self.settings.storage, offset, limit, tail)
        except FileNotFoundError:
            place = f"attempt {one.number} of {work_id} on {one.host or 'its machine'}"
            raise _missing_log(path, place, ended=ended) from None
        return LogPart(
            content=part.content,
            attempt=one.number,
            attempts=len(attempts),
            offset=part.offset,
            next_offset=part.next_offset,
            size=part.size,
            ended=ended,
            over=work.state.is_over,
        )

    def runner_log(self, sweep_id: str, offset: int = 0, limit: int = MAX_PART, tail: int | None = None) -> LogPart:
        """Return a part of what a sweep's runners printed, as `trial_log` does.

        Raises: NotFound; NotReady, while none has begun; NoLog.
        """
        over = self.store.get_sweep(sweep_id).state.is_over
        path = self.settings.storage / sweep_id / "runner.log"
        try:
            part = read_log(path, self.settings.storage, offset, limit, tail)
        except FileNotFoundError:
            raise _missing_log(path, f"the runner of {sweep_id}", ended=over) from None
        return LogPart(
            content=part.content,
            offset=part.offset,
            next_offset=part.next_offset,
            size=part.size,
            ended=over,
            over=over,
        )


def _no_attempt(work: Work) -> ServiceError:
    if work.state.is_over:
        return NoLog(f"{work.id} has no log: it ended as {work.state} before an attempt of it began")
    return NotReady(f"{work.id} has no log yet: no attempt of it has begun; ask again once it runs")


def _missing_log(path: Path, writer: str, *, ended: bool) -> ServiceError:
    remedy = "the storage (SWEEPS_STORAGE) must be one folder that all machines see"
    if not ended:
        return NotReady(
            f"there is no {path} on {this_host()} yet, which {writer} is to write; if it stays so, {remedy}"
        )
    return NoLog(f"there is no {path} on {this_host()}, which {writer} wrote: it was removed, or {remedy}")
