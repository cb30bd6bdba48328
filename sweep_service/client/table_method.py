"""Methods of the client that are made from the table of verbs."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, Concatenate, ParamSpec, TypeVar

from sweep_service.client.asking import Asking, document_of, segment
from sweep_service.verbs import VERBS

Own = TypeVar("Own", bound=Asking)
Given = ParamSpec("Given")
Answer = TypeVar("Answer")


def of_table(stub: Callable[Concatenate[Own, Given], Answer]) -> Callable[Concatenate[Own, Given], Answer]:
    """Return the method of the verb that has the stub's name; the stub says what it takes: an id, perhaps a body."""
    verb, takes = VERBS[stub.__name__], signature(stub)
    kind = "trial" if "{trial_id}" in verb.path else "sweep"

    @wraps(stub)
    def method(client: Own, *given: Given.args, **named: Given.kwargs) -> Any:
        try:
            _, about, *bodies = takes.bind(client, *given, **named).arguments.values()
        except TypeError as error:
            raise TypeError(f"{verb.name}{takes}: {error}") from None
        path = verb.path.format_map({f"{kind}_id": segment(kind, about)})
        sent = {"json": document_of(bodies[0], verb.request.refused)} if verb.request else {}
        return client.ask("POST", f"/v1/{path}", verb.answer, **sent)

    reasons = "; InvalidSpec, with every reason" if verb.request else ""
    method.__doc__ = f"{verb.text}\n\nRaises: NotFound; Conflict, if {verb.conflict}{reasons}."
    return method
