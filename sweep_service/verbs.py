"""The verbs that steer a submitted sweep: the table of which routes, client methods, commands and buttons are made.

A verb's rule is the method of its name in `service/verb_rules.py`. A verb with options of its own, such as `delete`,
has its route, its method and its command written by hand. The table imports nothing, so that help costs little.
"""

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from sweep_service.sweep.deletion import DeletionState
    from sweep_service.sweep.records import Sweep


@dataclass(frozen=True, kw_only=True)
class Command:
    """The command of a verb that takes a sweep and nothing else."""

    example: str
    doing: str
    """Words for the sweep's change, as in "is being paused"."""
    then: str = ""
    """Advice after it; {sweep} stands for the sweep's id."""
    goal: str = ""
    """Name of the sweep's state that the command can wait for."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A sweep as the status page shows it that offers the verbs."""

    sweep: "Sweep"
    failed_trials: int
    report_stands: bool
    """True if its final report is there, and none is being built."""
    deletion: "DeletionState | None"

    @property
    def may_go_on(self) -> bool:
        """True if it has not ended, and is not to end."""
        return not self.sweep.state.is_over and not self.sweep.desired_state.is_to_end


@dataclass(frozen=True, kw_only=True)
class Button:
    """The button of a verb on the status page of a sweep."""

    text: str
    offered: Callable[[Shown], bool]
    """True of a sweep to which it may be done."""
    refusal: str
    """Heading of the page that says why it is refused all the same."""
    hint: str = ""
    warning: str = ""
    """Its consequences, which are shown before a second button does it; empty if one click is enough."""
    confirmation: str = ""
    """Text of the second button."""


@dataclass(frozen=True, kw_only=True)
class Verb:
    """One verb. Asking for it again is no change."""

    name: str
    """Name of its rule, and of its method of the client."""
    path: str
    """Path below /v1, with {sweep_id} or {trial_id}."""
    does: str
    details: str = ""
    conflict: str
    """The condition under which it is refused, as in "it has ended"."""
    more: str
    """Section of docs/api.md, or of another page there, that says more."""
    request: str = ""
    """Module and name of the model of the request's body, if it has one."""
    argument: str = "request"
    """Name of the body among the arguments of the client's method."""
    body: str = ""
    """Example of a body."""
    refused: str = ""
    """Head of all reasons for which a body is refused."""
    answer: Literal["SweepView", "ReportsView"] = "SweepView"
    """Name of the answer in `schemas.py`."""
    command: Command | None = None
    button: Button | None = None

    def __post_init__(self) -> None:
        """Refuse a verb that needs a route, a command or a button of its own."""
        assert bool(self.request) == bool(self.body) == bool(self.refused)
        about_sweep_alone = "{sweep_id}" in self.path and not self.request
        assert about_sweep_alone or not (self.button or self.command)
        assert self.answer == "SweepView" or not (self.request or self.command)
        assert not self.button or bool(self.button.warning) == bool(self.button.confirmation)

    @property
    def text(self) -> str:
        """Its effect, for the API's description and the command's help."""
        return f"{self.does}\n\n{self.details}".rstrip()

    @property
    def request_model(self) -> Any:
        """Model of the request's body, imported here; None without one."""
        return pkgutil.resolve_name(self.request) if self.request else None


