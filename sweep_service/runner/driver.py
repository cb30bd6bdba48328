"""One sweep from claim to its last trial: recover, connect to Ray, let Tune run, say where the sweep stands."""

import shutil
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

from ray import tune
from ray.tune import CheckpointConfig, FailureConfig, PlacementGroupFactory, RunConfig, TuneConfig

from sweep_service.runner.cluster import Slots, connect, demanded
from sweep_service.runner.cost_probe import ProbeStage, SweepEnd
from sweep_service.runner.lease import Lease
from sweep_service.runner.ledger import Ledger, Nothing
from sweep_service.runner.leftovers import remove_unneeded
from sweep_service.runner.recovery import recover
from sweep_service.runner.searcher import StoreCallback, StoreSearcher, WishScheduler
from sweep_service.runner.trainer_process import Job
from sweep_service.runner.trial_actor import TrialActor
from sweep_service.runner.turns import ASK_EVERY_S
from sweep_service.runner.wishes import Wishes
from sweep_service.settings import Settings
from sweep_service.store import Fence, Store
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.records import Sweep, SweepState
from sweep_service.sweep.spec import Resources


def run_sweep(store: Store, settings: Settings, fence: Fence, lease: Lease) -> None:
    """Run a sweep's trials until there is nothing more to run; leave it FINALIZING, PAUSED, CANCELLED or FAILED.

    Args:
        lease: lease of this fence, which is already being renewed.
    Raises: StaleEpoch, if another runner has taken over; any other error, upon which the worker starts a new runner.
    """
    sweep, wishes = store.get_sweep(fence.sweep_id), Wishes(store, fence.sweep_id)
    lease.beat()
    recover(store, fence, sweep)
    end = None
    if not wishes.interruption:
        store.set_sweep_state(fence, SweepState.RUNNING)
        end = _run_trials(store, settings, fence, lease, sweep, wishes)
    if end is None:
        assert wishes.interruption is not None
        end = SweepEnd(wishes.interruption.state)
    if not end.state.trials_may_change:
        remove_unneeded(store.list_attempts(sweep.id))
    store.set_sweep_state(fence, *end)
    lease.stop()


def _run_trials(
    store: Store, settings: Settings, fence: Fence, lease: Lease, sweep: Sweep, wishes: Wishes
) -> SweepEnd | None:
    """Probe the cost, then run all trials; return the sweep's end, or None if the user interrupts it."""
    spec = sweep.spec
    slots = Slots(spec.resources, spec.evaluation_resources)
    raylet = connect(settings, sweep.id)
    store.say_what_delays(fence, None)  # the worker, or an earlier runner, may have
    if raylet is not None:
        lease.watch(raylet)
    needs = [
        *([] if sweep.has_trained else [Need("a trial", spec.resources, "/resources", lambda: slots.fit(1, 0))]),
        *([Need.of_evaluation(sweep, lambda: slots.fit(0, 1))] if sweep.benchmarks else []),
    ]
    if unmet := _unmet(needs, store, fence, sweep, lease, wishes):
        return unmet
    if wishes.interruption:
        return None
    stage = ProbeStage(store, settings, fence, lease, wishes, slots.nodes)
    lease.abandon = stage.kill_trainer
    if end := stage.run():
        store.end_waiting(fence, Ending.CANCELLED, "not begun: the sweep ended with its probe")
        return end
    if wishes.interruption:
        return None
    ledger = Ledger(store, fence, settings, slots, wishes, slots.nodes, lease.give_way)
    lease.abandon = ledger.kill_trainers
    while (nothing := ledger.outlook()) is not Nothing.EVER:
        lease.beat()
        if nothing is None:
            _run_tune(sweep, fence, settings, ledger, lease, wishes)
        elif unmet := _unmet(needs, store, fence, sweep, lease, wishes):  # a node may have gone meanwhile
            return unmet
        else:
            time.sleep(ASK_EVERY_S)
    if wishes.interruption:
        return None
    state = SweepState.FINALIZING if ledger.given_up is None else SweepState.FAILED
    return SweepEnd(state, ledger.given_up, ledger.generation)


