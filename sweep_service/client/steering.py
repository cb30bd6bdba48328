"""The client's methods that steer a sweep which has been submitted."""

from collections.abc import Mapping
from typing import Any

from sweep_service.client.asking import Asking, document_of, segment, sweep_path
from sweep_service.schemas import DeletionView, ReportsView, SweepView
from sweep_service.sweep.added_benchmarks import REFUSED, BenchmarksRequest
from sweep_service.sweep.extension import REFUSED as EXTENSION_REFUSED
from sweep_service.sweep.extension import Extension


class Steering(Asking):
    """Each may be called again: asking for the same is no change."""

    def cancel(self, sweep_id: str) -> SweepView:
        """Stop a sweep.

        Raises: NotFound; Conflict, if it has ended already.
        """
        return self.ask("POST", sweep_path(sweep_id, "cancel"), SweepView)

    def pause(self, sweep_id: str) -> SweepView:
        """Stop a sweep until it is resumed; its running trials save and give their slots back.

        Raises: NotFound; Conflict, if its trials have ended already.
        """
        return self.ask("POST", sweep_path(sweep_id, "pause"), SweepView)

    def resume(self, sweep_id: str) -> SweepView:
        """Let a paused sweep go on from what its trials have saved.

        Raises: NotFound; Conflict, if it has ended already.
        """
        return self.ask("POST", sweep_path(sweep_id, "resume"), SweepView)

    def extend(self, sweep_id: str, extension: Extension | Mapping[str, Any]) -> SweepView:
        """Give a sweep more configs, seeds, a larger `top_k`, or other limits: the values that its spec shall have.

        Raises: NotFound; Conflict, if it can train no more; InvalidSpec, with every reason why it cannot be.
        """
        sent = extension.document if isinstance(extension, Extension) else extension
        return self.ask("POST", sweep_path(sweep_id, "extend"), SweepView, json=document_of(sent, EXTENSION_REFUSED))

    def retry_failed(self, sweep_id: str) -> SweepView:
        """Try all failed trials of a sweep again.

        Raises: NotFound; Conflict, if it can train no more, or a trial has used up its time.
        """
        return self.ask("POST", sweep_path(sweep_id, "retry-failed"), SweepView)

    def retry_trial(self, trial_id: str) -> SweepView:
        """Try a failed trial again, or one that was stopped by hand; return its sweep.

        Raises: NotFound; Conflict, if it has ended by itself with a result, or its sweep can train no more.
        """
        return self.ask("POST", f"/v1/trials/{segment('trial', trial_id)}/retry", SweepView)

    def stop_trial(self, trial_id: str, *, counts: bool = True) -> SweepView:
        """Stop one trial while its sweep goes on; return its sweep. A running one saves first.

        Args:
            counts: whether the evaluations that it has recorded count as its result; else it has none.
        Raises: NotFound; Conflict, if it has ended otherwise, or ends with its sweep.
        """
        params = {} if counts else {"counts": "false"}
        return self.ask("POST", f"/v1/trials/{segment('trial', trial_id)}/stop", SweepView, params)

    def add_benchmarks(self, sweep_id: str, request: BenchmarksRequest | Mapping[str, Any]) -> SweepView:
        """Have models of a sweep that has SUCCEEDED measured on more benchmarks; asking again is no change.

        Raises: NotFound; Conflict, in another state; InvalidSpec, with every reason why they cannot be measured.
        """
        document = document_of(request, REFUSED)
        return self.ask("POST", sweep_path(sweep_id, "benchmarks"), SweepView, json=document)

    def renew_report(self, sweep_id: str) -> ReportsView:
        """Have the report of a sweep that has ended built anew, by the server's version; `reports` says when it is.

        Raises: NotFound; Conflict, if it has not ended, or is archived.
        """
        return self.ask("POST", sweep_path(sweep_id, "report"), ReportsView)

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
