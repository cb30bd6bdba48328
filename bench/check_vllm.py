"""Checks our rollouts by vLLM against the vLLM that is installed, in three parts; prints what was seen.

python bench/check_vllm.py [--part arguments|server|run]. The interpreter needs vLLM: requirements-gpu.lock on GPUs, or
else a CPU build of the same version. The parts:

arguments  what TRL hands to vLLM for our settings builds vLLM's own EngineArgs, its engine configuration and its
           SamplingParams, and vLLM's own parser reads the command of the server.
server     the server starts below its keeper, answers TRL's client, and is gone when it is ended.
run        `python -m trainers` trains a small random Qwen2 with colocated rollouts: without correction, with it, with
           LoRA, and stopped and resumed. The gap between the trainer's and vLLM's log-probabilities shows whether vLLM
           had the trained weights.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

import psutil
import torch
from random_model import QWEN2, Size, save_random_model

from trainers.catalog.add_from_disk import add_local_model
from trainers.config import TrainingConfig, VLLMEngine, with_params

SMALL: Final = Size(QWEN2, 272, 64, 128, 2, 2, 1, 512, tied=True)
CONFIG: Final[dict[str, Any]] = {
    "task": {"smallest": 2, "largest": 30},
    "model": {"name": "pretrained", "model": "small"},
    "rollout": {
        "prompts_per_rollout": 8,
        "completions_per_prompt": 8,
        "prompts_per_minibatch": 2,
        "max_completion_tokens": 24,
        "overlong": {"cache_tokens": 20},
        "engine": {"name": "vllm", "memory_share": 0.2, "sleep": torch.cuda.is_available()},
    },
    "optimizer": {"learning_rate": 3e-3, "warmup_steps": 0},
    "evaluation": {"every_steps": 8, "samples_per_problem": 2, "pass_k": 2, "temperature": 0.6, "top_p": 0.95},
    "device_batch": 16,
    "steps": 16,
    "checkpoint_every_rollouts": 2,
}
GAP: Final = 0.05
"""Nats a token: bfloat16 makes a few thousandths; weights that were not sent make more than this."""


def main() -> int:
    """Run the parts asked for; the exit code says whether all were as they must be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, action="append")
    parts = parser.parse_args().part or list(PARTS)
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import vllm

    print(f"vLLM {vllm.__version__}, torch {torch.__version__}, CUDA {torch.cuda.is_available()}", flush=True)
    with tempfile.TemporaryDirectory(prefix="check-vllm-") as folder:
        add_local_model(save_random_model(SMALL, Path(folder, "model")), Path(folder, "cache"), "small")
        failed = [part for part in parts if not PARTS[part](Path(folder))]
    print("failed: " + ", ".join(failed) if failed else "all as it must be")
    return int(bool(failed))


def _config(**changes: Any) -> TrainingConfig:
    return TrainingConfig.model_validate(
        with_params(CONFIG, {name.replace("__", "."): value for name, value in changes.items()})
    )


def check_arguments(folder: Path) -> bool:
    """Give vLLM's argument classes exactly what TRL gives them."""
    from trl.generation import vllm_generation
    from vllm import SamplingParams
    from vllm.engine.arg_utils import EngineArgs

    from trainers.rollouts.vllm_engine import VLLM, engine_arguments

    model = folder / "cache/models/small"
    given: list[dict[str, Any]] = []
    sampled: list[SamplingParams] = []

    class Recording:
        """In the place of vllm.LLM."""

        def __init__(self, **settings: Any) -> None:
            given.append(settings)
            self.llm_engine = SimpleNamespace(step=lambda: None)

        def generate(self, prompts: Any, sampling_params: SamplingParams, use_tqdm: bool) -> list[Any]:
            sampled.append(sampling_params)
            return []

    policy: Any = torch.nn.Linear(1, 1)
    policy.name_or_path = str(model)
    accelerator: Any = SimpleNamespace(
        num_processes=1,
        process_index=0,
        local_process_index=0,
        is_main_process=True,
        state=SimpleNamespace(deepspeed_plugin=None),
        wait_for_everyone=lambda: None,
    )
    for changes in ({"sleep": False}, {"sleep": False, "memory_share": 0.5, "max_length": 400}):
        config = _config(rollout__engine=with_params(CONFIG["rollout"]["engine"], changes))
        with patch.object(vllm_generation, "LLM", Recording):
            engine = VLLM(
                policy,
                accelerator,
                None,
                engine_arguments(config, 20, 1),
                end_tokens=[1, 2],
                server=None,
                while_sampling=lambda: None,
            )
            with patch.object(VLLM, "sync_weights"):
                sampling = {"temperature": 0.6, "top_p": 0.95, "max_new_tokens": 24}
                engine.complete([[5, 6]], 1, sampling, step=0, seed=lambda _: 0)
        built = EngineArgs(**given[-1]).create_engine_config()
        print("EngineArgs:", given[-1])
        print(
            f"  max_model_len {built.model_config.max_model_len}, dtype {built.model_config.dtype}, "
            f"max_num_seqs {built.scheduler_config.max_num_seqs}, logprobs {built.model_config.logprobs_mode}"
        )
    print("SamplingParams:", sampled[-1])
    return _server_arguments(model)


