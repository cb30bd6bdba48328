"""Checks that several processes can share a run and still train as the configuration says."""

import math
from collections.abc import Iterable
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
    return [
        *_minibatch(config, processes),
        *_prompts(config, processes),
        *_sharding(config, processes),
        *_copies(config, processes),
    ]


def _minibatch(config: TrainingConfig, processes: int) -> list[Refusal]:
    rollout, batch = config.rollout, config.device_batch
    minibatch = rollout.prompts_per_minibatch * rollout.completions_per_prompt
    share, rest = divmod(minibatch, processes)
    if rest:
        name = "rollout.prompts_per_minibatch"
        step = processes // math.gcd(processes, rollout.completions_per_prompt)
        around = list(range(step, rollout.prompts_per_minibatch + step + 1, step))
        whole = [prompts for prompts in around if rollout.prompts_per_rollout % prompts == 0]
        reason = f"the minibatch of {minibatch} sequences cannot be shared by {processes} processes"
        return [Refusal(name, f"{reason}; {_use(name, rollout.prompts_per_minibatch, whole or around)}")]
    if share % batch:
        reason = (
            f"device_batch {batch} does not divide the {share} sequences that each of {processes} processes has of a "
            "minibatch"
        )
        return [Refusal("device_batch", f"{reason}; {_use('device_batch', batch, divisors(share))}")]
    return []


def _prompts(config: TrainingConfig, processes: int) -> list[Refusal]:
    rollout, dynamic = config.rollout, config.rollout.dynamic_sampling
    whole = math.lcm(rollout.prompts_per_minibatch, processes)
    sizes = {"rollout.prompts_per_rollout": (rollout.prompts_per_rollout, whole)}
    if dynamic is not None:
        sizes["rollout.dynamic_sampling.prompts_per_round"] = (dynamic.prompts_per_round, processes)
    return [
        Refusal(
            name,
            f"{name} {size} is not a multiple of the {processes} processes; "
            + _use(name, size, range(step, size + step + 1, step)),
        )
        for name, (size, step) in sizes.items()
        if size % processes
    ]


def _sharding(config: TrainingConfig, processes: int) -> list[Refusal]:
    sharding, model = config.compute.sharding, config.model
    if sharding == "none":
        return []
    reasons = list[str]()
    if processes == 1:
        reasons.append("one process has nobody to share with; set none, or train with several")
    if sharding != "fsdp" and model.lora is not None:
        reasons.append(
            "with model.lora there are too few gradients and optimizer states to share; set none, or fsdp to share the "
            "weights below the adapters, too"
        )
    if model.lora is None and isinstance(model, PretrainedModel) and model.weights_dtype != "float32":
        reasons.append(
            "the sharded weights are float32, whatever products are computed in; set model.weights_dtype to float32"
        )
    if config.copies_initial_model:
        reasons.append(
            f"terms.kl.coefficient {config.terms.kl.coefficient:g} compares with the initial model, of which every "
            "process would hold a whole copy; set compute.sharding to none, terms.kl.coefficient to 0, or train "
            "adapters (model.lora), below which that model lies"
        )
    if config.critic is not None:
        reasons.append("the value head of critic is not shared out; set compute.sharding to none, or leave critic out")
    return [Refusal("compute.sharding", f"compute.sharding {sharding}: {reason}") for reason in reasons]


def _copies(config: TrainingConfig, processes: int) -> list[Refusal]:
    engine, name = config.rollout.engine, "rollout.engine.tensor_parallel"
    if not isinstance(engine, VLLMEngine) or engine.mode == "server" or processes % engine.tensor_parallel == 0:
        return []
    reason = f"{name} {engine.tensor_parallel}: {processes} processes cannot form groups of so many"
    return [Refusal(name, f"{reason}; {_use(name, engine.tensor_parallel, divisors(processes))}")]


def _use(name: str, value: int, working: Iterable[int]) -> str:
    return nearest(name, value, working) or "use fewer processes"
