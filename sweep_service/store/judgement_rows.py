"""Judgements that drop configs: stored before anything is ended for them, and never changed but to be taken back."""

import time
from collections.abc import Sequence
from typing import Any

from sqlalchemy import select

from sweep_service.store import tables as t
from sweep_service.store.base import Fence, Rows, append_event, change
from sweep_service.store.sweep_rows import pause
from sweep_service.store.trial_rows import dropped_trials, end_waiting
from sweep_service.sweep.endings import Ending, TrialState
from sweep_service.sweep.records import Judgement, TrialWarning


class JudgementRows(Rows):
    """The judgements."""

    def judge(self, fence: Fence, judgements: Sequence[Judgement]) -> None:
        """Store judgements, and end the tune trials of dropped configs that wait."""
        with self._fenced(fence) as connection:
            own = {"sweep_id": fence.sweep_id, "time": time.time()}
            connection.execute(t.judgements.insert(), [judgement.model_dump() | own for judgement in judgements])
            dropped = [judgement.model_dump(exclude={"taken_back"}) for judgement in judgements if judgement.dropped]
            append_event(connection, fence.sweep_id, "config.dropped", *dropped)
            by_message: dict[str, list[str]] = {}
            for id_, message in dropped_trials(connection, fence.sweep_id, TrialState.PENDING).items():
                by_message.setdefault(message, []).append(id_)
            for message, ids in by_message.items():
                end_waiting(connection, fence, Ending.EARLY_STOPPED, message, *ids)

    def set_signs(
        self, fence: Fence, trial_id: str, signs: Sequence[TrialWarning], *, pause_for: str | None = None
    ) -> None:
        """Have a trial's warnings hold these signs of health, and no others, beside those of its trainer.

        Args:
            pause_for: reason why the sweep is paused for them, unless it is to be cancelled; None lets it go on.
        """
        with self._fenced(fence) as connection:
            query = select(t.trials.c.warnings).where(t.trials.c.id == trial_id)
            earlier: list[dict[str, Any]] = connection.execute(query).scalar_one()
            trainers = [one for one in earlier if not one.get("is_sign")]
            new = [sign.model_dump(mode="json") for sign in signs]
            if pause_for is not None:
                pause(connection, fence.sweep_id, pause_for)
            if [*trainers, *new] == earlier:
                return
            change(connection, t.trials, trial_id, warnings=[*trainers, *new], mlflow_state=None)
            known = {one["code"] for one in earlier if one.get("is_sign")}
            told = [{"trial_id": trial_id} | sign for sign in new if sign["code"] not in known]
            append_event(connection, fence.sweep_id, "trial.warned", *told)

    def judgements(self, sweep_id: str) -> list[Judgement]:
        """Return all judgements of a sweep, in the order in which they were made."""
        query = select(t.judgements).where(t.judgements.c.sweep_id == sweep_id).order_by(t.judgements.c.id)
        return self._records(Judgement, query)

    def dropped_running(self, sweep_id: str) -> dict[str, str]:
        """Return by id the tune trials of dropped configs that run, with the message of the judgement."""
        with self._read() as connection:
            return dropped_trials(connection, sweep_id, TrialState.RUNNING)
