"""Checks that a sweep's trials can run as the processes that their resources make of them."""

import json

from sweep_service.errors import SpecError
from sweep_service.sweep.spec import SweepSpec
from trainers.config import TrainingConfig, VLLMEngine
from trainers.config.sharing import sharing_refusals

_MAX_POINTS = 10_000


def sharing_errors(spec: SweepSpec) -> list[SpecError]:
    """Return why the base configuration cannot run, or else why the first unrunnable point of the space cannot."""
    if errors := _resource_errors(spec, spec.base):
        return errors
    processes = spec.resources.processes_for(spec.base)
    if refusals := sharing_refusals(spec.base, processes):
        return [SpecError(f"/training/{setting.replace('.', '/')}", reason) for setting, reason in refusals]
    size = spec.space.size
    for point in spec.space.grid() if size is not None and size <= _MAX_POINTS else spec.space.corners():
        training = spec.bind(point)
        reasons = [error.detail for error in _resource_errors(spec, training)]
        reasons += [reason for _, reason in sharing_refusals(training, spec.resources.processes_for(training))]
        if reasons:
            return [SpecError("/space", f"the point {json.dumps(point)} cannot run: {'; '.join(reasons)}")]
    return []


def _resource_errors(spec: SweepSpec, training: TrainingConfig) -> list[SpecError]:
    gpus, processes, engine = spec.resources.gpus, spec.resources.processes, training.rollout.engine
    served = engine.server_gpus if isinstance(engine, VLLMEngine) and engine.mode == "server" else 0
    place, detail = "/resources/processes", None
    if isinstance(engine, VLLMEngine) and gpus < 1:
        remedy = "give 1 or more, or set training.rollout.engine.name to transformers"
        place, detail = "/resources/gpus", f"gpus {gpus:g}: rollouts by vLLM need whole GPUs; {remedy}"
    elif served and gpus <= served:
        place, detail = "/resources/gpus", f"gpus {gpus:g}: vLLM's server takes {served}; training needs one and more"
    elif processes is not None and 0 < gpus < 1 and processes > 1:
        remedy = f"leave processes out, or set gpus to {processes}"
        detail = f"processes {processes}: a fraction of a GPU ({gpus:g}) is for one process; {remedy}"
    elif processes is not None and gpus >= 1 and processes != gpus - served:
        besides = f" besides the {served} of vLLM's server" if served else ""
        remedy = f"leave processes out, or set gpus to {processes + served}{besides}"
        detail = f"processes {processes}: one process trains on each of a trial's GPUs; {remedy}"
    return [] if detail is None else [SpecError(place, detail)]
