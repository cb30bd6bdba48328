"""All that a user may do to a submitted sweep: by which ways, in which state, to what effect, and what refuses it.

`test_verbs.py` gives each verb by its route, by the client, by its command and on the page. A new verb is a row here.
Which states allow a verb, and what it does to other rows, is tested where it is decided: in the store and the service.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from sweep_service.client import Client
from sweep_service.store import Store
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.records import SweepState
from tests.integration.api.conftest import Served
from tests.integration.api.played_sweep import claim, finish
from tests.stored_sweeps import one_attempt

SMALL: Final[dict[str, Any]] = {
    "training": {"steps": 80, "task": {"name": "word_problems"}},
    "space": {"loss.beta1": 0.5},
}
"""What makes of `SPEC` one of four trials: a baseline and a config on two seeds."""


class Target(NamedTuple):
    """The ids to which a verb is applied."""

    sweep: str
    trial: str

    def named(self, text: str) -> str:
        """Return a path or a command with these ids."""
        return text.format(sweep=self.sweep, trial=self.trial)


def waiting(served: Served) -> Target:
    """Return a sweep that nobody has begun, and its first trial."""
    sweep_id = served.submit(**SMALL)
    return Target(sweep_id, served.store.list_trials(sweep_id)[0].id)


def running(served: Served) -> Target:
    """Return a sweep whose first trial runs."""
    target = waiting(served)
    served.store.start_attempt(claim(served.store, target.sweep), target.trial, "/nowhere/{attempt}")
    return target


def paused(served: Served) -> Target:
    """Return a sweep that waits for somebody to resume it."""
    target = waiting(served)
    served.service.pause(target.sweep)
    return target


def ended(served: Served, state: SweepState = SweepState.SUCCEEDED) -> Target:
    """Return a sweep that has ended, and its first trial, which FAILED."""
    target, store = waiting(served), served.store
    fence = claim(store, target.sweep)
    for trial in store.list_trials(target.sweep):
        one_attempt(store, fence, trial.id, Ending.FAILED if trial.id == target.trial else Ending.SUCCEEDED)
    finish(store, fence, state)
    store.release_lease(fence)
    return target


def cancelled(served: Served) -> Target:
    """Return a cancelled sweep, and its trial that FAILED before."""
    return ended(served, SweepState.CANCELLED)


def with_a_result(served: Served) -> Target:
    """Return a sweep that has ended, and a trial that SUCCEEDED."""
    target = ended(served)
    return target._replace(trial=served.store.list_trials(target.sweep)[-1].id)


def _told(served: Served, verb: str) -> Target:
    """Return a sweep whose first trial runs, and that has been told to end."""
    target = running(served)
    getattr(served.service, verb)(target.sweep)
    return target


STATES: Final[Mapping[str, Callable[[Served], Target]]] = {
    "QUEUED": waiting,
    "RUNNING": running,
    "PAUSING": lambda served: _told(served, "pause"),
    "PAUSED": paused,
    "CANCELLING": lambda served: _told(served, "cancel"),
    "CANCELLED": cancelled,
    "SUCCEEDED": ended,
}
"""Makes a sweep in each of the states that its page shows."""


@dataclass(frozen=True)
class Verb:
    """One verb. In paths and commands {sweep} and {trial} stand for the ids of the target."""

    name: str
    given: Callable[[Served], Target]
    """Makes a sweep in a state that allows the verb."""
    changes: Mapping[str, Any]
    """All `facts` that it changes, with their values afterwards."""
    event: str
    """Type of the event that says who asked."""
    refused: Callable[[Served], Target]
    """Makes a sweep in a state that does not."""
    path: str
    ask: Callable[[Client, Target], object]
    command: str
    page: str | None = None
    """Address to which the page's form is sent; None: the page does not have this verb."""
    offered: tuple[str, ...] = ()
    """States in which the page of a sweep has its button: some of `STATES`."""
    method: str = "POST"
    status: int = 200
    params: Mapping[str, str] = field(default_factory=dict[str, str])
    body: Any = None
    view: str = "/v1/sweeps/{sweep}"
    """Address of what the route answers."""
    exit_code: int = 0
    json: bool = True
    """True if the command prints JSON."""
    button_on: str = "/sweeps/{sweep}"
    """Page that has the form."""
    form: Mapping[str, str] = field(default_factory=dict[str, str])
    next_page: str = "/sweeps/{sweep}"

    def __str__(self) -> str:
        return self.name


def facts(store: Store, target: Target) -> dict[str, Any]:
    """Return what verbs change."""
    sweep, trial = store.get_sweep(target.sweep), store.get_trial(target.trial)
    deletion = store.deletions([target.sweep]).get(target.sweep)
    return {
        "state": sweep.state.value,
        "wish": sweep.desired_state.value,
        "generation": sweep.generation,
        "trials": dict(Counter(one.state.value for one in store.list_trials(target.sweep))),
        "trial": trial.state.value,
        "stop counts": trial.stop_counts,
        "max_parallel": sweep.spec.resources.max_parallel,
        "added": [(added.names, added.samples, len(added.trials)) for added in sweep.added_benchmarks],
        "report asked for": store.report_requested(target.sweep),
        "keeps report": deletion and deletion.keep_report,
    }


