import json
import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from trainers.benchmarks.job import BenchmarkSampling, Job
from trainers.benchmarks.problems import BenchmarkProblem
from trainers.benchmarks.result import result, summary
from trainers.benchmarks.run import BenchmarkEvaluation, Finished, prepare, run
from trainers.benchmarks.samples import BenchmarkSample, Place
from trainers.errors import ConfigError, StoppedError
from trainers.process.locks import locked
from trainers.tasks.base import Completion, Judgement

PROBLEMS = [BenchmarkProblem(id=f"p{i}", problem=f"What is {i}?", answer=str(i), source="own") for i in range(5)]
BATCH = 4


class Dice:
    """A model that answers 0 to 5 by the roll of a die, and counts its rolls; stops by itself after `batches`."""

    def __init__(self, batches: int = 100, context: int | None = None) -> None:
        self.rolled, self.context, self._left = 0, context, batches

    def prompt_ids(self, problem: str, sampling: BenchmarkSampling) -> list[int]:
        return [ord(character) for character in problem + sampling.prompt_suffix]

    def sample(
        self, prompts: Sequence[Sequence[int]], sampling: BenchmarkSampling, seeds: Sequence[int]
    ) -> list[Completion]:
        if not self._left:
            raise StoppedError("stopped while sampling")
        self._left -= 1
        self.rolled += len(prompts)
        die = random.Random(seeds[0])
        return [Completion(str(die.randint(0, 5)), die.randint(1, 9), truncated=False) for _ in prompts]


def _evaluation(folder: Path, name: str = "arithmetic", **changed: Any) -> BenchmarkEvaluation:
    sampling = {
        "samples": 3,
        "temperature": 0.6,
        "top_p": 0.95,
        "max_tokens": 8,
        "prompt_suffix": "",
        "chat": False,
        "dtype": "float32",
        "reward": "number",
        "seed": 1,
    }
    job = Job(
        benchmark=name,
        problems=len(PROBLEMS),
        problems_origin="own",
        problems_sha256="0",
        model_sha256="1",
        sampling=BenchmarkSampling.model_validate({**sampling, **changed}),
        device="cpu",
        versions={},
    )
    return BenchmarkEvaluation(job, PROBLEMS, folder / name)


def _run(
    evaluations: Sequence[BenchmarkEvaluation],
    model: Dice,
    batch: int = BATCH,
    stopping: Callable[[], bool] = lambda: False,
) -> list[Finished]:
    with ExitStack() as stack:
        return list(run(prepare(evaluations, lambda: model, stack), lambda: model, batch, stopping))


def _written(folder: Path) -> tuple[bytes, bytes]:
    return (folder / "arithmetic" / "samples.jsonl").read_bytes(), (folder / "arithmetic" / "result.json").read_bytes()


@pytest.fixture
def whole(tmp_path: Path) -> tuple[bytes, bytes]:
    """Samples and result of an evaluation that nothing interrupted."""
    model = Dice()
    (finished,) = _run([_evaluation(tmp_path / "whole")], model)
    assert model.rolled == 15
    assert summary("arithmetic", finished.result["scores"]).startswith("arithmetic: avg@3 0.")
    written = _written(tmp_path / "whole")
    assert json.loads(written[1]) == finished.result
    return written


def test_batches_of_one_seed_differ_and_another_seed_gives_other_samples(
    tmp_path: Path, whole: tuple[bytes, bytes]
) -> None:
    samples = [BenchmarkSample.model_validate_json(line) for line in whole[0].splitlines()]
    assert [(s.problem, s.sample) for s in samples] == [(f"p{i}", k) for i in range(5) for k in range(3)]
    texts = [sample.completion for sample in samples]
    assert texts[0:4] != texts[4:8] != texts[8:12]
    _run([_evaluation(tmp_path, seed=2)], Dice())
    assert _written(tmp_path)[0] != whole[0]


def test_batches_that_begin_in_the_same_problem_differ(tmp_path: Path) -> None:
    _run([_evaluation(tmp_path, samples=20)], Dice(), batch=1)
    samples = [BenchmarkSample.model_validate_json(line) for line in _written(tmp_path)[0].splitlines()]
    assert len({sample.completion for sample in samples if sample.problem == "p0"}) > 3


