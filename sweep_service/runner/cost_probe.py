"""The cost probe of a sweep: one trainer that measures costs before the first trial, in an actor like a trial's."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import ray
from ray.exceptions import OutOfMemoryError, RayError

from sweep_service.processes.child_processes import terminate
from sweep_service.runner.jobs import probe_job
from sweep_service.runner.lease import Lease
from sweep_service.runner.ledger import MARK_EVERY_S
from sweep_service.runner.machine_wait import MachineWait
from sweep_service.runner.trainer_process import Job
from sweep_service.runner.trial_actor import TrialActor
from sweep_service.runner.wishes import Wishes
from sweep_service.settings import Settings
from sweep_service.store import Fence, Store
from sweep_service.sweep.cost import above_budget, costliest, measured, probe_shape
from sweep_service.sweep.endings import MEANINGS, Ending
from sweep_service.sweep.plan import make_plan
from sweep_service.sweep.records import CostProbe, ProbeState, Sweep, SweepState
from sweep_service.sweep.shares import Node, Part, is_turn_of
from trainers.config import TrainingConfig
from trainers.cost.cost_figures import CostFigures
from trainers.training import out_of_memory

_WAIT_S: Final = 1.0
_STOP_S: Final = 15.0


class SweepEnd(NamedTuple):
    """State in which a runner leaves its sweep, and why."""

    state: SweepState
    message: str | None = None
    generation: int | None = None
    """The sweep's generation that has been done."""


class ProbeActor(TrialActor):
    """The actor of a trial, without the folder that Ray makes where no Tuner names one."""

    def _setup_logdir(self) -> None:
        self._logdir = Job.model_validate_json(self.config["job"]).directory


class ProbeStage:
    """The stage of a sweep before its first trial. It ends as soon as the user interrupts the sweep."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        fence: Fence,
        lease: Lease,
        wishes: Wishes,
        nodes: Callable[[], Sequence[Node]],
    ) -> None:
        self._store, self._settings, self._fence, self._lease = store, settings, fence, lease
        self._wishes, self._nodes = wishes, nodes
        self._process: tuple[str, int, float] | None = None
        self._machine = MachineWait(settings.storage)

    def run(self) -> SweepEnd | None:
        """Measure the cost if the spec asks for it and no probe has.

        Returns: the sweep's end if no trial can ever begin; None if trials follow, or if the user interrupts the sweep.
        Raises: StaleEpoch.
        """
        sweep = self._store.get_sweep(self._fence.sweep_id)
        if sweep.spec.probes == "off" or self._store.list_attempts(sweep.id):
            return None
        training = costliest(sweep.spec)
        shape, machines = probe_shape(training, sweep.spec.resources), _machines()
        probe = self._earlier_probe(sweep, shape, machines)
        while probe is None or probe.state not in (ProbeState.SUCCEEDED, ProbeState.FAILED):
            if self._wishes.interruption:
                return None
            if self._store.crashed_probes(sweep.id) > sweep.spec.retries.max_crashes:
                why = probe.message if probe else "its actor died"
                return SweepEnd(SweepState.FAILED, f"the probe crashed again and again: {why}")
            if self._await_turn(sweep):
                probe = self._measure(sweep, training, shape, machines)
            while not self._machine.is_over and not self._wishes.interruption:
                self._lease.beat()
                time.sleep(_WAIT_S)
        return self._judge(probe)

    def _await_turn(self, sweep: Sweep) -> bool:
        """Wait until other sweeps leave a slot to this one; return whether they do before the user interrupts it."""
        part = Part.of(sweep.spec.resources)
        while not self._wishes.interruption:
            nodes = self._nodes()
            if is_turn_of(sweep.id, self._store.wait_in_turn(self._fence, part, part.slots(nodes)), nodes):
                break
            self._lease.beat()
            time.sleep(_WAIT_S)
        self._store.wait_in_turn(self._fence, None)
        return not self._wishes.interruption

    def kill_trainer(self) -> None:
        """Kill this host's trainer without writing to the store, for another runner may own the sweep by now."""
        if self._process is not None:
            terminate(*self._process)

    def _earlier_probe(self, sweep: Sweep, shape: str, machines: str) -> CostProbe | None:
        """Return the probe of an earlier runner of this sweep, or of another sweep with the same shape and machines."""
        own = self._store.last_probe(sweep.id)
        if own is not None and own.state in (ProbeState.SUCCEEDED, ProbeState.FAILED):
            return own
        other = self._store.find_probe(shape, machines) if sweep.spec.probes == "first" else None
        if other is not None:
            self._store.reuse_probe(self._fence, other)
        return other

    def _judge(self, probe: CostProbe) -> SweepEnd | None:
        sweep, figures = self._store.get_sweep(self._fence.sweep_id), measured(probe)  # it may have been extended
        if figures is None:
            return SweepEnd(SweepState.FAILED, f"the probe failed: {probe.message}")
        cost = make_plan(sweep.spec, None, figures).cost
        assert cost is not None
        if message := above_budget(sweep.spec, cost, self._store.spent(sweep.id).probe_gpu_hours):
            return SweepEnd(SweepState.FAILED, message, sweep.generation)
        if sweep.spec.only_probes:
            unit = "GPU-hours" if sweep.spec.resources.gpus else "CPU-hours"
            hours = f"a trial takes up to {_span(cost.trial_hours)}, the sweep up to {cost.hours:.2g} {unit}"
            return SweepEnd(SweepState.FINALIZING, f"probed only: {hours} ({cost.basis})")
        return None

    def _measure(self, sweep: Sweep, training: TrainingConfig, shape: str, machines: str) -> CostProbe:
        gpus = sweep.spec.resources.gpus
        probe = self._store.start_probe(self._fence, shape, machines, training.model_dump(mode="json"), gpus)
        record = _ProbeRecord(self._store, self._fence, probe)
        ending, message = Ending.CRASHED, "its actor could not be started"
        actor: Any = None
        try:
            job = probe_job(sweep, self._settings, probe, training, self._store.spent(sweep.id).probe_gpu_hours)
            remote: Any = ray.remote(num_cpus=sweep.spec.resources.cpus, num_gpus=gpus)(ProbeActor)
            actor = remote.remote({"job": job.model_dump_json()})
            for result in self._results(actor):
                record.add(result)
                if "process" in result:
                    self._process = tuple(json.loads(result["process"]))
                ending, message = Ending(result.get("ending", ending)), result.get("message")
            if interruption := self._wishes.interruption:
                ending = interruption.halt.ending
        except OutOfMemoryError as error:
            ending, message = Ending.FAILED, out_of_memory.message(record.phase, training, str(error))
        except RayError as error:
            ending, message = Ending.CRASHED, f"its actor died: {str(error).strip().partition(chr(10))[0]}"
        finally:  # the actor ends, and its trainer with it, before anything else starts
            if actor is not None:
                try:
                    ray.wait([actor.stop.remote()], timeout=_STOP_S)
                finally:
                    ray.kill(actor)
                    self._process = None
        if ending is Ending.TIMED_OUT:
            message = (
                f"a few updates at full length took longer than budget.max_trial_hours "
                f"{sweep.spec.budget.max_trial_hours or 0.0:g}: no trial could end; raise it, or shorten "
                "rollout.max_completion_tokens"
            )
        elif ending is Ending.DIVERGED:
            ending, message = Ending.FAILED, "a loss or gradient was not finite within the first updates"
        elif ending is Ending.KILLED:
            cause = "killed by signal 9, as Linux does when the machine's memory is used up"
            ending, message = Ending.FAILED, out_of_memory.message(record.phase, training, cause)
        elif ending is Ending.MACHINE_FAULT:
            self._machine.begin()
        return record.finish(ending, message)

    def _results(self, actor: Any) -> Iterator[dict[str, Any]]:
        """Yield the actor's results, one a second, to the end or until the sweep is interrupted."""
        while not self._wishes.interruption:
            answer = actor.step.remote()
            while not ray.wait([answer], timeout=_WAIT_S)[0]:
                self._lease.beat()
                if self._wishes.interruption:
                    return
            self._lease.beat()
            result: dict[str, Any] = ray.get(answer)
            yield result
            if result["done"]:
                return


