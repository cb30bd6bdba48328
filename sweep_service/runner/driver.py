"""One sweep from claim to its last trial: recover, connect to Ray, let Tune run, say where the sweep stands."""

import shutil
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from ray import tune
from ray.tune import CheckpointConfig, FailureConfig, PlacementGroupFactory, RunConfig, TuneConfig

from sweep_service.runner.cluster import Slots, connect
from sweep_service.runner.cost_probe import ProbeStage
from sweep_service.runner.lease import Lease
from sweep_service.runner.ledger import Ledger
from sweep_service.runner.recovery import recover
from sweep_service.runner.searcher import CancelScheduler, StoreCallback, StoreSearcher
from sweep_service.runner.trial_actor import TrialActor
from sweep_service.settings import Settings
from sweep_service.store import Fence, Store
from sweep_service.sweep.records import DesiredState, Sweep, SweepState
from sweep_service.sweep.spec import Resources

CAPACITY_WAIT_S: Final = 60.0
"""How long a cluster may take to have a node on which a trial fits."""


def run_sweep(store: Store, settings: Settings, fence: Fence, lease: Lease) -> None:
    """Run a sweep's trials until there is nothing more to run; leave it FINALIZING, CANCELLED or FAILED.

    Args:
        lease: of this fence, already renewing itself.
    Raises: StaleEpoch, if another runner has taken over; whatever else went wrong, for the worker to start a new one.
    """
    sweep = store.get_sweep(fence.sweep_id)
    slots = Slots(sweep.spec.resources)
    ledger = Ledger(store, fence, settings, slots)
    lease.beat()
    recover(store, fence, sweep)
    if sweep.desired_state is DesiredState.CANCEL:
        _cancel(store, fence)
        return
    store.set_sweep_state(fence, SweepState.RUNNING)
    raylet = connect(settings, sweep.id)
    if raylet is not None:
        lease.watch(raylet)
    if not _fits_in_time(slots, lease, lambda: ledger.cancelled):
        _cancel(store, fence) if ledger.cancelled else _fail(store, fence, sweep.spec.resources)
        return
    stage = ProbeStage(store, settings, fence, lease, lambda: ledger.cancelled)
    lease.abandon = stage.kill_trainer
    verdict = stage.run()
    if verdict.ends is not None:
        store.cancel_pending(fence, "not begun: the sweep ended with its probe")
        store.set_sweep_state(fence, verdict.ends, verdict.message)
        lease.stop()
        return
    lease.abandon = ledger.kill_trainers
    _run_tune(sweep, fence, settings, ledger, lease)
    if ledger.cancelled:
        _cancel(store, fence)
    else:
        store.set_sweep_state(fence, SweepState.FINALIZING)
    lease.stop()


def _cancel(store: Store, fence: Fence) -> None:
    store.cancel_pending(fence)
    store.set_sweep_state(fence, SweepState.CANCELLED)


def _fits_in_time(slots: Slots, lease: Lease, cancelled: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + CAPACITY_WAIT_S
    while not slots.fitting and time.monotonic() < deadline and not cancelled():
        lease.beat()
        time.sleep(0.5)
    return slots.fitting > 0


def _fail(store: Store, fence: Fence, resources: Resources) -> None:
    wanted = f"{resources.cpus:g} CPUs and {resources.gpus:g} GPUs"
    message = f"a trial asks for {wanted}, which no node of the Ray cluster has; lower /resources, or add such a node"
    store.cancel_pending(fence)
    store.set_sweep_state(fence, SweepState.FAILED, message)


def _run_tune(sweep: Sweep, fence: Fence, settings: Settings, ledger: Ledger, lease: Lease) -> None:
    folder = settings.storage / sweep.id / "ray"  # Tune insists on files; nobody reads them
    try:
        tune.Tuner(
            actor_class(sweep.spec.resources, f"trial-{sweep.id}-{fence.epoch}"),
            tune_config=TuneConfig(
                search_alg=StoreSearcher(ledger, lease.beat),
                scheduler=CancelScheduler(ledger),
                num_samples=-1,
                reuse_actors=not sweep.spec.resources.gpus,
                trial_name_creator=_name,
                trial_dirname_creator=_name,
            ),
            run_config=RunConfig(
                name=f"epoch-{fence.epoch}",
                storage_path=str(folder),
                callbacks=[StoreCallback(ledger, lease.beat)],
                checkpoint_config=CheckpointConfig(
                    checkpoint_at_end=False
                ),  # trainers save; a save that raises is an error
                failure_config=FailureConfig(max_failures=0),
                verbose=0,
            ),
        ).fit()
    finally:
        sys.stderr.flush()
        shutil.rmtree(folder, ignore_errors=True)


def _name(trial: Any) -> str:
    return trial.trial_id


def actor_class(resources: Resources, name: str) -> type[TrialActor]:
    """Return the actor's class with its resources, under a name that no other sweep has: Tune's registry is by name."""
    bundle = {"CPU": resources.cpus} | ({"GPU": resources.gpus} if resources.gpus else {})

    def resource_request(_class: type, _config: object) -> PlacementGroupFactory:
        return PlacementGroupFactory([bundle])

    return type(name, (TrialActor,), {"default_resource_request": classmethod(resource_request)})