def test_benchmarks_whose_problems_have_the_same_names_draw_different_samples(tmp_path: Path) -> None:
    _run([_evaluation(tmp_path, name, samples=20) for name in ("arithmetic", "exam")], Dice())
    texts = [
        [BenchmarkSample.model_validate_json(line).completion for line in path.read_text().splitlines()]
        for path in (tmp_path / "arithmetic/samples.jsonl", tmp_path / "exam/samples.jsonl")
    ]
    assert len(texts[0]) == len(texts[1]) == 100
    assert texts[0] != texts[1]


def test_an_evaluation_cut_at_any_byte_ends_as_if_nothing_had_happened(
    tmp_path: Path, whole: tuple[bytes, bytes]
) -> None:
    samples, _ = whole
    line_ends = [place + 1 for place, byte in enumerate(samples) if byte == ord("\n")]
    anywhere = random.Random(5).sample(range(len(samples)), 4)
    for cut in {0, *line_ends[2::2], *(end - 1 for end in line_ends[3::4]), *anywhere}:
        folder = tmp_path / str(cut)
        evaluation = _evaluation(folder)
        with pytest.raises(StoppedError):
            _run([evaluation], Dice(batches=0))
        (evaluation.folder / "samples.jsonl").write_bytes(samples[:cut])
        model = Dice()
        _run([evaluation], model)
        assert _written(folder) == whole
        finished_batches = sum(end <= cut for end in line_ends) // BATCH * BATCH if cut < len(samples) else 15
        assert model.rolled == 15 - finished_batches


def test_a_result_has_the_groups_of_the_problems(tmp_path: Path) -> None:
    grouped = [PROBLEMS[0].model_copy(update={"group": "g"}), *PROBLEMS[1:]]
    (finished,) = _run([_evaluation(tmp_path)._replace(problems=grouped)], Dice())
    assert [row.get("group") for row in finished.result["problems"]] == ["g", *[None] * 4]


def test_a_finished_evaluation_needs_no_model(tmp_path: Path) -> None:
    _run([_evaluation(tmp_path)], Dice())
    before = _written(tmp_path)
    (tmp_path / "arithmetic" / "result.json").unlink()
    with ExitStack() as stack:
        prepared = prepare([_evaluation(tmp_path)], lambda: pytest.fail("read a model"), stack)
        list(run(prepared, lambda: pytest.fail("loaded a model"), BATCH, lambda: False))
    assert _written(tmp_path) == before


def test_another_batch_size_goes_on_where_the_first_stopped(tmp_path: Path, whole: tuple[bytes, bytes]) -> None:
    with pytest.raises(StoppedError):
        _run([_evaluation(tmp_path)], Dice(batches=2))
    _run([_evaluation(tmp_path)], Dice(), batch=2)
    lines = _written(tmp_path)[0].splitlines()
    assert lines[:8] == whole[0].splitlines()[:8]
    assert [json.loads(line)["batch_end"] for line in lines[8:]] == [10, 10, 12, 12, 14, 14, 15]


def test_stopping_keeps_what_is_sampled(tmp_path: Path) -> None:
    asked = iter([False, False, True])
    with pytest.raises(StoppedError):
        _run([_evaluation(tmp_path)], Dice(), stopping=lambda: next(asked))
    assert (tmp_path / "arithmetic" / "samples.jsonl").read_bytes().count(b"\n") == 2 * BATCH
    assert not (tmp_path / "arithmetic" / "result.json").exists()


def test_an_evaluation_that_sampled_nothing_can_be_changed(tmp_path: Path) -> None:
    with pytest.raises(StoppedError):
        _run([_evaluation(tmp_path, seed=2)], Dice(), stopping=lambda: True)
    _run([_evaluation(tmp_path)], Dice())
    assert json.loads((tmp_path / "arithmetic" / "job.json").read_bytes())["sampling"]["seed"] == 1


def test_an_output_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=f"^{tmp_path}/file/arithmetic cannot be made: Not a directory$"):
        _run([_evaluation(tmp_path / "file")], Dice())


