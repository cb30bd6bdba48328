"""Measuring the models of runs on benchmarks, as a sweep's actor starts it."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml
from transformers import AutoTokenizer

from tests.integration.trainers.standin_vllm import StandIn, install
from tests.integration.trainers.tiny_models import save_tiny_model
from tests.integration.trainers.trainer_runs import SMALL, Run
from tests.kept_signals import kept_signals
from tests.waiting import wait_until
from trainers.benchmarks import measure
from trainers.benchmarks.__main__ import main as benchmarks
from trainers.benchmarks.known_benchmarks import usual
from trainers.benchmarks.measure import measure_model
from trainers.benchmarks.measure_request import MeasureRequest
from trainers.benchmarks.problems import read_problems
from trainers.catalog.add_from_disk import add_local_model
from trainers.catalog.entries import ModelEntry, entry_folder
from trainers.command_line import main
from trainers.config import TrainingConfig, with_params
from trainers.errors import ConfigError
from trainers.export import export
from trainers.extensions import Extensions
from trainers.policy.model_folder import model_digest
from trainers.process.events import EventWriter, read_events
from trainers.process.locks import locked
from trainers.training.train import train

LORA = {"model.lora": {"rank": 4, "alpha": 8}, "optimizer.learning_rate": 5e-3}
QUICK: list[dict[str, Any]] = [
    {"name": "expressions", "samples": 16, "longest": 12},
    {"name": "arithmetic", "samples": 2, "longest": 6, "temperature": 0.9, "top_p": 0.8, "reward": "number"},
]
WRITTEN = ("job.json", "samples.jsonl", "result.json")


@pytest.fixture(autouse=True)
def _as_before() -> Generator[None]:
    """Put back what the command line changes of its process."""
    with patch.dict(os.environ), kept_signals():
        yield


def trained(params: Mapping[str, Any], output: Path, cache: Path) -> Path:
    """Train as a trial does, and return the checkpoint of the last step."""
    with EventWriter(output / "events.jsonl") as events:
        config = TrainingConfig.model_validate(with_params(SMALL, params))
        assert train(config, output, events, cache=cache, model_only=True) == "SUCCEEDED"
    return output / "step-16"


@pytest.fixture(scope="module")
def full(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained({}, tmp_path_factory.mktemp("full"), cache)


@pytest.fixture(scope="module")
def adapters(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(LORA, tmp_path_factory.mktemp("adapters"), cache)


def words(folder: Path, cache: Path, **request: Any) -> list[str]:
    """Write configuration and request below `folder`, and return the words of the command line."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(SMALL), encoding="utf-8")
    content = {"model": None, "results": None, "benchmarks": QUICK} | request
    (folder / "request.json").write_text(json.dumps(content, default=str), encoding="utf-8")
    output = ["--output", str(folder / "attempt"), "--cache", str(cache)]
    return [str(folder / "config.yaml"), "--measure", str(folder / "request.json"), *output]


def record(folder: Path) -> Run:
    return Run("", read_events(folder / "attempt" / "events.jsonl"), folder / "attempt")


def written(folder: Path, name: str = "expressions") -> dict[str, bytes]:
    return {file: (folder / name / file).read_bytes() for file in WRITTEN}