class _ProbeRecord:
    """Collects what a probe's trainer reports, and passes it on to the store."""

    def __init__(self, store: Store, fence: Fence, probe: CostProbe) -> None:
        self._store, self._fence, self._probe = store, fence, probe
        self._figures: CostFigures | None = None
        self._held_s, self._marked_at = 0.0, time.monotonic()
        self.phase = "loading"

    def add(self, result: dict[str, Any]) -> None:
        """Note what the trainer did, and for how long."""
        self._held_s = result.get("held_s", self._held_s)
        phases: list[str] = []
        for line in result["events"].splitlines():
            event = json.loads(line)
            if event["type"] == "progress" and event["phase"] != self.phase:
                self.phase = event["phase"]
                phases.append(self.phase)
            elif event["type"] == "cost":
                self._figures = CostFigures.model_validate(event["figures"])
        if phases or time.monotonic() - self._marked_at >= MARK_EVERY_S:
            self._marked_at = time.monotonic()
            self._store.mark_probe(self._fence, self._probe, self._held_s, phases)

    def finish(self, ending: Ending, message: str | None) -> CostProbe:
        """Store how the probe ended."""
        if ending is Ending.SUCCEEDED and self._figures is None:
            ending, message = Ending.CRASHED, "it ended without figures"
        figures = self._figures if ending is Ending.SUCCEEDED else None
        state = ProbeState(MEANINGS[ending].outcome)
        return self._store.finish_probe(self._fence, self._probe, state, self._held_s, message=message, figures=figures)


def _span(hours: float) -> str:
    if hours < 0.05:
        return f"{3600 * hours:.0f} s"
    return f"{60 * hours:.0f} min" if hours < 2 else f"{hours:.1f} hours"


def _machines() -> str:
    """Return the kinds of accelerators in the cluster, in Ray's words; clusters without any give the same text."""
    resources = {name for node in ray.nodes() if node["Alive"] for name in node["Resources"]}
    return " ".join(sorted(name for name in resources if name.startswith("accelerator_type:")))[:255] or "CPU"
