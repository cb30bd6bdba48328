"""Errors that only a client can meet; the tree is in `sweep_service.errors`."""

from sweep_service.errors import ServiceError
from sweep_service.schemas import Problem


class ClientError(ServiceError):
    """Base of the errors that only a client can meet."""


class Unreachable(ClientError):
    """No server answers at that address."""


class Unauthorized(ClientError):
    """The server does not know the token."""


class TooLate(ClientError):
    """The time limit of a wait is over; the sweep goes on."""


class Refused(ClientError):
    """The server refused the request, for a reason that has no class of its own."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.detail} ({problem.status} {problem.code})")
        self.problem = problem

    def __reduce__(self) -> tuple[type["Refused"], tuple[Problem]]:
        return Refused, (self.problem,)
