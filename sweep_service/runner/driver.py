"""One sweep from claim to its last trial: recover, connect to Ray, wait for nodes, let Tune run, store the end."""

import shutil
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

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
from sweep_service.runner.turns import ASK_EVERY_S, GIVE_WAY_AFTER_S
from sweep_service.runner.wishes import Wishes
from sweep_service.settings import Settings, may_run
from sweep_service.store import Fence, Store
from sweep_service.sweep.records import Sweep, SweepState
from sweep_service.sweep.shares import Node, Part, fit, placeable
from sweep_service.sweep.spec import Resources

_LOOK_FOR_NODES_EVERY_S: Final = 0.5


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
    if not end.state.trials_may_change and sweep.spec.trainer is None:
        remove_unneeded(store.list_attempts(sweep.id))
    store.set_sweep_state(fence, *end)
    lease.stop()


def _run_trials(
    store: Store, settings: Settings, fence: Fence, lease: Lease, sweep: Sweep, wishes: Wishes
) -> SweepEnd | None:
    """Probe the cost, then run all trials; return the sweep's end, or None if the user interrupts it."""
    spec = sweep.spec
    if spec.trainer is not None and not may_run(spec.trainer.command, settings.trainer_commands):
        return SweepEnd(SweepState.FAILED, "SWEEPS_TRAINER_COMMANDS no longer allows the command of its trainer")
    slots = Slots(spec.resources, spec.evaluation_resources)
    raylet = connect(settings, sweep.id)
    store.say_what_delays(fence, None)  # the worker, or an earlier runner, may have
    if raylet is not None:
        lease.watch(raylet)
    if unmet := _wait_for_nodes(store, fence, lease, wishes, slots.nodes):
        return unmet
    if wishes.interruption:
        return None
    stage = ProbeStage(store, settings, fence, lease, wishes, slots.nodes)
    lease.abandon = stage.kill_trainer
    if end := stage.run():
        return end
    if wishes.interruption:
        return None
    ledger = Ledger(store, fence, settings, slots, wishes, slots.nodes, lease.give_way)
    lease.abandon = ledger.kill_trainers
    while (nothing := ledger.outlook()) is not Nothing.EVER:
        lease.beat()
        if nothing is None:
            _run_tune(sweep, fence, settings, ledger, lease, wishes)
        elif unmet := _wait_for_nodes(store, fence, lease, wishes, slots.nodes):  # a node may have gone meanwhile
            return unmet
        else:
            time.sleep(ASK_EVERY_S)
    if wishes.interruption:
        return None
    reason, generation = ledger.waiting.given_up, ledger.waiting.sweep.generation
    return SweepEnd(SweepState.FINALIZING if reason is None else SweepState.FAILED, reason, generation)


def _wait_for_nodes(
    store: Store, fence: Fence, lease: Lease, wishes: Wishes, nodes: Callable[[], Sequence[Node]]
) -> SweepEnd | None:
    """Wait until some node has room for each kind of the sweep's work, or the user interrupts the sweep.

    An autoscaler sees that it waits. The runner gives way if a sweep that has none would fit the nodes that are there.

    Returns: the sweep's end if it has waited for as long as its spec says; None if it goes on.
    """
    spec, needs = wishes.sweep.spec, list[tuple[str, Resources, str]]()
    if not wishes.sweep.has_trained:
        needs.append(("a trial", spec.resources, "/resources"))
    if wishes.sweep.benchmarks:
        field = "/benchmarks/resources" if spec.benchmarks else "/resources"
        needs.append(("an evaluation", spec.evaluation_resources, field))
    for work, resources, field in needs:
        part = Part.of(resources)
        if fit([part], nodes()):
            continue
        needed = f"{resources.cpus:g} CPUs and {resources.gpus:g} GPUs"
        lack = f"{work} asks for {needed}, which no node of the Ray cluster has"
        began = time.monotonic()
        store.wait_in_turn(fence, None, slots=0)
        store.say_what_delays(fence, f"{lack}; the sweep begins as soon as one does")
        with demanded(resources):
            while not (met := fit([part], nodes())) and not wishes.interruption:
                waited_s, hours = time.monotonic() - began, wishes.sweep.spec.budget.max_wait_hours
                if hours is not None and waited_s >= 3600 * hours:
                    break
                if waited_s >= GIVE_WAY_AFTER_S and placeable(store.unclaimed(), nodes()):
                    lease.give_way()
                lease.beat()
                time.sleep(_LOOK_FOR_NODES_EVERY_S)
        store.say_what_delays(fence, None)
        if not met and not wishes.interruption:
            command = f"sweeps extend {fence.sweep_id} --max-wait-hours none"
            remedy = f"lower {field}, or add such a node and have it go on: {command}"
            return SweepEnd(SweepState.FAILED, f"{lack}; {remedy}", wishes.sweep.generation)
    return None


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
