"""A sweep of a model of real size, from an empty catalog to the report, with a trainer stopped in its middle.

python bench/gpu_sweep.py [--small] [--home DIR]. It writes a Qwen2-1.5B with random weights and problems of 4,000
tokens, adds both to a catalog of its own, starts the service, posts a sweep whose trials share the GPU by halves, sends
SIGTERM to a trainer after its first update, waits for the report, and prints what was measured as a Markdown table.
--small does the same with a tiny model on CPUs.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from random_model import SIZES, save_random_model

from sweep_service.auth import read_token
from sweep_service.client import Client
from sweep_service.report import Report
from sweep_service.serve import Stack, free_port
from sweep_service.settings import Settings
from sweep_service.store import Store, open_store
from sweep_service.sweep.records import Attempt, SweepState

MEASURED = (
    "memory/peak_mib",
    "time/generation_s",
    "time/update_s",
    "tokens/per_second",
    "completion/length_mean",
    "entropy",
)


def main() -> int:
    """Run it; the exit code says whether the sweep succeeded and the stopped trial was resumed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a tiny model on CPUs")
    parser.add_argument("--home", type=Path, help="keep everything here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gpu-sweep-") as temporary:
        return _run(options.home or Path(temporary), small=options.small)


def _run(home: Path, *, small: bool) -> int:
    settings, started = Settings(home=home, port=free_port()), time.time()
    length = 48 if small else 4096
    _fill_catalog(settings, home, length, small=small)
    with Stack(settings) as stack, Client(stack.settings.url, read_token(stack.settings.token_file)) as client:
        sweep = client.submit(_spec(length, small=small))
        store = open_store(stack.settings.database_url)
        stopped = _stop_a_trainer(store, sweep.id)
        sweep = client.wait(sweep.id, None)
        if sweep.state is not SweepState.SUCCEEDED:
            print(f"the sweep ended as {sweep.state}: {sweep.message}")
            return 1
        report = Report.model_validate_json(client.report(sweep.id, "json", timeout_s=60))
        attempts = [a for a in store.list_attempts(sweep.id) if a.trial_id == stopped.trial_id]
        rows = _rows(client, sweep.id)
        store.close()
    card = f"{torch.cuda.get_device_name()}" if torch.cuda.is_available() else "CPU"
    print(f"{time.strftime('%Y-%m-%d')}, {card}, torch {torch.__version__}: {time.time() - started:.0f} s in all\n")
    print("| trial | " + " | ".join(MEASURED) + " |")
    print("|---" * (len(MEASURED) + 1) + "|")
    print("\n".join(rows))
    print(f"\nthe trial stopped by SIGTERM: {', then '.join(a.outcome or '?' for a in attempts)}")
    print(report.verdict.sentence)
    return 0 if len(attempts) > 1 else 1


def _fill_catalog(settings: Settings, home: Path, length: int, *, small: bool) -> None:
    model = save_random_model(
        SIZES["qwen2-tiny" if small else "qwen2-1.5b"], home / "hub-model", end_share=0.5 / length
    )
    rows = [_row(number, 40 if small else 4000) for number in range(64)]
    (home / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    environment = {**os.environ, **settings.environment()}
    for command in (
        ["models", "add", str(model), "--name", "random-qwen2"],
        ["datasets", "add", str(home / "sums.jsonl"), "--name", "long-sums"],
    ):
        subprocess.run([sys.executable, "-m", "sweep_service", *command], env=environment, check=True)


def _row(number: int, length: int) -> Mapping[str, str]:
    question, answer = f"What is {number % 8} + {number // 8}?", number % 8 + number // 8
    return {"question": "Mind only the end. ".ljust(length - len(question), ".") + question, "solution": str(answer)}


def _spec(length: int, *, small: bool) -> dict[str, Any]:
    training: dict[str, Any] = {
        "task": {
            "name": "word_problems",
            "data": {"ref": "long-sums", "prompt": "question", "answer": "solution", "template": "chat"},
            "reward": "number",
            "max_prompt_tokens": 200 if small else 4160,
            "validation_every": 16,
        },
        "model": {"name": "pretrained", "model": "random-qwen2"},
        "rollout": {
            "prompts_per_rollout": 4,
            "completions_per_prompt": 4,
            "prompts_per_minibatch": 2,
            "max_completion_tokens": length,
        },
        "compute": {"autocast": "none" if small else "bfloat16", "gradient_checkpointing": True},
        "optimizer": {"learning_rate": 1e-6, "warmup_steps": 0},
        "evaluation": {
            "every_steps": 100,
            "samples_per_problem": 2,
            "pass_k": 2,
            "max_completion_tokens": 32,
            "probe_completions": 2,
        },
        "checkpoint_every_rollouts": 1,
        "steps": 60 if small else 2,
        "device_batch": 2,
    }
    return {
        "name": "gpu-check",
        "training": training,
        "space": {"loss.beta1": 0.5, "loss.beta2": 1.0},
        "seeds": {"tune": [0]},
        "baselines": {"dapo": False},
        "probe": "off",
        "resources": {"cpus": 1} if small else {"cpus": 1, "gpus": 0.5},
    }


def _stop_a_trainer(store: Store, sweep_id: str) -> Attempt:
    """Send SIGTERM to a trainer that has made an update and has one to go."""
    while True:
        if store.get_sweep(sweep_id).state.is_over:
            raise SystemExit(f"the sweep ended before a trainer was stopped: {store.get_sweep(sweep_id).message}")
        midway = {trial.id for trial in store.list_trials(sweep_id) if 0 < trial.step < trial.total_steps}
        for attempt in store.list_attempts(sweep_id, running_only=True):
            if attempt.pid is not None and attempt.trial_id in midway:
                os.kill(attempt.pid, signal.SIGTERM)
                return attempt
        time.sleep(0.02)


def _rows(client: Client, sweep_id: str) -> list[str]:
    curves = {(curve.trial_id, curve.key): curve.values for curve in client.curves(sweep_id, MEASURED)}
    trials = [trial.id for trial in client.trials(sweep_id)]
    return [
        f"| {trial} | " + " | ".join(_largest(curves.get((trial, key), [])) for key in MEASURED) + " |"
        for trial in trials
    ]


def _largest(values: list[float | None]) -> str:
    present = [value for value in values if value is not None]
    return f"{max(present):,.3g}" if present else ""


if __name__ == "__main__":
    sys.exit(main())