def test_samples_of_another_evaluation_are_not_added_to(tmp_path: Path) -> None:
    _run([_evaluation(tmp_path), _evaluation(tmp_path, "gsm8k")], Dice())
    with pytest.raises(ConfigError) as refusal:
        _run([_evaluation(tmp_path, temperature=1, seed=2), _evaluation(tmp_path, "gsm8k", samples=4)], Dice())
    assert [
        problem.removeprefix(f"{tmp_path}/arithmetic/job.json: ").removeprefix(f"{tmp_path}/gsm8k/job.json: ")
        for problem in refusal.value.problems
    ] == [
        "sampling.temperature was 0.6, now 1.0",
        "sampling.seed was 1, now 2",
        f"{tmp_path}/arithmetic holds samples of another evaluation; name another folder, or ask for the same",
        "sampling.samples was 3, now 4",
        f"{tmp_path}/gsm8k holds samples of another evaluation; name another folder, or ask for the same",
    ]


@pytest.mark.parametrize(
    ("damage", "refusal"),
    [
        (lambda text: text.replace('"problem":"p0"', '"problem":"p9"', 1), "line 1: sample 0 of p9, expected 0 of p0"),
        (lambda text: text.replace('"tokens"', '"t"', 1), "line 1: it is not a sample"),
    ],
)
def test_a_damaged_file_of_samples_is_refused(tmp_path: Path, damage: Any, refusal: str) -> None:
    _run([_evaluation(tmp_path)], Dice())
    file = tmp_path / "arithmetic" / "samples.jsonl"
    file.write_text(damage(file.read_text()))
    with pytest.raises(ConfigError, match=refusal):
        _run([_evaluation(tmp_path)], Dice())


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    folder = _evaluation(tmp_path).folder
    folder.mkdir()
    with locked(folder / ".lock"), pytest.raises(ConfigError, match="another process is writing"):
        _run([_evaluation(tmp_path)], Dice())


def test_prompts_that_do_not_fit_are_refused_before_anything_is_sampled(tmp_path: Path) -> None:
    model = Dice(context=len("What is 0?") + 7)
    with pytest.raises(ConfigError) as refusal:
        _run([_evaluation(tmp_path), _evaluation(tmp_path, "gsm8k")], model)
    assert [problem.endswith("context of 17; use at most 7") for problem in refusal.value.problems] == [True, True]
    assert model.rolled == 0


def _sample(place: Place, tokens: int, judgement: Judgement) -> BenchmarkSample:
    return BenchmarkSample.of(place, 8, Completion("", tokens, truncated=tokens == 9), judgement)


def test_a_result_leaves_out_what_could_not_be_judged(tmp_path: Path) -> None:
    wrong, right, failed = Judgement(0.0, False, "1"), Judgement(1.0, True, "2"), Judgement(None, False, timed_out=True)
    judgements = {"a": [right, right, wrong, failed], "b": [Judgement(-1.0, False), wrong, wrong, wrong]}
    samples = [
        _sample(Place(name, k), k + 6, judgement)
        for name, group in judgements.items()
        for k, judgement in enumerate(group)
    ]
    content = result(_evaluation(tmp_path, samples=4).job, samples)
    scores = content["scores"]
    assert scores["avg_at_k"]["mean"] == pytest.approx((2 / 3 + 0) / 2)
    assert scores["avg_at_k"]["sampling_se"] == pytest.approx(((1 / 3) / 3) ** 0.5 / 2)
    assert [(row["k"], row["problems"]) for row in scores["pass_at_k"]] == [(1, 2), (2, 2), (4, 1)]
    assert scores["pass_at_k"][1]["mean"] == pytest.approx((1 + 0) / 2)
    assert scores["majority_at_k"]["mean"] == 0.5
    assert scores["distinct_answers"] == (2 + 1) / 2
    assert content["problems"] == [
        {"id": "a", "judged": 3, "right": 2, "truncated": 1, "tokens_mean": 7.5},
        {"id": "b", "judged": 4, "right": 0, "truncated": 1, "tokens_mean": 7.5},
    ]
    grouped = result(_evaluation(tmp_path, samples=4).job, samples, {"b": "g"})["problems"]
    assert [row.get("group") for row in grouped] == [None, "g"]
    figures = content["samples"]
    assert (figures["count"], figures["failed_share"], figures["timed_out_share"]) == (8, 1 / 8, 1 / 8)
    assert (figures["unanswered_share"], figures["truncated_share"], figures["tokens_max"]) == (1 / 7, 1 / 4, 9)