@pytest.mark.parametrize("kind", ["full", "adapters"])
def test_a_checkpoint_is_measured_to_the_byte_as_its_exported_model(
    kind: str, cache: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    checkpoint: Path = request.getfixturevalue(kind)
    results = tmp_path / "results"
    assert main(words(tmp_path, cache, model=checkpoint, results=results)) == 0
    export(checkpoint, tmp_path / "model")
    alone = ["--model", str(tmp_path / "model"), "--output", str(tmp_path / "alone"), "--cache", str(cache)]
    first = ["--benchmark", "expressions", "--samples", "16", "--max-tokens", "12"]
    second = ["--benchmark", "arithmetic", "--samples", "2", "--max-tokens", "6", "--reward", "number"]
    second += ["--temperature", "0.9", "--top-p", "0.8"]
    assert benchmarks([*alone, *first]) == benchmarks([*alone, *second]) == 0
    for name in ("expressions", "arithmetic"):
        assert written(results, name) == written(tmp_path / "alone", name)
    ran = record(tmp_path)
    result = json.loads(written(results)["result.json"])
    assert 0 < result["scores"]["avg_at_k"]["mean"] < 1  # else it would say little
    assert [event["name"] for event in ran.of("benchmark")] == ["expressions", "arithmetic"]
    event = ran.of("benchmark")[0]
    assert event["result"] == result
    assert event["model_sha256"] == model_digest(tmp_path / "model")
    assert len({sample["prompt"] for sample in event["shown"]}) == 4
    assert all(sample["reward"] == float(sample["correct"]) for sample in event["shown"])
    assert (ran.events[0]["type"], ran.events[-1]["outcome"]) == ("started", "SUCCEEDED")
    assert set(ran.events[0]["versions"]) >= {"python", "torch", "transformers"}
    assert ran.of("progress")[0]["phase"] == "reading the checkpoint"
    assert [(e["done"], e["total"]) for e in ran.of("progress") if e["phase"] == "expressions"][-1] == (384, 384)
    assert {entry.name for entry in (tmp_path / "attempt").iterdir()} == {"events.jsonl"}


def test_the_initial_model_is_sampled_once_for_all_that_need_it(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(words(tmp_path / "first", cache)) == 0
    monkeypatch.setattr(measure, "ModelSampler", lambda *_: pytest.fail("sampled again"))
    assert main(words(tmp_path / "second", cache)) == 0
    assert main(words(tmp_path / "in-another-order", cache, benchmarks=QUICK[::-1])) == 0
    events = [record(tmp_path / name).of("benchmark") for name in ("first", "second", "in-another-order")]
    assert [event["result"] for event in events[0]] == [event["result"] for event in events[1]]
    assert [event["result"] for event in events[0]] == [event["result"] for event in events[2]][::-1]
    (base,) = cache.glob("tiny-qwen2-????????????????")
    assert events[0][0]["model_sha256"] == model_digest(base)
    with pytest.raises(pytest.fail.Exception, match="sampled again"):
        main(words(tmp_path / "otherwise", cache, benchmarks=[QUICK[0] | {"samples": 3}]))
    with pytest.raises(pytest.fail.Exception, match="sampled again"):
        main(words(tmp_path / "in-other-batches", cache, batch=16))
    monkeypatch.setattr(Extensions, "code", lambda *_: ["edited since"])
    with pytest.raises(pytest.fail.Exception, match="sampled again"):
        main(words(tmp_path / "judged-otherwise", cache))


def test_the_initial_model_of_adapters_is_the_base_that_they_begin_from(cache: Path, tmp_path: Path) -> None:
    base = words(tmp_path / "base", cache, benchmarks=QUICK[:1], results=tmp_path / "of-base")
    assert main(base) == 0
    adapted = words(tmp_path / "lora", cache, benchmarks=QUICK[:1], results=tmp_path / "of-lora")
    assert main([*adapted, "model.lora.rank=4"]) == 0
    assert written(tmp_path / "of-base") == written(tmp_path / "of-lora")


def test_a_process_waits_for_one_that_samples_the_same_and_stops_waiting_when_asked(
    cache: Path, tmp_path: Path
) -> None:
    request = MeasureRequest.model_validate({"model": None, "results": tmp_path, "benchmarks": QUICK[:1]})
    (tmp_path / "expressions").mkdir()
    config, polled = TrainingConfig.model_validate(SMALL), iter([False] * 3)
    with locked(tmp_path / "expressions" / ".lock"), EventWriter(tmp_path / "events.jsonl") as events:
        outcome = measure_model(config, request, tmp_path, events, cache=cache, stopping=lambda: next(polled, True))
    ran = read_events(tmp_path / "events.jsonl")
    assert outcome == ran[-1]["outcome"] == "STOPPED"
    phases = [event["phase"] for event in ran if event["type"] == "progress"]
    assert phases[-1] == "waiting for another process that measures the same"
    with EventWriter(tmp_path / "events.jsonl") as events:
        assert measure_model(config, request, tmp_path, events, cache=cache) == "SUCCEEDED"


def test_everything_that_is_wrong_is_said_at_once(full: Path, cache: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    assert main(words(tmp_path / "before", cache, model=full, results=results, benchmarks=QUICK[:1])) == 0
    samples = results / "expressions" / "samples.jsonl"
    samples.write_bytes(samples.read_bytes().replace(b'"tokens"', b'"t"', 1))
    (results / "arithmetic").touch()
    wrong = [*QUICK, {"name": "aime24"}, {"name": "nonsense"}]
    assert main(words(tmp_path, cache, model=full, results=results, benchmarks=wrong)) == 2
    (failed,) = record(tmp_path).of("failed")
    assert failed["code"] == "BAD_CONFIG"
    for reason in (
        f"{samples}, line 1: it is not a sample",
        f"{results / 'arithmetic'} cannot be made: File exists",
        "aime24 is not in the catalog of benchmarks",
        "nonsense is not in the catalog of benchmarks",
    ):
        assert failed["message"].count(reason) == 1, reason
    assert not (tmp_path / "attempt" / ".unfinished").exists()


def test_completions_beyond_the_models_context_are_refused(cache: Path, tmp_path: Path) -> None:
    beyond = [QUICK[0] | {"longest": 2**17}, QUICK[1] | {"longest": 2**18}, {"name": "nonsense"}]
    assert main(words(tmp_path, cache, results=tmp_path, benchmarks=beyond)) == 2
    (failed,) = record(tmp_path).of("failed")
    assert failed["message"].count("exceeds the model's context of 131072; use at most 131") == 2
    assert "nonsense is not in the catalog of benchmarks" in failed["message"]


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ({"nonsense": 1}, "nonsense: Extra inputs are not permitted"),
        ({"benchmarks": []}, "benchmarks: Tuple should have at least 1 item"),
        ({"benchmarks": [QUICK[0], QUICK[0]]}, "benchmarks: expressions is named more than once; ask for each once"),
        ({"benchmarks": [{"name": "expressions", "samples": 0}]}, "greater than or equal to 1"),
        ({"model": "step-8"}, "results: only the initial model (model null) has its results in the cache"),
        ({"model": "step-8", "results": "here"}, "step-8 was not written by a run"),
        ({"benchmarks": [{"name": "expressions", "reward": "magic"}]}, "expressions.reward: there is no 'magic'"),
    ],
)
def test_a_request_that_means_nothing_is_refused(
    cache: Path, tmp_path: Path, request_: dict[str, Any], reason: str
) -> None:
    assert main(words(tmp_path, cache, **request_)) == 2
    last = record(tmp_path).events[-1]
    assert (last["type"], last["code"]) == ("failed", "BAD_CONFIG")
    assert reason in last["message"]


def test_a_runs_own_record_is_not_written_to(full: Path, cache: Path, tmp_path: Path) -> None:
    before = (full.parent / "events.jsonl").read_bytes()
    *most, _, _, _ = words(tmp_path, cache)
    assert main([*most, str(full.parent), "--cache", str(cache)]) == 2
    assert (full.parent / "events.jsonl").read_bytes() == before


# by vLLM, on its stand-in

VLLM: dict[str, Any] = {
    "model": {"name": "pretrained", "model": "tiny"},
    "rollout.engine": {"name": "vllm", "memory_share": 0.5, "tensor_parallel": 2},
}


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    monkeypatch.setattr(measure, "ModelSampler", lambda *_: pytest.fail("sampled by Transformers"))
    return install(monkeypatch)


def measured_by_vllm(
    folder: Path, cache: Path, benchmarks: list[dict[str, Any]], batch: int | None = None, stop: Any = lambda: False
) -> str:
    if not entry_folder(cache, ModelEntry, "tiny").exists():
        add_local_model(save_tiny_model(cache / "tiny"), cache, "tiny")
    config = TrainingConfig.model_validate(with_params(SMALL, VLLM))
    content = {"model": None, "results": folder, "benchmarks": benchmarks, "batch": batch}
    with EventWriter(folder / "events.jsonl") as events:
        request = MeasureRequest.model_validate(content)
        return measure_model(config, request, folder, events, cache=cache, stopping=stop)


def test_vllm_measures_several_benchmarks_with_one_engine_as_each_is_sampled(vllm: StandIn, tmp_path: Path) -> None:
    benchmarks: list[dict[str, Any]] = [QUICK[0] | {"longest": 3}, QUICK[1]]
    assert measured_by_vllm(tmp_path / "out", tmp_path, benchmarks) == "SUCCEEDED"
    (engine,) = vllm.engines
    tokenizer: Any = AutoTokenizer.from_pretrained(entry_folder(tmp_path, ModelEntry, "tiny"))
    lengths = [
        len(tokenizer(problem.problem + usual(entry["name"]).prompt_suffix)["input_ids"]) + entry["longest"]
        for entry in benchmarks
        for problem in read_problems(entry["name"], tmp_path).problems
    ]
    assert engine.settings["max_model_len"] == max(lengths)
    settings = {"tensor_parallel_size": 2, "gpu_memory_utilization": 0.5, "generation_config": "vllm"}
    assert engine.settings.items() >= settings.items()
    assert [call for call in vllm.calls if call.startswith("generate")] == [
        "generate 256",
        "generate 128",
        "generate 80",
    ]
    assert len({params.seed for params in vllm.asked}) == 24 * 16 + 40 * 2
    wanted = {(params.temperature, params.top_p, params.max_tokens) for params in vllm.asked}
    assert wanted == {(1.0, 1.0, 3), (0.9, 0.8, 6)}
    job = json.loads(written(tmp_path / "out")["job.json"])
    assert (job["engine"], job["versions"]["vllm"]) == ("vllm", "0.0.stand-in")
    samples = [json.loads(line) for line in written(tmp_path / "out")["samples.jsonl"].splitlines()]
    assert {sample["truncated"] for sample in samples} == {True, False}
    assert len({sample["completion"] for sample in samples if sample["problem"] == "expressions-24"}) > 8


def test_samples_by_vllm_depend_neither_on_the_batch_nor_on_where_it_was_stopped(vllm: StandIn, tmp_path: Path) -> None:
    tokens = iter(range(10**6))
    assert measured_by_vllm(tmp_path / "cut", tmp_path, QUICK[:1], 64, lambda: next(tokens) > 30) == "STOPPED"
    before = sampled(tmp_path / "cut")
    assert 0 < before < 24 * 16
    assert measured_by_vllm(tmp_path / "cut", tmp_path, QUICK[:1], 17) == "SUCCEEDED"
    assert measured_by_vllm(tmp_path / "whole", tmp_path, QUICK[:1]) == "SUCCEEDED"

    def completions(name: str) -> list[tuple[str, bool]]:
        lines = written(tmp_path / name)["samples.jsonl"].splitlines()
        return [(row["completion"], row["correct"]) for row in map(json.loads, lines)]

    assert completions("cut") == completions("whole")


def test_a_machine_without_vllm_is_told_with_all_else_that_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refusal:
        measured_by_vllm(tmp_path / "out", tmp_path, [{"name": "nonsense"}])
    assert [problem.partition(":")[0].partition(" is not")[0] for problem in refusal.value.problems] == [
        "rollout.engine vllm",
        "nonsense",
    ]


# ended by signals


def sampled(results: Path) -> int:
    file = results / "expressions" / "samples.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


def interrupted(command: list[str], results: Path, after: int, number: int) -> int:
    """Start a process, send it a signal once so many samples are there, and return its exit code."""
    with subprocess.Popen([sys.executable, "-m", "trainers", *command], stderr=subprocess.DEVNULL) as process:
        wait_until("samples", lambda: process.poll() is not None or sampled(results) >= after)
        process.send_signal(number)
    return process.returncode


@pytest.mark.long
def test_a_measurement_that_was_terminated_and_killed_ends_as_if_nothing_had_happened(
    full: Path, cache: Path, tmp_path: Path
) -> None:
    slow = {"model": full, "benchmarks": [QUICK[0] | {"samples": 64}, QUICK[1]], "batch": 2}
    cut, whole = tmp_path / "cut", tmp_path / "whole"
    command = words(tmp_path, cache, results=cut, **slow)
    assert interrupted(command, cut, 20, signal.SIGTERM) == 4
    assert record(tmp_path).events[-1]["outcome"] == "STOPPED"
    kept = (cut / "expressions" / "samples.jsonl").read_bytes()
    assert 20 <= sampled(cut) < 24 * 64
    moment = random.Random(3).randrange(sampled(cut) + 1, 1200)
    assert interrupted(command, cut, moment, signal.SIGKILL) == -signal.SIGKILL
    assert moment <= sampled(cut) < 24 * 64
    assert (tmp_path / "attempt" / ".unfinished").exists()
    assert main(command) == main(words(tmp_path / "again", cache, results=whole, **slow)) == 0
    for name in ("expressions", "arithmetic"):
        assert written(cut, name) == written(whole, name)
    assert written(cut)["samples.jsonl"].startswith(kept)
    assert not (tmp_path / "attempt" / ".unfinished").exists()
