"""From a model folder to a report and an exported model: two architectures, full and LoRA, one process and two."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from transformers import AutoModelForCausalLM, AutoTokenizer

from bench.random_model import SIZES, save_random_model
from sweep_service.auth import read_token
from sweep_service.client import Client
from sweep_service.report import Report
from sweep_service.report.model import Outcome
from sweep_service.settings import Settings
from sweep_service.sweep.records import SweepState, TrialState
from tests.sweep_stack import serving
from tests.waiting import PATIENT_S

STEPS = 12
SWEEPS = {"qwen-full": ("qwen2", None, 1, 3), "llama-lora-two": ("llama", {"rank": 4, "alpha": 8}, 2, 1)}
"""Model, adapters, processes, confirm seeds: one verdict is enough."""


def run(*command: str) -> str:
    """Run a command as a user types it; return what it prints."""
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, timeout=PATIENT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def problems(folder: Path) -> Path:
    """Problems whose answers are one digit, which random models write now and then."""
    rows = [
        {
            "question": f"A hen lays {a + 2} eggs, {1 + b % 2} a day. How many a day?",
            "solution": str(1 + b % 2),
            "level": a,
        }
        for a in range(4)
        for b in range(4)
    ]
    path = folder / "eggs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def spec(name: str) -> dict[str, Any]:
    model, lora, processes, seeds = SWEEPS[name]
    return {
        "name": name,
        "training": {
            "task": {
                "name": "word_problems",
                "data": {
                    "ref": "eggs",
                    "prompt": "question",
                    "answer": "solution",
                    "filter": {"level": [0, 1, 2]},
                    "system": "You count eggs.",
                    "suffix": " Say the number.",
                    "template": "chat",
                },
                "reward": "number",
                "max_prompt_tokens": 200,
                "validation_every": 3,
            },
            "model": {"name": "pretrained", "model": model, "lora": lora},
            "rollout": {
                "prompts_per_rollout": 4,
                "completions_per_prompt": 16,
                "prompts_per_minibatch": 2,
                "max_completion_tokens": 4,
            },
            "optimizer": {"learning_rate": 0.01, "warmup_steps": 0},
            "evaluation": {"every_steps": 4, "samples_per_problem": 16, "pass_k": 4},
            "checkpoint_every_rollouts": 2,
            "steps": STEPS,
            "device_batch": 16,
        },
        "space": {"loss.beta1": 0.5, "loss.beta2": 1},
        "seeds": {"tune": [0], "confirm": {"top_k": 1, "seeds": list(range(10, 10 + seeds))}},
        "baselines": {"dapo": False, "matched": False},
        "resources": {"cpus": processes, "processes": processes, "max_parallel": 1},
    }


@pytest.mark.parametrize(
    "name", [pytest.param("qwen-full", marks=pytest.mark.long), pytest.param("llama-lora-two", marks=pytest.mark.hunt)]
)
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("forked_sweeps")
def test_from_a_model_folder_to_a_report_and_an_exported_model(name: str, settings: Settings, tmp_path: Path) -> None:
    model, *_ = SWEEPS[name]
    folder = save_random_model(SIZES[f"{model}-tiny"], tmp_path / model, likely="123", end_share=0.4)
    run("sweep_service", "models", "add", str(folder), "--name", model)
    run("sweep_service", "datasets", "add", str(problems(tmp_path)), "--name", "eggs")
    with serving(settings), Client(settings.url, read_token(settings.token_file)) as client:
        plan = client.plan(spec(name))
        assert "You count eggs." in plan.model_dump_json()
        sweep_id = client.submit(spec(name)).id
        sweep = client.wait(sweep_id, 400)
        assert (sweep.state, sweep.message) == (SweepState.SUCCEEDED, None)
        assert {trial.state for trial in client.trials(sweep_id)} == {TrialState.SUCCEEDED}
        report = Report.model_validate_json(client.report(sweep_id, "json", timeout_s=PATIENT_S))
        told = report.verdict.outcome is not Outcome.INSUFFICIENT
        assert told is (SWEEPS[name][3] > 1), report.verdict.sentence
        check_export(client, settings, sweep_id, tmp_path / "best", SWEEPS[name])


def check_export(client: Client, settings: Settings, sweep_id: str, folder: Path, trained: Any) -> None:
    """The exported model loads as any other, and gives the numbers that its trial was evaluated with."""
    run("sweep_service", "best", sweep_id, "--export", str(folder))
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    assert AutoTokenizer.from_pretrained(folder).chat_template
    assert not any("lora" in name for name, _ in model.named_parameters())
    assert "eggs" in (folder / "README.md").read_text()
    best = folder / "best.yaml"
    _, lora, processes, _ = trained
    options = ["--evaluate", str(folder), "--cache", str(settings.cache), "--processes", str(processes), "--json"]
    found = json.loads(run("trainers", str(best), *options))["metrics"]
    seed = yaml.safe_load(best.read_text())["seed"]
    config = client.best(sweep_id).config_id
    (trial,) = (t for t in client.trials(sweep_id) if (t.config_id, t.seed, t.stage) == (config, seed, "confirm"))
    (curve,) = (c for c in client.curves(sweep_id, ["eval/avg_at_k"]) if c.trial_id == trial.id)
    value = curve.values[-1]
    assert value is not None
    assert value > 0
    assert found["eval/avg_at_k"] == pytest.approx(value, abs=0.05 if lora else 1e-9)
