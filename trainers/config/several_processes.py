"""Checks that several processes can share a run and still train as the configuration says."""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from trainers.config import PretrainedModel, TrainingConfig, VLLMEngine
from trainers.config.nearest import divisors, nearest


class Refusal(NamedTuple):
    """A reason why processes cannot share a run, with the dotted name of the setting to change."""

    setting: str
    reason: str


def sharing_refusals(config: TrainingConfig, processes: int) -> list[Refusal]:
    """Return every reason against this number of processes, each with the nearest values that work.

    Sizes of a rollout and of an update are those of the whole run, of which each process does an equal part.
    """
    rollout, engine, batch = config.rollout, config.rollout.engine, config.device_batch
    refusals = list[Refusal]()

    def refuse(setting: str, value: int, reason: str, working: Iterable[int]) -> None:
        remedy = nearest(setting, value, working) or "use fewer processes"
        refusals.append(Refusal(setting, f"{reason}; {remedy}"))

    minibatch = rollout.minibatch
    share, rest = divmod(minibatch, processes)
    if rest:
        step = processes // math.gcd(processes, rollout.completions_per_prompt)
        around = list(range(step, rollout.prompts_per_minibatch + step + 1, step))
        whole = [prompts for prompts in around if rollout.prompts_per_rollout % prompts == 0]
        reason = f"the minibatch of {minibatch} sequences cannot be shared by {processes} processes"
        refuse("rollout.prompts_per_minibatch", rollout.prompts_per_minibatch, reason, whole or around)
    elif share % batch:
        reason = (
            f"device_batch {batch} does not divide the {share} sequences that each of {processes} processes has of a "
            "minibatch"
        )
        refuse("device_batch", batch, reason, divisors(share))
    step = math.lcm(rollout.prompts_per_minibatch, processes)
    sizes = {"rollout.prompts_per_rollout": (rollout.prompts_per_rollout, step)}
    if (dynamic := rollout.dynamic_sampling) is not None:
        sizes["rollout.dynamic_sampling.prompts_per_round"] = (dynamic.prompts_per_round, processes)
    for setting, (size, step) in sizes.items():
        if size % processes:
            reason = f"{setting} {size} is not a multiple of the {processes} processes"
            refuse(setting, size, reason, range(step, size + step + 1, step))
    sharding = config.compute.sharding
    if sharding != "none":
        reasons = _against_sharding(config, processes)
        refusals += [Refusal("compute.sharding", f"compute.sharding {sharding}: {reason}") for reason in reasons]
    if isinstance(engine, VLLMEngine) and engine.mode != "server" and processes % engine.tensor_parallel:
        setting, size = "rollout.engine.tensor_parallel", engine.tensor_parallel
        reason = f"{setting} {size}: {processes} processes cannot form groups of so many"
        refuse(setting, size, reason, divisors(processes))
    return refusals


def _against_sharding(config: TrainingConfig, processes: int) -> Iterator[str]:
    model = config.model
    if processes == 1:
        yield "one process has nobody to share with; set none, or train with several"
    if config.compute.sharding != "fsdp" and model.lora is not None:
        yield (
            "with model.lora there are too few gradients and optimizer states to share; set none, or fsdp to share the "
            "weights below the adapters, too"
        )
    if model.lora is None and isinstance(model, PretrainedModel) and model.weights_dtype != "float32":
        yield "the sharded weights are float32, whatever products are computed in; set model.weights_dtype to float32"
    if config.copies_initial_model:
        yield (
            f"terms.kl.coefficient {config.terms.kl.coefficient:g} compares with the initial model, of which every "
            "process would hold a whole copy; set compute.sharding to none, terms.kl.coefficient to 0, or train "
            "adapters (model.lora), below which that model lies"
        )
    if config.critic is not None:
        yield "the value head of critic is not shared out; set compute.sharding to none, or leave critic out"
