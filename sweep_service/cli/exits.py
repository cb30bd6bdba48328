"""Exit codes, for scripts: what each means, and with which an error ends a command."""

from enum import IntEnum

from sweep_service.auth import TokenError
from sweep_service.client import TooLate, Unauthorized, Unreachable
from sweep_service.errors import Conflict, InvalidSpec, NoLog, NotFound, NotReady, ServiceError
from sweep_service.sweep.records import SweepState


class ExitCode(IntEnum):
    """The code with which a command ends. Usage errors are 2, as everywhere."""

    OK = 0
    ERROR = 1
    USAGE = 2
    INVALID_SPEC = 3
    UNAUTHORIZED = 4
    NOT_FOUND = 5
    CONFLICT = 6
    SWEEP_FAILED = 7
    SWEEP_CANCELLED = 8
    TOO_LATE = 9
    UNREACHABLE = 10
    INTERRUPTED = 130


HELP = """Exit codes

\b
0 ok                    1 error                   2 usage
3 sweep cannot run      4 token missing or wrong  5 not found
6 conflict, or not yet  7 the sweep FAILED        8 it was CANCELLED
9 out of time           10 no server answers      130 interrupted"""

_BY_ERROR: tuple[tuple[type[ServiceError], ExitCode], ...] = (
    (InvalidSpec, ExitCode.INVALID_SPEC),
    (TokenError, ExitCode.UNAUTHORIZED),
    (Unauthorized, ExitCode.UNAUTHORIZED),
    (NotFound, ExitCode.NOT_FOUND),
    (NoLog, ExitCode.NOT_FOUND),
    (Conflict, ExitCode.CONFLICT),
    (NotReady, ExitCode.CONFLICT),
    (TooLate, ExitCode.TOO_LATE),
    (Unreachable, ExitCode.UNREACHABLE),
)


def exit_code(error: ServiceError) -> ExitCode:
    """Return the code with which an error ends a command."""
    return next((code for kind, code in _BY_ERROR if isinstance(error, kind)), ExitCode.ERROR)


def code_of_state(state: SweepState) -> ExitCode:
    """Return the code that tells how a sweep ended."""
    codes = {SweepState.FAILED: ExitCode.SWEEP_FAILED, SweepState.CANCELLED: ExitCode.SWEEP_CANCELLED}
    return codes.get(state, ExitCode.OK)
