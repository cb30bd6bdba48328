"""The client's methods that steer a submitted sweep: those of the table of verbs, and those that take options."""

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import signature
from typing import Any, Concatenate, ParamSpec, TypeVar

from sweep_service import schemas
from sweep_service.client.asking import document_of, read_through, segment
from sweep_service.client.sweep_names import SweepNames
from sweep_service.schemas import DeletionView, ReportsView, SweepView
from sweep_service.sweep.added_benchmarks import BenchmarksRequest
from sweep_service.sweep.extension import Extension
from sweep_service.verbs import VERBS

Own = TypeVar("Own", bound=SweepNames)
Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def of_table(stub: Callable[Concatenate[Own, Arguments], Answer]) -> Callable[Concatenate[Own, Arguments], Answer]:
    """Return the method of the verb that has the stub's name; the stub says what it takes: an id, perhaps a body."""
    verb, takes = VERBS[stub.__name__], signature(stub)
    kind = "trial" if "{trial_id}" in verb.path else "sweep"

    @wraps(stub)
    def method(client: Own, *arguments: Arguments.args, **named: Arguments.kwargs) -> Any:
        try:
            _, about, *bodies = takes.bind(client, *arguments, **named).arguments.values()
        except TypeError as error:
            raise TypeError(f"{verb.name}{takes}: {error}") from None
        sent = {"json": document_of(bodies[0], verb.refused)} if verb.request else {}
        about = client.find_sweep_to_change(about) if kind == "sweep" else about
        path = verb.path.format_map({f"{kind}_id": segment(kind, about)})
        return read_through(lambda: client.ask("POST", f"/v1/{path}", getattr(schemas, verb.answer), **sent))

    reasons = "; InvalidSpec, with every reason" if verb.request else ""
    method.__doc__ = f"{verb.text}\n\nRaises: NotFound; Conflict, if {verb.conflict}{reasons}."
    return method


class VerbMethods(SweepNames):
    """Each may be called again: asking for the same is no change."""

    # These lines are made by docs/verbs_table.py.
    @of_table
    def pause(self, sweep_id: str) -> SweepView: ...

    @of_table
    def resume(self, sweep_id: str) -> SweepView: ...

    @of_table
    def cancel(self, sweep_id: str) -> SweepView: ...

    @of_table
    def extend(self, sweep_id: str, extension: Extension | Mapping[str, Any]) -> SweepView: ...

    @of_table
    def retry_failed(self, sweep_id: str) -> SweepView: ...

    @of_table
    def retry_trial(self, trial_id: str) -> SweepView: ...

    @of_table
    def add_benchmarks(self, sweep_id: str, request: BenchmarksRequest | Mapping[str, Any]) -> SweepView: ...

    @of_table
    def renew_report(self, sweep_id: str) -> ReportsView: ...

    # Until here.

    def stop_trial(self, trial_id: str, *, counts: bool = True) -> SweepView:
        """Stop one trial while its sweep goes on; return its sweep. A running one saves first.

        Args:
            counts: whether the evaluations that it has recorded count as its result; else it has none.
        Raises: NotFound; Conflict, if it has ended otherwise, or ends with its sweep.
        """
        params = {} if counts else {"counts": "false"}
        return self.ask("POST", f"/v1/trials/{segment('trial', trial_id)}/stop", SweepView, params)

    def deletion(self, sweep_id: str) -> DeletionView:
        """Return what deleting a sweep would free; once that is asked for, how far it is, also when the sweep is gone.

        Raises: NotFound, if there never was such a sweep.
        """
        return self.ask("GET", self.sweep_path(sweep_id, "deletion"), DeletionView)

    def delete(self, sweep_id: str, *, keep_report: bool = False) -> DeletionView:
        """Delete a sweep that has ended: its rows, its files and its runs in MLflow. Asking again is no error.

        Args:
            keep_report: archive it instead: its spec, trials and report stay, its files, curves and samples go.
        Raises: NotFound; Conflict, if it has not ended.
        """
        params = {"keep_report": "true"} if keep_report else {}
        return self.ask("DELETE", self.sweep_path(self.find_sweep_to_change(sweep_id)), DeletionView, params)
