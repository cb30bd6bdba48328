"""The client's methods that steer a submitted sweep: those of the table of verbs, and those that take options."""

from collections.abc import Mapping
from typing import Any

from sweep_service.client.asking import Asking, segment, sweep_path
from sweep_service.client.table_method import of_table
from sweep_service.schemas import DeletionView, ReportsView, SweepView
from sweep_service.sweep.added_benchmarks import BenchmarksRequest
from sweep_service.sweep.extension import Extension


class VerbMethods(Asking):
    """Each may be called again: asking for the same is no change."""

    @of_table
    def cancel(self, sweep_id: str) -> SweepView: ...

    @of_table
    def pause(self, sweep_id: str) -> SweepView: ...

    @of_table
    def resume(self, sweep_id: str) -> SweepView: ...

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
        return self.ask("GET", sweep_path(sweep_id, "deletion"), DeletionView)

    def delete(self, sweep_id: str, *, keep_report: bool = False) -> DeletionView:
        """Delete a sweep that has ended: its rows, its files and its runs in MLflow. Asking again is no error.

        Args:
            keep_report: archive it instead: its spec, trials and report stay, its files, curves and samples go.
        Raises: NotFound; Conflict, if it has not ended.
        """
        params = {"keep_report": "true"} if keep_report else {}
        return self.ask("DELETE", sweep_path(sweep_id), DeletionView, params)
