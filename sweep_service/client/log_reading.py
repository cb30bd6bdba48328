"""The client's methods for the logs of trainers and runners."""

import time
from collections.abc import Callable, Iterator
from functools import partial

from sweep_service.client.asking import segment
from sweep_service.client.sweep_names import SweepNames
from sweep_service.errors import NotReady
from sweep_service.schemas import LOG_HEADERS, LogPart


class LogReading(SweepNames):
    """Parts of logs, and logs that are followed while they are written."""

    def trial_log(self, work_id: str, attempt: int | None = None, offset: int = 0, tail: int | None = None) -> LogPart:
        """Return a part of what the trainer of a trial or an evaluation printed, of at most 1 MiB.

        Args:
            attempt: number of the attempt; None for the newest one.
            offset: number of bytes to leave out at the beginning.
            tail: return so many last lines instead.
        Raises: NotFound; NotReady, while no attempt has printed anything; NoLog.
        """
        return self._log(f"/v1/trials/{segment('trial', work_id)}/logs", attempt, offset, tail)

    def runner_log(self, sweep_id: str, offset: int = 0, tail: int | None = None) -> LogPart:
        """Return a part of what a sweep's runners printed, as `trial_log` does."""
        return self._log(self.sweep_path(sweep_id, "logs"), None, offset, tail)

    def follow_trial_log(
        self,
        work_id: str,
        attempt: int | None = None,
        tail: int | None = None,
        on_wait: Callable[[str], None] | None = None,
        poll_s: float = 1.0,
    ) -> Iterator[LogPart]:
        """Iterate over the parts of a log as they are written, until the trial is over, attempt after attempt.

        Args:
            attempt: number of the only attempt to follow; None: the newest one, and those that come after it.
            tail: begin with so many last lines.
            on_wait: called with the reason, each time that there is no log yet.
            poll_s: seconds between two looks.
        Raises: NotFound; NoLog.
        """
        return _follow(partial(self.trial_log, work_id), attempt, tail, on_wait, poll_s)

    def follow_runner_log(
        self,
        sweep_id: str,
        tail: int | None = None,
        on_wait: Callable[[str], None] | None = None,
        poll_s: float = 1.0,
    ) -> Iterator[LogPart]:
        """Iterate over the parts of a runner's log as they are written, until the sweep is over."""
        found = self.find_sweep(sweep_id)
        return _follow(lambda _, *part: self.runner_log(found, *part), None, tail, on_wait, poll_s)

    def _log(self, path: str, attempt: int | None, offset: int, tail: int | None) -> LogPart:
        params = {"attempt": attempt, "offset": offset or None, "tail": tail}
        answer = self.request("GET", path, params)
        fields = {name: answer.headers.get(header) for name, header in LOG_HEADERS.items()}
        return LogPart.model_validate({"content": answer.content, **fields})


def _follow(
    read: Callable[[int | None, int, int | None], LogPart],
    only: int | None,
    tail: int | None,
    on_wait: Callable[[str], None] | None,
    poll_s: float,
) -> Iterator[LogPart]:
    """Yield the parts that `read` returns for an attempt, an offset and a number of last lines."""
    attempt, offset = only, 0
    while True:
        try:
            part = read(attempt, offset, tail)
        except NotReady as error:
            if on_wait:
                on_wait(str(error))
            time.sleep(poll_s)
            continue
        yield part
        attempt, offset, tail = part.attempt, part.next_offset, None
        if part.is_last and only is None and attempt is not None and (part.attempts or 0) > attempt:
            attempt, offset = attempt + 1, 0
        elif part.is_last and (part.over or only is not None):
            return
        elif part.next_offset >= part.size:
            time.sleep(poll_s)
