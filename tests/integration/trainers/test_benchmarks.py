"""Evaluations of a small random model, as people start them."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from tests.integration.trainers.tiny_models import CONTEXT, save_tiny_model
from tests.kept_signals import kept_signals
from trainers.benchmarks.__main__ import main
from trainers.benchmarks.job import BenchmarkSampling
from trainers.benchmarks.sampler import ModelSampler
from trainers.policy.model_folder import model_digest

SAMPLING = BenchmarkSampling(
    samples=1,
    temperature=1.0,
    top_p=1.0,
    max_tokens=12,
    prompt_suffix="=",
    chat=False,
    dtype="float32",
    reward="number",
    seed=0,
)
QUICK = ("--reward", "number", "--max-tokens", "6", "--samples", "4", "--batch", "24", "--temperature", "1")


@pytest.fixture(autouse=True)
def _as_before() -> Generator[None]:
    """Put back what the command line changes of its process."""
    with patch.dict(os.environ), kept_signals():
        yield


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model") / "tiny")


def _words(model: Path, output: Path, *more: str) -> list[str]:
    return ["--model", str(model), "--benchmark", "arithmetic", "--output", str(output), *QUICK, *more]


def _written(output: Path) -> dict[str, bytes]:
    return {name: (output / "arithmetic" / name).read_bytes() for name in ("job.json", "samples.jsonl", "result.json")}


def _sampler(folder: Path, stopping: Callable[[], bool] = lambda: False) -> ModelSampler:
    return ModelSampler(folder, "float32", stopping)


def _texts(
    model: ModelSampler, problems: Sequence[str], sampling: BenchmarkSampling = SAMPLING, seed: int = 0
) -> list[str]:
    prompts = [model.prompt_ids(problem, sampling) for problem in problems]
    return [completion.text for completion in model.sample(prompts, sampling, [seed] * len(prompts))]


def test_an_evaluation_says_what_its_samples_add_up_to(
    model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(_words(model, tmp_path, "--samples", "16")) == 0
    written = _written(tmp_path)
    samples = [json.loads(line) for line in written["samples.jsonl"].splitlines()]
    result = json.loads(written["result.json"])
    assert len(samples) == result["samples"]["count"] == 640
    correct = sum(sample["correct"] for sample in samples)
    assert 0 < correct < 640
    assert result["scores"]["avg_at_k"]["mean"] == pytest.approx(correct / 640)
    solved = {sample["problem"] for sample in samples if sample["correct"]}
    assert result["scores"]["pass_at_k"][-1]["mean"] == pytest.approx(len(solved) / 40)
    assert result["job"]["model_sha256"] == model_digest(model)
    assert all(sample["tokens"] <= 6 and (sample["tokens"] == 6 or not sample["truncated"]) for sample in samples)
    out, err = capfd.readouterr()
    assert out.startswith(f"arithmetic: avg@16 {correct / 640:.3f} (standard error ")
    assert "640/640" in err


def _sampled(output: Path) -> list[bytes]:
    file = output / "arithmetic" / "samples.jsonl"
    return file.read_bytes().splitlines(keepends=True) if file.exists() else []


def _interrupted(words: Sequence[str], output: Path, after: int, number: int) -> int:
    """Start a process, send it a signal once so many samples are there, and return its exit code."""
    command = [sys.executable, "-W", "error", "-m", "trainers.benchmarks", *words]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None and len(_sampled(output)) < after:
            time.sleep(0.001)
        process.send_signal(number)
    return process.returncode


@pytest.mark.long
def test_an_evaluation_that_was_terminated_and_killed_ends_as_if_nothing_had_happened(
    model: Path, tmp_path: Path
) -> None:
    cut, whole = tmp_path / "cut", tmp_path / "whole"
    slow = ("--batch", "1")  # a write to the disk for each sample: long enough to be interrupted
    assert _interrupted(_words(model, cut, *slow), cut, 20, signal.SIGTERM) == 4
    kept = _sampled(cut)
    assert 20 <= len(kept) < 160
    moment = random.Random(11).randrange(len(kept) + 1, 140)
    assert _interrupted(_words(model, cut, *slow), cut, moment, signal.SIGKILL) == -signal.SIGKILL
    assert moment <= len(_sampled(cut)) < 160
    assert main(_words(model, cut, *slow)) == main(_words(model, whole, *slow)) == 0
    assert _written(cut) == _written(whole)
    assert _sampled(cut)[: len(kept)] == kept


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["--model", str(tmp_path), "--benchmark", "aime24,arithmetic,nonsense", "--output", str(tmp_path / "out")]
    words += [
        "--samples",
        "0",
        "--top-p",
        "2",
        "--seed",
        "x",
        "--batch",
        "none",
        "--prompt",
        "chat",
        "--reward",
        "magic",
    ]
    words += ["--cache", str(tmp_path)]
    assert main(words) == 2
    err = capfd.readouterr().err
    for refusal in (
        f"{tmp_path}: not a Hugging Face model (config.json and *.safetensors)",
        "--batch: expected a whole number from 1 (got 'none')",
        f"aime24 is not in the catalog of benchmarks (in {tmp_path}/benchmarks there are: none); add it "
        "with `sweeps benchmarks add` aime24, from Kwai-Klear/CE-GPPO@10558fe",
        "nonsense is not in the catalog of benchmarks",
        "--prompt chat: the tokenizer",
        "--reward: there is no 'magic'; known are exact, expression, math, number",
        "--samples: Input should be greater than or equal to 1 (got '0')",
        "--top-p: Input should be less than or equal to 1 (got '2')",
        "--seed: Input should be a valid integer",
    ):
        assert err.count(refusal) == 1, refusal
    assert not (tmp_path / "out").exists()


def test_another_evaluation_into_the_same_folder_is_refused(
    model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(_words(model, tmp_path)) == 0
    other = save_tiny_model(tmp_path / "other", seed=1)
    assert main(_words(other, tmp_path, "--top-p", "1")) == 2
    err = capfd.readouterr().err
    assert "model_sha256 was" in err
    assert "sampling.top_p was 0.95, now 1.0" in err


def test_a_prompt_too_long_for_the_model_is_refused(
    model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(_words(model, tmp_path, "--max-tokens", str(CONTEXT))) == 2
    assert f"exceeds the model's context of {CONTEXT}; use at most" in capfd.readouterr().err


def test_a_published_file_is_converted_for_later_evaluations(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    published = tmp_path / "test.jsonl"
    published.write_text("".join(json.dumps({"problem": f"P{i}", "answer": float(i)}) + "\n" for i in range(40)))
    assert main(["convert", "amc23", str(published), "--cache", str(tmp_path)]) == 0
    assert "40 problems" in capfd.readouterr().out
    first = (tmp_path / "benchmarks" / "amc23" / "problems.jsonl").read_text().splitlines()[0]
    assert json.loads(first)["id"] == "amc23-0001"
    assert main(["convert", "hmmt25", str(published), "--cache", str(tmp_path)]) == 2
    assert "40 problems; hmmt25 has 30" in capfd.readouterr().err


def test_sampling_follows_its_own_settings_and_not_the_models(model: Path, tmp_path: Path) -> None:
    """The model's file asks for greedy, repetitive, short completions that may not end; none of it must happen."""
    leaky = save_tiny_model(tmp_path / "leaky")
    settings = json.loads((leaky / "generation_config.json").read_text())
    hostile = {"do_sample": False, "top_k": 1, "repetition_penalty": 9.0, "max_new_tokens": 2, "min_new_tokens": 2}
    (leaky / "generation_config.json").write_text(json.dumps({**settings, **hostile}))
    problems = [str(number) for number in range(64)]
    assert _texts(_sampler(leaky), problems) == _texts(_sampler(model), problems)