def _called_alike_everywhere(
    name: str, given: Callable[[Served], Target], changes: Mapping[str, Any], offered: tuple[str, ...]
) -> Verb:
    """Return a verb whose name is that of its route, its method of the client, its command and its form."""
    return Verb(
        name=name,
        given=given,
        changes=changes,
        event=f"sweep.{name}_requested",
        refused=ended,
        path=f"/v1/sweeps/{{sweep}}/{name}",
        ask=lambda client, target: getattr(client, name)(target.sweep),
        command=f"{name} {{sweep}}",
        page=f"/sweeps/{{sweep}}/{name}",
        offered=offered,
    )


_AGAIN: Final = {"state": "QUEUED", "generation": 1}
_LARGER: Final = {"resources": {"max_parallel": 3}}
_MEASURED: Final = {"names": ["arithmetic"], "of": ["baseline"], "samples": 2}
_RETRY: Final = Verb(
    name="retry all that failed",
    given=ended,
    changes=_AGAIN | {"trial": "PENDING", "trials": {"PENDING": 1, "SUCCEEDED": 3}},
    event="sweep.trials_retried",
    refused=cancelled,
    path="/v1/sweeps/{sweep}/retry-failed",
    ask=lambda client, target: client.retry_failed(target.sweep),
    command="retry {sweep}",
    page="/sweeps/{sweep}/retry_failed",
    offered=("SUCCEEDED",),
)
_STOP: Final = Verb(
    name="stop a trial",
    given=waiting,
    changes={"trial": "STOPPED", "stop counts": True, "trials": {"STOPPED": 1, "PENDING": 3}},
    event="trial.stop_requested",
    refused=with_a_result,
    path="/v1/trials/{trial}/stop",
    ask=lambda client, target: client.stop_trial(target.trial),
    command="stop {trial}",
    page="/trials/{trial}/stop",
    button_on="/trials/{trial}/stop",
    form={"result": "count"},
)
_DELETE: Final = Verb(
    name="delete",
    given=ended,
    changes={"keeps report": False},
    event="sweep.delete_requested",
    refused=waiting,
    path="/v1/sweeps/{sweep}",
    method="DELETE",
    status=202,
    view="/v1/sweeps/{sweep}/deletion",
    ask=lambda client, target: client.delete(target.sweep),
    command="delete {sweep} --yes",
    page="/sweeps/{sweep}/delete",
    button_on="/sweeps/{sweep}/delete",
    form={"what": "everything"},
    next_page="/sweeps/{sweep}/delete",
)
VERBS: Final = (
    _called_alike_everywhere("cancel", running, {"wish": "CANCEL"}, ("QUEUED", "RUNNING", "PAUSING", "PAUSED")),
    _called_alike_everywhere("pause", waiting, {"wish": "PAUSE", "state": "PAUSED"}, ("QUEUED", "RUNNING")),
    _called_alike_everywhere("resume", paused, {"wish": "RUN", "state": "QUEUED"}, ("PAUSING", "PAUSED")),
    Verb(
        name="extend",
        given=ended,
        changes=_AGAIN | {"max_parallel": 3},
        event="sweep.extended",
        refused=cancelled,
        path="/v1/sweeps/{sweep}/extend",
        body=_LARGER,
        ask=lambda client, target: client.extend(target.sweep, _LARGER),
        command="extend {sweep} --max-parallel 3",
    ),
    _RETRY,
    replace(
        _RETRY,
        name="retry one trial",
        refused=with_a_result,
        path="/v1/trials/{trial}/retry",
        ask=lambda client, target: client.retry_trial(target.trial),
        command="retry {trial}",
        page=None,
    ),
    _STOP,
    replace(
        _STOP,
        name="stop a trial and discard it",
        given=running,
        changes={"stop counts": False},
        params={"counts": "false"},
        ask=lambda client, target: client.stop_trial(target.trial, counts=False),
        command="stop {trial} --discard",
        form={"result": "discard"},
    ),
    Verb(
        name="add benchmarks",
        given=ended,
        changes={"state": "QUEUED", "added": [(("arithmetic",), 2, 1)]},
        event="sweep.benchmarks_added",
        refused=waiting,
        path="/v1/sweeps/{sweep}/benchmarks",
        body=_MEASURED,
        ask=lambda client, target: client.add_benchmarks(target.sweep, _MEASURED),
        command="benchmarks run {sweep} --names arithmetic --of baseline --samples 2",
    ),
    Verb(
        name="build the report anew",
        given=ended,
        changes={"report asked for": True},
        event="sweep.report_requested",
        refused=waiting,
        path="/v1/sweeps/{sweep}/report",
        status=202,
        view="/v1/sweeps/{sweep}/reports",
        ask=lambda client, target: client.renew_report(target.sweep),
        command="report {sweep} --anew --timeout 0",
        exit_code=9,  # it is not built in time, for no worker runs
        json=False,
        page="/sweeps/{sweep}/renew_report",
        offered=("SUCCEEDED",),
    ),
    _DELETE,
    replace(
        _DELETE,
        name="archive",
        changes={"keeps report": True},
        params={"keep_report": "true"},
        ask=lambda client, target: client.delete(target.sweep, keep_report=True),
        command="delete {sweep} --yes --keep-report",
        form={"what": "all_but_report"},
    ),
)
