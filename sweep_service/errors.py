"""The service's exceptions, wherever they are defined; each defined elsewhere stands with its package.

Exception
├── ServiceError                      the message says what happened and what to do
│   ├── NotFound                      an id that names nothing
│   ├── NoLog                         a log that is not there, or cannot be read on this machine
│   ├── InvalidSpec                   a sweep that cannot run as asked: every reason, each with its JSON pointer
│   ├── Conflict                      a request that the present state does not allow
│   │   ├── IdempotencyKeyReused      the same key with another request
│   │   ├── SweepDeleted              the same request again, whose sweep is deleted
│   │   └── ReportFailed              asked for a report that could not be built
│   ├── DatabaseAway        store     a database that cannot be reached, or that does not let us in
│   ├── DatabaseUnfit       store     no database, or one of another version of the service or another program
│   ├── StaleEpoch                    a runner that lost its lease tried to write
│   ├── NotReady                      asked for something that does not exist yet, such as a report
│   │   └── StillReading              a sweep whose data are being read
│   ├── TokenError          auth      no token where one is needed, or one that cannot be used
│   ├── RecipeError         recipes   a recipe that does not exist or does not fit
│   ├── SpecFileError       cli       a spec's file that is missing or is not valid YAML
│   ├── AddressInUse        api       an address that another program listens on
│   ├── NotPrivate          processes a folder of ours that is somebody else's, or open to others
│   ├── StrangerListens     processes another user's program at an address where a server of ours should be
│   ├── CannotStart         serve     something that stops `sweeps serve` before or while it starts
│   ├── Unguarded           serve     nobody starts again what ends, so `sweeps serve` ends itself
│   ├── AnotherWorker       worker    a second worker on the same SQLite database
│   └── ClientError         client    what only a client can meet; it also raises the errors above, as if it were local
│       ├── Unreachable               no server answers at that address
│       ├── Unauthorized              the server does not know the token
│       ├── Refused                   any other refusal; `problem` says why
│       └── TooLate                   the time limit of a wait is over
├── TrackerError            tracking  a call to the tracking server failed
│   ├── TrackerAway                   the server did not answer, or is in trouble: the call may succeed later
│   └── TrackerRefused                the server refused the call, and would refuse it again
│       └── TrackerGone               the run or experiment does not exist
├── RefusedProposal         runner    a point drawn by the sampler that training refuses
├── NotPlain                runner    a path at which no ordinary file lies
├── BadEvent                runner    a line of a program of one's own that is no event, or breaks a rule
├── Refusal                 api       a request that the API refuses before the service sees it
└── AnotherPage             api       a page that cannot be shown; the answer given instead
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final


class ServiceError(Exception):
    """Base of all errors of the service; the message says what happened and what to do."""


class NotFound(ServiceError):
    """No thing of this kind has that name; without a name: there is none of this kind yet."""

    def __init__(self, kind: str, name: str | None = None, where: str = "") -> None:
        super().__init__(f"there is no {kind} yet" if name is None else f"there is no {kind} {name!r}{where}")
        self.kind, self.name, self.where = kind, name, where

    def __reduce__(self) -> tuple[type["NotFound"], tuple[str, str | None, str]]:
        return NotFound, (self.kind, self.name, self.where)


class NoLog(ServiceError):
    """A log that is not there, or that cannot be read on this machine."""


@dataclass(frozen=True)
class SpecError:
    """One reason why a sweep cannot run."""

    pointer: str
    """JSON pointer into the spec (RFC 6901), such as `/space/loss.beta1/choices/2`."""
    detail: str


def pointer(path: Iterable[str | int]) -> str:
    """Return the JSON pointer (RFC 6901) to a place in a document."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


class InvalidSpec(ServiceError):
    """The sweep cannot run, or cannot be measured as somebody asks.

    Args:
        what: the refusal of the request, in a sentence.
    """

    def __init__(self, errors: list[SpecError], what: str = "the sweep cannot run") -> None:
        super().__init__("; ".join(f"{error.pointer or '/'}: {error.detail}" for error in errors))
        self.errors, self.what = errors, what

    def __reduce__(self) -> tuple[type["InvalidSpec"], tuple[list[SpecError], str]]:
        return InvalidSpec, (self.errors, self.what)

    @property
    def summary(self) -> str:
        """The refused request, and the number of reasons."""
        return f"{self.what}, for {'one reason' if len(self.errors) == 1 else f'{len(self.errors)} reasons'}"


class Conflict(ServiceError):
    """The present state does not allow the request."""


class SweepDeleted(Conflict):
    """The idempotency key submitted a sweep that is deleted; use a new key."""


class IdempotencyKeyReused(Conflict):
    """The idempotency key was used before with another request; use a new key."""


class ReportFailed(Conflict):
    """The report could not be built, and asking again does not help."""


class StaleEpoch(ServiceError):
    """Another runner has taken over this sweep; this one must stop."""


class NotReady(ServiceError):
    """It does not exist yet; ask again later."""


class StillReading(NotReady):
    """The data of the sweep are being read; ask again."""


CODES: Final[Mapping[type[ServiceError], tuple[int, str]]] = {
    NotFound: (404, "NOT_FOUND"),
    NoLog: (404, "NO_LOG"),
    InvalidSpec: (422, "INVALID_SPEC"),
    IdempotencyKeyReused: (422, "IDEMPOTENCY_KEY_REUSED"),
    SweepDeleted: (410, "SWEEP_DELETED"),
    Conflict: (409, "CONFLICT"),
    ReportFailed: (409, "REPORT_FAILED"),
    NotReady: (409, "NOT_READY"),
    StillReading: (503, "DATA_BEING_READ"),
}
"""Status and code with which the API answers an error, and from which the client raises it again."""
