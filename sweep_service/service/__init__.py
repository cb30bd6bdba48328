"""The requests that the service takes, with all their rules. The API calls this; it calls the store."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sweep_service.errors import NotReady
from sweep_service.intake.preview import check_data, with_data
from sweep_service.intake.whole_check import check_spec
from sweep_service.processes.heartbeat import standstill
from sweep_service.schemas import ProbeView, SweepSummary
from sweep_service.service.logs import Logs
from sweep_service.service.results import Results, best_yaml
from sweep_service.service.verb_rules import VerbRules
from sweep_service.store import schema_versions
from sweep_service.sweep.budget import GpuHours, gpu_hours
from sweep_service.sweep.cost import costliest, measured, probe_shape
from sweep_service.sweep.deletion import Deletion
from sweep_service.sweep.links import curves_link
from sweep_service.sweep.plan import SweepPlan, first_records, make_plan, trials_to_come
from sweep_service.sweep.records import DesiredState, Stage, Sweep, SweepState, TrialState, new_id
from sweep_service.sweep.spec import SweepSpec
from sweep_service.sweep.sweep_filter import ALL_SWEEPS, SweepFilter
from trainers.catalog.entries import BenchmarkEntry, all_entries

__all__ = ["Submission", "SweepService", "best_yaml"]


class Submission(NamedTuple):
    """An accepted sweep."""

    sweep: Sweep
    replayed: bool
    """True if it is an earlier one that the same key named."""
    plan: SweepPlan


class SweepService(VerbRules, Logs, Results):
    """The requests that users may make, but for plain rows, which `store` gives. Raises `sweep_service.errors`."""

    def check_ready(self) -> None:
        """Check that the database answers with the schema that this version needs, and that this machine's parts work.

        Raises: NotReady; the database's own error, if it does not answer.
        """
        present, needed = schema_versions(self.store.engine)
        if present != needed:
            raise NotReady(f"the database has schema {present}, this version needs {needed}; run `sweeps db upgrade`")
        if (still := standstill(self.settings.home)) is not None:
            raise NotReady(still)

    def plan(self, raw: object) -> SweepPlan:
        """Check a spec and say what it would run, without storing anything.

        Raises: InvalidSpec; StillReading.
        """
        spec, plan = self._checked(raw)
        if spec.early_stopping is None:
            return plan
        from sweep_service.service.stopping_forecast import stopping_forecasts  # brings scipy

        return plan.model_copy(update={"early_stopping": stopping_forecasts(self.store, spec, plan)})

    def _checked(self, raw: object) -> tuple[SweepSpec, SweepPlan]:
        spec = check_spec(raw, self.settings.cache, self.settings.trainer_commands)
        training = spec.trained_base.model_dump(mode="json", exclude={"seed"})
        earlier = self.store.seconds_per_step(training, spec.resources)
        if spec.trainer is not None:
            return spec, make_plan(spec, earlier)
        probe = self.store.find_probe(probe_shape(costliest(spec), spec.resources))
        problems = {entry.name: entry.problems for entry in all_entries(self.settings.cache, BenchmarkEntry)}
        plan = make_plan(spec, earlier, measured(probe), problems)
        return spec, with_data(plan, spec, check_data(spec, self.settings.cache), self.settings.cache)

    def submit(self, raw: object, idempotency_key: str | None = None) -> Submission:
        """Accept a sweep. Once this returns it is stored for good.

        Raises: InvalidSpec; StillReading; IdempotencyKeyReused.
        """
        spec, plan = self._checked(raw)
        sweep = Sweep(
            id=(sweep_id := new_id("swp")),
            name=spec.name,
            state=SweepState.QUEUED,
            desired_state=DesiredState.RUN,
            created_at=time.time(),
            spec=spec,
            spec_digest=spec.digest,
        )
        configs, trials = first_records(spec, sweep_id)
        key = (idempotency_key, spec.digest) if idempotency_key else None
        stored = self.store.create_sweep(sweep, configs, trials, key)
        return Submission(stored, stored.id != sweep.id, plan)

    def summaries(self, sweeps: Sequence[Sweep]) -> list[SweepSummary]:
        """Return the short form of sweeps, with their trials counted."""
        ids = [sweep.id for sweep in sweeps]
        counts, deletions = self.store.count_trials(ids), self.store.deletions(ids)
        return [self._summary(sweep, counts[sweep.id], deletions.get(sweep.id)) for sweep in sweeps]

    def _summary(
        self, sweep: Sweep, counts: Mapping[tuple[Stage, TrialState], int], deletion: Deletion | None
    ) -> SweepSummary:
        trials = Counter[TrialState]()
        for (_, state), number in counts.items():
            trials[state] += number
        return SweepSummary(
            **sweep.model_dump(include=set(SweepSummary.model_fields)),
            deletion=deletion.state if deletion else None,
            only_probes=sweep.spec.only_probes,
            labels=dict(sweep.spec.labels),
            trials=trials,
            trials_to_come=trials_to_come(self.planned(sweep), counts),
            mlflow_url=curves_link(self.settings.mlflow_links, sweep),
        )

    def gpu_hours(self, sweep: Sweep) -> GpuHours | None:
        """Return the GPU-hours that a sweep has used and reserved of its budget; None on CPUs."""
        return gpu_hours(sweep.spec, self.store.spent(sweep.id)) if sweep.spec.resources.gpus else None

    def sweeps(self, limit: int, before: str | None, only: SweepFilter = ALL_SWEEPS) -> list[SweepSummary]:
        """Return sweeps, newest first, from the one after the id `before`."""
        return self.summaries(self.store.list_sweeps(limit, before, only=only))

    def probe(self, sweep_id: str) -> ProbeView:
        """Return a sweep's newest cost probe, or that of another sweep which serves it too.

        Raises: NotFound; NotReady, if it has none.
        """
        spec = self.store.get_sweep(sweep_id).spec
        probe = self.store.last_probe(sweep_id)
        if probe is None and spec.probes != "off":
            probe = self.store.find_probe(probe_shape(costliest(spec), spec.resources))
        if probe is None:
            reason = "it has not begun yet" if spec.probes != "off" else "its spec asks for none (probe: off)"
            raise NotReady(f"sweep {sweep_id} has no probe: {reason}")
        figures = measured(probe)
        return ProbeView(**dict(probe), cost=make_plan(spec, None, figures).cost if figures else None)
