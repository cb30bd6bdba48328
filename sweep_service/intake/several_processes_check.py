"""Checks that a sweep's trials can run as the processes that their resources make of them."""

from sweep_service.errors import SpecError, pointer
from sweep_service.sweep.spec import SweepSpec
from trainers.config import TrainingConfig, VLLMEngine
from trainers.config.several_processes import sharing_refusals


def process_errors(spec: SweepSpec) -> list[SpecError]:
    """Return the errors of a base configuration that the processes of a trial cannot run."""
    base = spec.base
    if errors := fraction_errors(spec) or _resource_errors(spec, base):
        return errors
    refusals = sharing_refusals(base, spec.resources.processes_for(base))
    return [SpecError(pointer(("training", *setting.split("."))), reason) for setting, reason in refusals]


def process_refusals(spec: SweepSpec, training: TrainingConfig) -> list[str]:
    """Return the reasons against running this training as the processes of a trial."""
    reasons = [error.detail for error in _resource_errors(spec, training)]
    return reasons + [reason for _, reason in sharing_refusals(training, spec.resources.processes_for(training))]


def fraction_errors(spec: SweepSpec) -> list[SpecError]:
    """Refuse fractions of a CPU or GPU that Ray cannot give."""
    shares = {"cpus": spec.resources.cpus, "gpus": spec.resources.gpus}
    return [
        SpecError(
            f"/resources/{name}",
            f"{name} {share}: Ray shares out ten-thousandths; write {share:.4f} or {share + 1e-4:.4f}",
        )
        for name, share in shares.items()
        if round(share, 4) != share
    ]


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
