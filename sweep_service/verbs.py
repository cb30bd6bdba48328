"""The verbs that steer a submitted sweep: the table from which routes, client methods, commands and forms are made.

A verb's rule is the method of its name in `service/verb_rules.py`. A verb with options of its own, such as `delete`,
has its route, its method and its command written by hand.
"""

from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel

from sweep_service.schemas import ReportsView, SweepView
from sweep_service.sweep.added_benchmarks import REFUSED as NOT_ADDED
from sweep_service.sweep.added_benchmarks import BenchmarksRequest
from sweep_service.sweep.extension import REFUSED as NOT_EXTENDED
from sweep_service.sweep.extension import Extension
from sweep_service.sweep.records import SweepState


@dataclass(frozen=True, kw_only=True)
class Command:
    """The command of a verb that takes a sweep and nothing else."""

    example: str
    then: str
    """Advice after it; {sweep} stands for the sweep's id."""
    doing: str
    """Words for the sweep's change, as in "is being paused"."""
    goal: SweepState | None = None
    """The state that the command can wait for."""


@dataclass(frozen=True, kw_only=True)
class Verb:
    """One verb. Asking for it again is no change."""

    name: str
    """Name of its rule, and of its method of the client."""
    path: str
    """Path below /v1, with {sweep_id} or {trial_id}."""
    does: str
    conflict: str
    """The condition under which it is refused, as in "it has ended"."""
    details: str = ""
    request: type[BaseModel] | None = None
    """Model of the request's body, if it has one."""
    refused: str = ""
    """Head of all reasons for which a body is refused."""
    answer: type[SweepView | ReportsView] = SweepView
    command: Command | None = None
    page: str = ""
    """Last part of the address to which a form of the status page is sent; empty without one."""
    cannot: str = ""
    """Heading of the page that says why it is refused."""

    def __post_init__(self) -> None:
        """Refuse what needs a route of its own."""
        assert not ("{trial_id}" in self.path and (self.request or self.command))
        assert not (self.page and self.request)

    @property
    def text(self) -> str:
        """Its effect, for the API's description and the command's help."""
        return f"{self.does}\n\n{self.details}".rstrip()


_ROWS: Final = (
    Verb(
        name="cancel",
        path="sweeps/{sweep_id}/cancel",
        does="Stop a sweep.",
        details="Running trials end within seconds. What they have recorded stays.",
        conflict="it has ended otherwise",
        command=Command(
            goal=SweepState.CANCELLED,
            doing="is being cancelled",
            then="",
            example="sweeps cancel demo --wait",
        ),
        page="cancel",
        cannot="It cannot be cancelled",
    ),
    Verb(
        name="pause",
        path="sweeps/{sweep_id}/pause",
        does="Stop a sweep until it is resumed.",
        details="Running trials save after the optimizer step under way, or the state before the completions that they "
        "sample, and end: their CPUs, GPUs and memory are free. Nothing is lost, and on a CPU the curves will be the "
        "same to the last bit. A trainer that has not saved within ten minutes is killed; its trial goes on from its "
        "newest checkpoint.",
        conflict="its trials have ended",
        command=Command(
            goal=SweepState.PAUSED,
            doing="is being paused",
            then="let it go on: sweeps resume {sweep}",
            example="sweeps pause demo --wait",
        ),
        page="pause",
        cannot="It cannot be paused",
    ),
    Verb(
        name="resume",
        path="sweeps/{sweep_id}/resume",
        does="Let a paused sweep go on from what its trials have saved.",
        conflict="it has ended",
        command=Command(
            doing="goes on",
            then="follow it: sweeps watch {sweep}",
            example="sweeps resume demo && sweeps watch demo",
        ),
        page="resume",
        cannot="It cannot be resumed",
    ),
    Verb(
        name="extend",
        path="sweeps/{sweep_id}/extend",
        does="Give a sweep more configs, seeds, a larger `top_k`, or other limits: the new values of its spec.",
        details="A running sweep goes on with them; one that has ended is QUEUED again, and its report is built anew.",
        conflict="it can train no more",
        request=Extension,
        refused=NOT_EXTENDED,
    ),
    Verb(
        name="retry_failed",
        path="sweeps/{sweep_id}/retry-failed",
        does="Try all failed trials of a sweep again, from their newest checkpoints.",
        conflict="it can train no more, or a trial has used up its time",
        page="retry",
        cannot="The failed trials cannot be tried again",
    ),
    Verb(
        name="retry_trial",
        path="trials/{trial_id}/retry",
        does="Try a failed trial again, or one that was stopped by hand, from its newest checkpoint.",
        details="The answer is its sweep. A trial that waits or runs goes on.",
        conflict="it has ended by itself with a result, or its sweep can train no more",
    ),
    Verb(
        name="add_benchmarks",
        path="sweeps/{sweep_id}/benchmarks",
        does="Measure models of a sweep that has SUCCEEDED on more benchmarks, without training anything.",
        details="The sweep is QUEUED again, and its report is built anew.",
        conflict="it is in another state",
        request=BenchmarksRequest,
        refused=NOT_ADDED,
    ),
    Verb(
        name="renew_report",
        path="sweeps/{sweep_id}/report",
        does="Have the report of a sweep that has ended built anew, by the server's version.",
        details="The report before stays, and stands if the new one would be the same.",
        conflict="it has not ended, or is archived",
        answer=ReportsView,
        page="rebuild",
        cannot="The report cannot be built anew",
    ),
)
VERBS: Final = {verb.name: verb for verb in _ROWS}
"""All verbs by name."""
