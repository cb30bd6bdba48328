"""Requests for what trainers and runners have printed."""

from pathlib import Path
from typing import Any

from sweep_service.errors import NoLog, NotReady
from sweep_service.processes.child_processes import this_host
from sweep_service.processes.log_files import LOG_FILE, MAX_PART, read_log
from sweep_service.schemas import LogPart
from sweep_service.service.base import ServicePart


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
        if not attempts and work.state.is_over:
            raise NoLog(f"{work.id} has no log: it ended as {work.state} before an attempt of it began")
        if not attempts:
            raise NotReady(f"{work.id} has no log yet: no attempt of it has begun; ask again once it runs")
        if attempt is not None and attempt > len(attempts):
            raise NoLog(f"{work_id} has no attempt {attempt}; its newest is attempt {len(attempts)}")
        one = attempts[-1 if attempt is None else attempt - 1]
        path, ended = Path(one.directory) / LOG_FILE, one.ended_at is not None
        writer = f"attempt {one.number} of {work_id} on {one.host or 'its machine'}"
        fields = self._part(path, writer, offset, limit, tail, ended=ended)
        return LogPart(**fields, attempt=one.number, attempts=len(attempts), over=work.state.is_over)

    def runner_log(self, sweep_id: str, offset: int = 0, limit: int = MAX_PART, tail: int | None = None) -> LogPart:
        """Return a part of what a sweep's runners printed, as `trial_log` does.

        Raises: NotFound; NotReady, while none has begun; NoLog.
        """
        over = self.store.get_sweep(sweep_id).state.is_over
        path, writer = self.settings.storage / sweep_id / "runner.log", f"the runner of {sweep_id}"
        return LogPart(**self._part(path, writer, offset, limit, tail, ended=over), over=over)

    def _part(
        self, path: Path, writer: str, offset: int, limit: int, tail: int | None, *, ended: bool
    ) -> dict[str, Any]:
        """Return the fields of a `LogPart` that the file gives."""
        try:
            part = read_log(path, self.settings.storage, offset, limit, tail)
        except FileNotFoundError:
            remedy = "the storage (SWEEPS_STORAGE) must be one folder that all machines see"
            there = f"there is no {path} on {this_host()}"
            if ended:
                raise NoLog(f"{there}, which {writer} wrote: it was removed, or {remedy}") from None
            raise NotReady(f"{there} yet, which {writer} is to write; if it stays so, {remedy}") from None
        return {**part._asdict(), "next_offset": part.next_offset, "ended": ended}
