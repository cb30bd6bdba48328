"""Messages and exit codes of failed commands, and of interrupted ones."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import typer
from pydantic import ValidationError

from sweep_service.auth import TokenError
from sweep_service.cli.exits import ExitCode
from sweep_service.cli.output import print_error, say
from sweep_service.client import TooLate, Unauthorized, Unreachable
from sweep_service.errors import Conflict, InvalidSpec, NoLog, NotFound, NotReady, ServiceError
from sweep_service.settings import SECRET_FIELDS, Settings
from sweep_service.sweep.records import SweepState

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_ERRORS: Final = {
    ExitCode.INVALID_SPEC: InvalidSpec,
    ExitCode.UNAUTHORIZED: (TokenError, Unauthorized),
    ExitCode.NOT_FOUND: (NotFound, NoLog),
    ExitCode.CONFLICT: (Conflict, NotReady),
    ExitCode.TOO_LATE: TooLate,
    ExitCode.UNREACHABLE: Unreachable,
}


def exit_code(error: ServiceError) -> ExitCode:
    """Return the code with which an error ends a command."""
    return next((code for code, kinds in _ERRORS.items() if isinstance(error, kinds)), ExitCode.ERROR)


def code_of_state(state: SweepState) -> ExitCode:
    """Return the code that tells how a sweep ended."""
    codes = {SweepState.FAILED: ExitCode.SWEEP_FAILED, SweepState.CANCELLED: ExitCode.SWEEP_CANCELLED}
    return codes.get(state, ExitCode.OK)


@contextmanager
def interruptible(goes_on: str) -> Generator[None]:
    """End the command on Ctrl-C, and say what goes on without it, and what to do then."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"\n{goes_on}")
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def print_failure(error: Exception) -> ExitCode | None:
    """Print an error for people; return the code that it ends the command with, or None if nobody expects it."""
    if isinstance(error, ServiceError):
        print_error(error)
        return exit_code(error)
    if isinstance(error, ValidationError) and error.title == Settings.__name__:
        for item in error.errors():
            print_error(ServiceError(_wrong_setting(item)))
        return ExitCode.USAGE
    return None


def _wrong_setting(mistake: "ErrorDetails") -> str:
    """Say which variable is wrong, without a value that may hold a password."""
    words = mistake["msg"].removeprefix("Value error, ")
    if not mistake["loc"]:
        return words
    field = str(mistake["loc"][0])
    shown = "" if field in SECRET_FIELDS else f"={mistake['input']}"
    return f"SWEEPS_{field.upper()}{shown}: {words}"
