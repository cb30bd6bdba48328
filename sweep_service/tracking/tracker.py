"""The interface to a tracking server, to which the projector carries the store. `MlflowApi` implements it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

RunStatus = Literal["SCHEDULED", "RUNNING", "FINISHED", "FAILED", "KILLED"]


class TrackerError(Exception):
    """A call to the tracking server failed."""


class TrackerAway(TrackerError):
    """The server did not answer, or is in trouble: the same call may succeed later."""


class TrackerRefused(TrackerError):
    """The server refused the call, and would refuse it again."""


class TrackerGone(TrackerRefused):
    """The run or experiment does not exist."""


@dataclass(frozen=True)
class MetricPoint:
    """One value of one metric."""

    key: str
    value: float
    timestamp: int
    """Milliseconds since the Unix epoch."""
    step: int


class Tracker(Protocol):
    """A server that keeps runs, with their params, tags, metrics and files, in experiments.

    Every call may be repeated: after a call that succeeded, failed half-way or was cut off by a crash, the same call
    leaves the server as one call alone would have. Names, keys and values must be short enough for the server
    (`mlflow_words` cuts them); the number of items of one call is not limited. One thread at a time may call.
    Times are milliseconds since the Unix epoch.

    Raises: TrackerAway or TrackerRefused, by every call; TrackerGone, by every call that names an experiment or run
    which the server does not have (any more).
    """

    def close(self) -> None:
        """Close the connection. No other call may follow; raises nothing."""
        ...

    def experiment(self, name: str) -> str:
        """Return the id of the experiment of this name, made if there is none.

        Raises: TrackerRefused, if somebody has deleted it.
        """
        ...

    def set_experiment_tag(self, experiment_id: str, key: str, value: str) -> None:
        """Set a tag of an experiment, in place of its earlier value."""
        ...

    def find_runs(self, experiment_id: str, tags: Mapping[str, str], *, deleted: bool = True) -> Iterator[str]:
        """Yield the ids of the runs that have all these tags; deleted runs too, unless `deleted` is false."""
        ...

    def ensure_run(
        self,
        experiment_id: str,
        name: str,
        start_time: int,
        tags: Mapping[str, str],
        identity: Collection[str],
        *,
        deleted: bool = True,
    ) -> str:
        """Return the id of the run whose tags named in `identity` have these values; make it if there is none.

        A new run appears with all its tags or not at all. An existing one is left as it is.

        Args:
            deleted: True if a run that somebody deleted counts, so that it is not made again.
        """
        ...

    def log(
        self,
        run_id: str,
        points: Sequence[MetricPoint] = (),
        params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Add metrics and params to a run, and set its tags. The server keeps equal points once.

        Raises: TrackerRefused, if a param has another value already, or the run is deleted.
        """
        ...

    def update_run(self, run_id: str, status: RunStatus, end_time: int | None = None) -> None:
        """Set a run's status, and its end if that is known."""
        ...

    def delete_run(self, run_id: str) -> None:
        """Move a run to the bin, from which people can restore it."""
        ...

    def put_artifact(self, run_id: str, name: str, content: bytes, media_type: str) -> None:
        """Store a file with a run, in place of an earlier one of that name.

        Raises: TrackerRefused, if the server does not take files.
        """
        ...