_ROWS: Final = (
    Verb(
        name="pause",
        path="sweeps/{sweep_id}/pause",
        does="Stop a sweep until it is resumed.",
        details="Running trials save after the optimizer step under way, or the state before the completions that they "
        "sample, and end: their CPUs, GPUs and memory are free. Nothing is lost, and on a CPU the curves will be the "
        "same to the last bit. A trainer that has not saved within ten minutes is killed; its trial goes on from its "
        "newest checkpoint.",
        conflict="its trials have ended, or it is being cancelled",
        more="#pausing",
        command=Command(
            goal="PAUSED",
            doing="is being paused",
            then="let it go on: sweeps resume {sweep}",
            example="sweeps pause demo --wait",
        ),
        button=Button(
            text="Pause this sweep",
            hint="Its running trials save and end; slots and memory are free until it is resumed",
            offered=lambda shown: (
                shown.may_go_on and shown.sweep.state.trials_may_change and shown.sweep.desired_state != "PAUSE"
            ),
            refusal="It cannot be paused",
        ),
    ),
    Verb(
        name="resume",
        path="sweeps/{sweep_id}/resume",
        does="Let a paused sweep go on from what its trials have saved.",
        conflict="it has ended, or is being cancelled",
        more="#pausing",
        command=Command(
            doing="goes on",
            then="follow it: sweeps watch {sweep}",
            example="sweeps resume demo && sweeps watch demo",
        ),
        button=Button(
            text="Resume this sweep",
            offered=lambda shown: shown.may_go_on and shown.sweep.desired_state == "PAUSE",
            refusal="It cannot be resumed",
        ),
    ),
    Verb(
        name="cancel",
        path="sweeps/{sweep_id}/cancel",
        does="Stop a sweep.",
        details="Running trials end within seconds, and what they have recorded stays. A sweep that no worker has "
        "claimed is CANCELLED at once.",
        conflict="it has ended otherwise",
        more="states.md",
        command=Command(goal="CANCELLED", doing="is being cancelled", example="sweeps cancel demo --wait"),
        button=Button(
            text="Cancel this sweep",
            warning="Its running trials end within seconds, those that wait never start. What was recorded stays, and "
            "a report is made of it.",
            confirmation="Yes, cancel the sweep",
            offered=lambda shown: shown.may_go_on,
            refusal="It cannot be cancelled",
        ),
    ),
    Verb(
        name="extend",
        path="sweeps/{sweep_id}/extend",
        does="Give a sweep more configs, seeds, a larger `top_k`, or other limits: the new values of its spec.",
        details="A running sweep goes on with them; one that has ended is QUEUED again, and its report is built anew.",
        conflict="it can train no more, or its report is being built",
        more="#more-configs-more-seeds-another-try",
        request="sweep_service.sweep.extension:Extension",
        argument="extension",
        body='{"seeds": {"confirm": {"seeds": [5, 6, 7]}}}',
        refused="the sweep cannot be extended",
    ),
    Verb(
        name="retry_failed",
        path="sweeps/{sweep_id}/retry-failed",
        does="Try all failed trials of a sweep again, from their newest checkpoints.",
        conflict="it can train no more, its report is being built, or a trial has used up its time",
        more="#more-configs-more-seeds-another-try",
        button=Button(
            text="Try the failed trials again",
            hint="They go on from their newest checkpoints, and the report is built anew",
            offered=lambda shown: (
                shown.failed_trials > 0 and shown.sweep.state in ("SUCCEEDED", "FAILED") and not shown.sweep.has_trained
            ),
            refusal="The failed trials cannot be tried again",
        ),
    ),
    Verb(
        name="retry_trial",
        path="trials/{trial_id}/retry",
        does="Try a failed trial again, or one that was stopped by hand, from its newest checkpoint.",
        details="The answer is its sweep. A trial that waits or runs goes on.",
        conflict="it has ended by itself with a result, or its sweep can train no more, or builds its report",
        more="#more-configs-more-seeds-another-try",
    ),
    Verb(
        name="add_benchmarks",
        path="sweeps/{sweep_id}/benchmarks",
        does="Measure models of a sweep that has SUCCEEDED on more benchmarks, without training anything.",
        details="The sweep is QUEUED again, and its report is built anew.",
        conflict="it is in another state",
        more="benchmarks.md#of-a-sweep-that-has-ended",
        request="sweep_service.sweep.added_benchmarks:BenchmarksRequest",
        body='{"names": ["math500"], "of": ["best", "baseline"]}',
        refused="the benchmarks cannot be added",
    ),
    Verb(
        name="renew_report",
        path="sweeps/{sweep_id}/report",
        does="Have the report of a sweep that has ended built anew, by the server's version.",
        details="The report before stays, and stands if the new one would be the same.",
        conflict="it has not ended, or is archived",
        more="#reports",
        answer="ReportsView",
        button=Button(
            text="Build the report anew",
            hint="By the present version of the service; the report that stands now is kept",
            offered=lambda shown: shown.sweep.state.is_over and shown.report_stands and shown.deletion is None,
            refusal="The report cannot be built anew",
        ),
    ),
)
VERBS: Final = {verb.name: verb for verb in _ROWS}
"""All verbs by name, in the order in which help and pages show them."""