class Need(NamedTuple):
    """Room that a sweep needs on some node before it begins."""

    work: str
    """What needs it, in words."""
    resources: Resources
    field: str
    """Place in the spec of these resources."""
    is_met: Callable[[], bool]

    @classmethod
    def of_evaluation(cls, sweep: Sweep, is_met: Callable[[], bool]) -> Self:
        """Return the need of an evaluation."""
        field = "/benchmarks/resources" if sweep.spec.benchmarks else "/resources"
        return cls("an evaluation", sweep.spec.evaluation_resources, field, is_met)

    @property
    def asked(self) -> str:
        """The need in words, and that nothing meets it."""
        needed = f"{self.resources.cpus:g} CPUs and {self.resources.gpus:g} GPUs"
        return f"{self.work} asks for {needed}, which no node of the Ray cluster has"

    @property
    def unmet(self) -> SweepEnd:
        """The end of a sweep that has waited for as long as it may."""
        remedy = f"lower {self.field}, add such a node, or raise /budget/max_wait_hours"
        return SweepEnd(SweepState.FAILED, f"{self.asked}; {remedy}")

    def wait(self, store: Store, fence: Fence, sweep: Sweep, lease: Lease, wishes: Wishes) -> bool:
        """Wait until a node has this room, as long as the spec says; return whether one has.

        The sweep says meanwhile what it waits for, and an autoscaler sees it.
        """
        if self.is_met():
            return True
        hours = sweep.spec.budget.max_wait_hours
        deadline = time.monotonic() + (float("inf") if hours is None else 3600 * hours)
        store.say_what_delays(fence, f"{self.asked}; the sweep begins as soon as one does")
        with demanded(self.resources):
            while not self.is_met() and time.monotonic() < deadline and not wishes.interruption:
                lease.beat()
                time.sleep(0.5)
        store.say_what_delays(fence, None)
        return self.is_met()


def _unmet(
    needs: Sequence[Need], store: Store, fence: Fence, sweep: Sweep, lease: Lease, wishes: Wishes
) -> SweepEnd | None:
    """Wait until the cluster has room for each of these; return the sweep's end if it may wait no longer."""
    return next(
        (n.unmet for n in needs if not n.wait(store, fence, sweep, lease, wishes) and not wishes.interruption), None
    )


def _run_tune(sweep: Sweep, fence: Fence, settings: Settings, ledger: Ledger, lease: Lease, wishes: Wishes) -> None:
    folder = settings.storage / sweep.id / "ray"  # Tune insists on files; nobody reads them
    try:
        tune.Tuner(
            actor_class(f"trial-{sweep.id}-{fence.epoch}"),
            tune_config=TuneConfig(
                search_alg=StoreSearcher(ledger, lease.beat),
                scheduler=WishScheduler(ledger, wishes),
                num_samples=-1,
                reuse_actors=not sweep.spec.resources.gpus,
                trial_name_creator=_name,
                trial_dirname_creator=_name,
            ),
            run_config=RunConfig(
                name=f"epoch-{fence.epoch}",
                storage_path=str(folder),
                callbacks=[StoreCallback(ledger, lease.beat)],
                checkpoint_config=CheckpointConfig(checkpoint_at_end=False),  # trainers save
                failure_config=FailureConfig(max_failures=0),
                verbose=0,
            ),
        ).fit()
    finally:
        sys.stderr.flush()
        shutil.rmtree(folder, ignore_errors=True)


def _name(trial: Any) -> str:
    return trial.trial_id


def actor_class(name: str) -> type[TrialActor]:
    """Return the actor's class under a name that no other sweep has: Tune's registry is by name.

    Each of its actors gets the resources of its first job.
    """

    def resource_request(_class: type, config: dict[str, Any]) -> PlacementGroupFactory:
        job = Job.model_validate_json(config["job"])
        return PlacementGroupFactory([{"CPU": job.cpus} | ({"GPU": job.gpus} if job.gpus else {})])

    return type(name, (TrialActor,), {"default_resource_request": classmethod(resource_request)})
