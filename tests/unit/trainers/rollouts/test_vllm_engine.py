"""What TRL's `VLLMGeneration` is told, and when it gets weights, seeds and a way to stop."""

import math
import sys
from collections import OrderedDict
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from trl.generation import vllm_generation
from trl.generation.vllm_generation import VLLMGeneration

from tests.unit.trainers.training.bare_trainers import config
from trainers.config import VLLMEngine
from trainers.errors import ConfigError
from trainers.rollouts.rollout_server import Address
from trainers.rollouts.vllm_engine import VLLM, engine_arguments, engine_problems, merged_parameters, refuse_missing

MODEL = {"name": "pretrained", "model": "some"}
SAMPLING = {"temperature": 0.7, "top_p": 0.9, "max_new_tokens": 11}


class Stopped(Exception):
    pass


def stop() -> None:
    raise Stopped


@pytest.fixture(autouse=True)
def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Stand for the class above ours, which seeds the process as vLLM does; return what it is given."""
    passed = dict[str, Any]()

    def init(self: Any, *args: Any, mode: str, **named: Any) -> None:
        passed.update(args=args, named=named)
        torch.manual_seed(0)
        self.mode, self.accelerator, self.tensor_parallel_size = mode, args[1], named["tensor_parallel_size"]
        if mode == "colocate":
            self.llm = SimpleNamespace(llm_engine=SimpleNamespace(step=lambda: "a token"))

    monkeypatch.setattr(VLLMGeneration, "__init__", init)
    return passed


def engine(
    mode: str = "colocate", processes: int = 1, rank: int = 0, tensor_parallel: int = 1, server: Address | None = None
) -> Any:
    accelerator = SimpleNamespace(num_processes=processes, process_index=rank)
    arguments = {"mode": mode, "tensor_parallel_size": tensor_parallel, "logprobs": 0}
    return VLLM("model", accelerator, "tokenizer", arguments, end_tokens=(1, 2), server=server, while_sampling=stop)


@pytest.mark.parametrize("server", [None, Address("127.0.0.1", 8000, 51216)])
def test_it_knows_the_run_s_end_tokens_and_the_server_s_address(told: dict[str, Any], server: Address | None) -> None:
    sampler = engine(server=server)
    assert told["args"] == ("model", sampler.accelerator, "tokenizer")
    assert told["named"] == {
        "tensor_parallel_size": 1,
        "logprobs": 0,
        "generation_kwargs": {"stop_token_ids": [1, 2]},
        **({} if server is None else server._asdict()),
    }


def test_starting_it_draws_nothing_from_the_run() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    engine()
    assert torch.equal(torch.rand(1), expected)


def test_a_process_that_samples_alone_can_be_stopped_before_each_token() -> None:
    with pytest.raises(Stopped):
        engine().llm.llm_engine.step()


def test_several_processes_and_servers_sample_to_the_end() -> None:
    assert engine(processes=2).llm.llm_engine.step() == "a token"
    assert not hasattr(engine("server"), "llm")


def sampling(sampler: Any) -> Callable[[int], Any]:
    """Return a function that samples after so many updates, and returns what a copy was asked and what came of it."""
    sampler.sync_weights = lambda: sampler.__dict__.setdefault("sent", []).append("weights")

    def generate(prompt_ids: list[list[int]], images: Any, copies: int) -> Any:
        drawn = torch.randint(2**31, (1,)).item()
        sampler.asked = (prompt_ids, images, copies, sampler.temperature, sampler.top_p, sampler.max_completion_length)
        return None, [(drawn, 6), (7,)], [[[-0.5, -9.0], [None]], [[-0.25]]], None

    sampler.generate = generate
    return lambda step: sampler.complete([[3], [4]], 2, SAMPLING, step=step, seed=lambda copy: 100 + copy)


def test_it_samples_as_it_is_asked_and_says_what_it_does_not_know() -> None:
    sampler = engine()
    ids, logprobs = sampling(sampler)(0)
    assert sampler.asked == ([[3], [4]], None, 2, 0.7, 0.9, 11)
    assert [len(row) for row in ids] == [2, 1]
    assert all(isinstance(row, list) for row in ids)
    assert logprobs[0][0] == -0.5
    assert math.isnan(logprobs[0][1])
    assert logprobs[1] == [-0.25]


def test_weights_are_sent_once_after_they_have_changed() -> None:
    sampler = engine()
    complete, sent = sampling(sampler), list[int]()
    for step in (0, 0, 4, 4, 8):
        complete(step)
        sent.append(len(sampler.sent))
    assert sent == [1, 1, 2, 2, 3]


def test_processes_that_share_a_copy_draw_the_same_and_others_otherwise() -> None:
    def drawn(rank: int) -> int:
        return sampling(engine(processes=4, rank=rank, tensor_parallel=2))(0)[0][0][0]

    torch.manual_seed(5)
    state = torch.get_rng_state()
    numbers = [drawn(rank) for rank in range(4)]
    assert numbers == [by_seed(100), by_seed(100), by_seed(101), by_seed(101)]
    assert torch.equal(torch.get_rng_state(), state)


def by_seed(seed: int) -> int:
    return int(torch.randint(2**31, (1,), generator=torch.Generator().manual_seed(seed)).item())


def test_every_setting_of_the_engine_reaches_it() -> None:
    settings = config(
        model=MODEL,
        rollout__engine={"name": "vllm", "tensor_parallel": 2, "memory_share": 0.45, "sleep": False, "max_length": 99},
    )
    assert engine_arguments(settings, 9, processes=4) == {
        "mode": "colocate",
        "tensor_parallel_size": 2,
        "gpu_memory_utilization": 0.45,
        "max_model_length": 99,
        "max_num_seqs": 32 * 16 // 4 * 2,
        "enable_sleep_mode": False,
        "model_impl": "vllm",
        "trust_remote_code": False,
        "logprobs": 0,
    }


def test_what_is_left_out_is_as_long_as_the_run_asks_and_as_wide_as_the_engine_can_be() -> None:
    wide = config(
        model=MODEL,
        rollout={"engine": {"name": "vllm"}, "prompts_per_rollout": 1024, "max_completion_tokens": 400},
        evaluation__max_completion_tokens=900,
        steps=256,
    )
    arguments = engine_arguments(wide, 80, 1)
    assert (arguments["max_model_length"], arguments["max_num_seqs"]) == (980, 1024)


@pytest.mark.parametrize(("length", "fits"), [(20, False), (21, True), (40, True), (41, False), (None, True)])
def test_the_engine_is_as_long_as_needed_and_no_longer_than_the_context(length: int | None, fits: bool) -> None:
    settings = config(model=MODEL, rollout__engine={"name": "vllm", "max_length": length})
    model = SimpleNamespace(config=SimpleNamespace(num_attention_heads=4, max_position_embeddings=40))
    assert (engine_problems(settings, model, 9) == []) == fits
    without = SimpleNamespace(config=SimpleNamespace(num_attention_heads=4))
    assert (engine_problems(settings, without, 9) == []) == (length in (None, 21))


@pytest.mark.parametrize(
    ("cuda", "cpu", "runs"), [(True, False, True), (False, True, True), (True, True, True), (False, False, False)]
)
def test_vllm_needs_a_device(cuda: bool, cpu: bool, runs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    platforms = ModuleType("vllm.platforms")
    platforms.__dict__["current_platform"] = SimpleNamespace(is_cpu=lambda: cpu)
    for name, module in {"vllm": ModuleType("vllm"), "vllm.platforms": platforms}.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(vllm_generation, "is_vllm_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    if runs:
        refuse_missing(VLLMEngine())
    else:
        with pytest.raises(ConfigError, match="this process sees no CUDA device"):
            refuse_missing(VLLMEngine())


def test_adapters_are_added_to_copies_of_the_weights_under_their_own_names() -> None:
    base = torch.nn.Sequential(OrderedDict(first=torch.nn.Linear(3, 2), second=torch.nn.Linear(2, 2)))
    adapted = get_peft_model(base, LoraConfig(r=1, lora_alpha=2, target_modules=["first"]))  # pyright: ignore[reportArgumentType]
    for name, parameter in adapted.named_parameters():
        if "lora_" in name:
            torch.nn.init.constant_(parameter, 0.5)
    before = {name: parameter.clone() for name, parameter in adapted.named_parameters()}
    merged = dict(merged_parameters(adapted))
    assert list(merged) == ["first.weight", "first.bias", "second.weight", "second.bias"]
    plain = before["base_model.model.first.base_layer.weight"]
    assert torch.equal(merged["first.weight"], plain + 2 * 0.5 * 0.5)
    assert torch.equal(merged["second.weight"], before["base_model.model.second.weight"])
    assert all(torch.equal(parameter, before[name]) for name, parameter in adapted.named_parameters())
