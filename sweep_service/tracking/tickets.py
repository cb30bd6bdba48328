"""Tickets with which our signed-in page sends a browser through MLflow's door: good once, and for a minute."""

import secrets
from typing import Final

from sweep_service.auth import derived, same

SIGN_IN: Final = "/sign-in"
"""Path at which the door takes tickets."""
TICKET_S: Final = 60
"""Seconds for which a ticket is good."""


def signature(secret: str, content: str) -> str:
    """Sign what the door hands out or takes; the secret cannot be computed from it."""
    return derived(secret, f"MLflow: {content}")


def new_ticket(secret: str, now: float) -> str:
    """Return a ticket: until when it is good, a random number, and a signature."""
    content = f"{int(now) + TICKET_S}.{secrets.token_hex(16)}"
    return f"{content}.{signature(secret, f'ticket {content}')}"


class Tickets:
    """Remembers the tickets that were used, as long as they are good. One process must take all tickets.

    Those that were made before its start it does not take: a process before it may have.
    """

    def __init__(self, secret: str, now: float) -> None:
        self._secret, self._begun = secret, now
        self._used: dict[str, float] = {}

    def take(self, ticket: str, now: float) -> bool:
        """Return whether a ticket is genuine, in time, and used for the first time."""
        content, _, signed = ticket.rpartition(".")
        if not same(signed, signature(self._secret, f"ticket {content}")):
            return False
        self._used = {content: until for content, until in self._used.items() if until > now}
        until = float(content.partition(".")[0])
        if until <= now or until - TICKET_S < int(self._begun) or content in self._used:
            return False
        self._used[content] = until
        return True