def test_samples_follow_the_seed_and_leave_the_random_state_alone(model: Path) -> None:
    sampler, problems = _sampler(model), ["1", "23"]
    before = torch.random.get_rng_state()
    first = _texts(sampler, problems, seed=1)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert first == _texts(sampler, problems, seed=1) != _texts(sampler, problems, seed=2)


def test_samples_have_the_models_distribution(model: Path) -> None:
    """Of prompts of two lengths in one batch; against the softmax of the logits of each alone."""
    sampler, count, temperature = _sampler(model), 4000, 0.5
    network = AutoModelForCausalLM.from_pretrained(model)
    sampling = SAMPLING.model_copy(update={"max_tokens": 1, "temperature": temperature})
    texts = _texts(sampler, ["7", "12345"] * count, sampling)
    for offset, problem in enumerate(["7", "12345"]):
        with torch.no_grad():
            logits = network(torch.tensor([sampler.prompt_ids(problem, sampling)])).logits[0, -1]
        expected = torch.softmax(logits / temperature, 0)
        seen = texts[offset::2]
        for digit in range(10):
            chance = expected[3 + digit].item()
            assert seen.count(str(digit)) / count == pytest.approx(chance, abs=4 * (chance / count) ** 0.5)


def test_a_completion_ends_at_any_of_the_models_end_tokens(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / "two_ends")
    settings = json.loads((folder / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps({**settings, "eos_token_id": [1, 3]}))  # <end> and 0
    sampler = _sampler(folder)
    short = SAMPLING.model_copy(update={"max_tokens": 3})
    completions = sampler.sample([sampler.prompt_ids("1", short)] * 200, short, [0] * 200)
    assert not [completion for completion in completions if "0" in completion.text or "<end>" in completion.text]
    assert {completion.truncated for completion in completions} == {True, False}
    assert all(completion.tokens == 3 for completion in completions if completion.truncated)
    assert all(completion.tokens == len(completion.text) + (not completion.truncated) for completion in completions)


def test_prompts_go_through_the_chat_template_if_there_is_one(model: Path, tmp_path: Path) -> None:
    chatty = save_tiny_model(tmp_path / "chatty")
    template = "{% for m in messages %}1{{ m.content }}2{% endfor %}{% if add_generation_prompt %}3{% endif %}"
    (chatty / "chat_template.jinja").write_text(template)
    sampler = _sampler(chatty)
    chat = SAMPLING.model_copy(update={"chat": True, "prompt_suffix": "5"})
    assert sampler.prompt_ids("9", chat) == sampler.prompt_ids(
        "1952", SAMPLING.model_copy(update={"prompt_suffix": "3"})
    )
    assert main(_words(chatty, tmp_path)) == 0
    assert json.loads(_written(tmp_path)["job.json"])["sampling"]["chat"] is True
    assert model_digest(chatty) != model_digest(model)


def test_a_plain_benchmark_is_asked_and_judged_in_its_own_way_whatever_the_model_brings(
    model: Path, tmp_path: Path
) -> None:
    chatty = save_tiny_model(tmp_path / "chatty")
    (chatty / "chat_template.jinja").write_text("{{ messages[0].content }}")
    assert (
        main(["--model", str(chatty), "--benchmark", "expressions", "--output", str(tmp_path), "--samples", "1"]) == 0
    )
    sampling = json.loads((tmp_path / "expressions" / "job.json").read_bytes())["sampling"]
    assert (sampling["chat"], sampling["reward"], sampling["prompt_suffix"]) == (False, "expression", "")
    assert (sampling["samples"], sampling["max_tokens"], sampling["temperature"], sampling["top_p"]) == (1, 16, 1, 1)


def test_sampling_stops_at_once_when_asked(model: Path) -> None:
    from trainers.errors import StoppedError

    asked = iter(range(100))
    sampler = _sampler(model, lambda: next(asked) >= 3)
    with pytest.raises(StoppedError):
        sampler.sample([sampler.prompt_ids("1", SAMPLING)], SAMPLING.model_copy(update={"max_tokens": 200}), [0])
    assert next(asked) < 10


def test_adapters_are_sampled_with_their_base_model(model: Path, tmp_path: Path) -> None:
    torch.manual_seed(3)
    network = AutoModelForCausalLM.from_pretrained(model)
    adapted = get_peft_model(network, LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False))
    adapted.save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((model / name).read_bytes())
    problems = [str(number) for number in range(20)]
    merged = tmp_path / "merged"
    adapted.merge_and_unload().save_pretrained(merged)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (merged / name).write_bytes((model / name).read_bytes())
    assert (
        _texts(_sampler(tmp_path), problems) == _texts(_sampler(merged), problems) != _texts(_sampler(model), problems)
    )
    assert model_digest(tmp_path) != model_digest(model)