def _server_arguments(model: Path) -> bool:
    from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    from trainers.rollouts.rollout_server import Address, server_command

    engine = VLLMEngine(mode="server", server_gpus=2)
    command = server_command(engine, model, 512, 7, Address("127.0.0.1", 8123, 8124))
    parsed = make_arg_parser(FlexibleArgumentParser()).parse_args(command[command.index("serve") + 1 :])
    validate_parsed_serve_args(parsed)
    seen = {name: getattr(parsed, name) for name in ("model_tag", "host", "port", "tensor_parallel_size", "seed")}
    print("vllm serve:", seen, parsed.max_model_len, parsed.gpu_memory_utilization, parsed.weight_transfer_config)
    return (seen["port"], seen["tensor_parallel_size"], parsed.max_model_len) == (8123, 2, 512)


def check_server(folder: Path) -> bool:
    """Start vLLM's server as the trainer does, ask it as TRL does, and end it."""
    from trl.generation.vllm_client import VLLMClient

    from trainers.rollouts.rollout_server import RolloutServer, server_command, server_environment

    engine = VLLMEngine(mode="server", server_gpus=1, memory_share=0.2)
    model, log, began = folder / "cache/models/small", folder / "vllm.log", time.monotonic()
    environment = server_environment()
    if torch.cuda.is_available():
        environment["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
    server = RolloutServer(lambda address: server_command(engine, model, 512, 7, address), environment, log)
    print(f"the server answers after {time.monotonic() - began:.0f} s")
    below = psutil.Process().children(recursive=True)
    client = VLLMClient(host=server.address.server_host, server_port=server.address.server_port)
    answer = client.generate([[260, 50], [260, 51]], n=3, max_tokens=8, generation_kwargs={"stop_token_ids": [1]})
    lengths = [len(ids) for ids in answer["completion_ids"]]
    print("completions:", lengths, "log-probabilities:", [len(row) for row in answer["logprobs"]])
    server.close()
    left = [process.pid for process in below if process.is_running()]
    print(f"ended: of {len(below)} processes {len(left)} are left")
    return len(lengths) == 6 and not left


def check_run(folder: Path) -> bool:
    """Train with colocated rollouts."""
    runs = {
        "off": [],
        "corrected": ["rollout.engine.correction=token_truncate", "rollout.engine.correction_cap=1.02"],
        "lora": ["model.lora={rank: 4, alpha: 64}"],
    }
    as_must = [_trained(folder, name, settings) for name, settings in runs.items()]
    return all(as_must) and _resumed(folder)


def _trained(folder: Path, name: str, settings: list[str]) -> bool:
    code, events = _train(folder, name, settings)
    steps = [event["metrics"] for event in events if event["type"] == "step"]
    if code or len(steps) != CONFIG["steps"]:
        return False
    shown = ("engine/logprob_gap_mean", "engine/logprob_gap_max", "engine/weight_mean", "engine/weight_cut_share")
    for place in (0, 4, 8, 12):
        print(f"  {name}, update {place + 1}:", {key: steps[place][key] for key in (*shown, "reward/mean")})
    moved = max(metrics["ratio/max"] for metrics in steps)
    print(f"  {name}: largest ratio {moved:.2f}, entropy {steps[0]['entropy']:.2f} to {steps[-1]['entropy']:.2f}")
    return moved > 1.05 and all(metrics["engine/logprob_gap_mean"] < GAP for metrics in steps)


def _resumed(folder: Path) -> bool:
    """Train half, then the rest: the same problems, by the weights of the checkpoint."""
    _train(folder, "half", ["steps=8"])
    code, events = _train(folder, "rest", ["--resume-from", str(folder / "half/step-8")])
    steps = [event["metrics"] for event in events if event["type"] == "step"]
    whole = [event["metrics"] for event in _events(folder / "off") if event["type"] == "step"][8:]
    same = [first["loss"] == second["loss"] for first, second in zip(steps, whole, strict=True)]
    print(f"  resumed: {sum(same)} of {len(same)} updates as those of the whole run, exactly")
    return code == 0 and all(metrics["engine/logprob_gap_mean"] < GAP for metrics in steps)


def _train(folder: Path, name: str, arguments: list[str]) -> tuple[int, list[dict[str, Any]]]:
    (folder / "config.yaml").write_text(json.dumps(CONFIG), encoding="utf-8")
    command = [sys.executable, "-m", "trainers", str(folder / "config.yaml"), "--cache", str(folder / "cache")]
    began = time.monotonic()
    ended = subprocess.run(
        [*command, "--output", str(folder / name), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    print(f"run {name}: exit code {ended.returncode} after {time.monotonic() - began:.0f} s", flush=True)
    if ended.returncode:
        print(ended.stdout[-3000:])
    return ended.returncode, _events(folder / name)


def _events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "events.jsonl").read_text(encoding="utf-8").splitlines()]


PARTS: Final = {"arguments": check_arguments, "server": check_server, "run": check_run}

if __name__ == "__main__":
    sys.exit(main())
