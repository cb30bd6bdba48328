"""What only a client can meet. All else that may be raised is in `sweep_service.errors`, as if the service were local.

ClientError(ServiceError)
├── Unreachable      no server answers at that address
├── Unauthorized     the token is wrong
├── Refused          any other answer that is not the one asked for; `problem` says why
└── TooLate          the time given to wait is over
"""

from sweep_service.errors import ServiceError
from sweep_service.schemas import Problem


class ClientError(ServiceError):
    """Base of the errors that only a client can meet."""


class Unreachable(ClientError):
    """No server answers at that address."""


class Unauthorized(ClientError):
    """The server does not know the token."""


class TooLate(ClientError):
    """The time given to wait is over; what was waited for goes on."""


class Refused(ClientError):
    """The server refused the request, for a reason that has no class of its own."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.detail} ({problem.status} {problem.code})")
        self.problem = problem

    def __reduce__(self) -> tuple[type["Refused"], tuple[Problem]]:
        return Refused, (self.problem,)
