"""Seeds and settings that reach the sampling of rollouts and of evaluations, and what is made of the samples."""

import math
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import GenerationConfig

from tests.unit.trainers.training.bare_trainers import bare, config
from tests.unit.trainers.two_processes import Process, gather_object, in_both
from trainers.errors import DivergedError, SamplingInterruptedError, StoppedError
from trainers.process.seeds import BASE_EVALUATION_SEED, derived_seed
from trainers.rollouts import logprob_check
from trainers.rollouts.logprob_check import Gap
from trainers.rollouts.rollout_server import Address
from trainers.rollouts.vllm_engine import engine_arguments
from trainers.tasks.base import Completion, Judgement, Problem
from trainers.training import sampling_trainer
from trainers.training.sampling_trainer import SampledTokens, SamplingTrainer, initial_evaluation_key


def test_an_evaluation_is_seeded_by_the_seed_of_the_run_and_by_its_step() -> None:
    trainer = bare(SamplingTrainer, config(seed=5), _evaluation=lambda seed: seed)
    assert [trainer.evaluation_after(step) for step in (1, 8)] == [derived_seed(5, "evaluation", s) for s in (1, 8)]


def test_validation_problems_are_evaluated_and_the_processes_draw_differently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling_trainer, "evaluate", lambda sample, *args: (*args, sample.keywords, torch.rand(1)))
    task = SimpleNamespace(training=["to train on"], validation=["to validate on"])

    def evaluated(rank: int) -> Any:
        return bare(SamplingTrainer, config(), _rank=rank, _processes=2, _task=task)._evaluation(7)

    *arguments, drawn = evaluated(0)
    assert arguments == [["to validate on"], config().evaluation, {"seed": 7}]
    assert evaluated(0)[-1] == drawn
    assert evaluated(1)[-1] != drawn


def test_a_rollout_is_sampled_in_batches_of_its_own_size() -> None:
    asked = list[tuple[int | None, int, int]]()

    def completed(prompt_ids: list[list[int]], batch: int | None, seed: int, copies: int) -> list[SampledTokens]:
        asked.append((batch, seed, copies))
        return [SampledTokens(ids, None) for ids in prompt_ids]

    settings = config(
        rollout__sampling_batch=6, evaluation__sampling_batch=5, rollout__completions_per_prompt=4, device_batch=16
    )
    task: Any = SimpleNamespace(
        training=[Problem("1+1=", "2"), Problem("1+2=", "3")],
        judge=lambda problems, _: [Judgement(float(problem.answer), correct=True) for problem in problems],
    )
    trainer = bare(
        SamplingTrainer,
        settings,
        _task=task,
        _completed=completed,
        _token_ids=lambda problems: [[int(problem.answer)] for problem in problems],
        _completion=lambda ids: Completion("", len(ids), truncated=False),
    )
    groups = trainer._sampled_groups([1, 0], 9)
    assert asked == [(6, 9, 4)]
    assert [[sample.judgement.reward for sample in group] for group in groups] == [[3.0] * 4, [2.0] * 4]


def test_an_evaluation_samples_with_its_own_settings_and_puts_those_of_training_back() -> None:
    kwargs = {"temperature": 0.8, "top_p": 1.0, "max_new_tokens": 4, "do_sample": True}
    training, model = GenerationConfig(**kwargs), torch.nn.Linear(1, 1)
    own = {"evaluation.temperature": 0.6, "evaluation.top_p": 0.9, "evaluation.max_completion_tokens": 7}
    trainer = bare(SamplingTrainer, config(**own), model=model, generation_config=training, generation_kwargs=kwargs)
    with trainer._evaluation_settings():
        assert trainer.generation_kwargs == kwargs | {"temperature": 0.6, "top_p": 0.9, "max_new_tokens": 7}
        expected = GenerationConfig(**trainer.generation_kwargs, disable_compile=True)
        assert trainer.generation_config.to_dict() == expected.to_dict()
        assert not model.training
    assert trainer.generation_config is training
    assert trainer.generation_kwargs == kwargs
    assert model.training


def completing(settings: Any = None, **attributes: Any) -> tuple[Any, list[Any]]:
    """Return a trainer whose sampling repeats the prompts, and the list in which it writes down what it is asked."""
    asked = list[Any]()

    def turn(prompt_ids: list[list[int]], images: Any, fields: Any, copies: int, *, seed: int) -> Any:
        asked.append((prompt_ids, images, fields, copies, seed))
        return prompt_ids, None if trainer.vllm_generation is None else [[-1.0] * len(ids) for ids in prompt_ids]

    trainer = bare(SamplingTrainer, settings or config(), _generate_single_turn=turn, **attributes)
    return trainer, asked


PROMPTS = [[number] for number in range(5)]


@pytest.mark.parametrize(("batch", "starts"), [(2, [0, 2, 4]), (5, [0]), (None, [0])])
def test_parts_of_a_batch_are_seeded_by_the_prompt_that_they_begin_with(batch: int | None, starts: list[int]) -> None:
    trainer, asked = completing()
    assert trainer._completed(PROMPTS, batch, 9) == [SampledTokens(ids, None) for ids in PROMPTS]
    size = batch or 5
    assert asked == [(PROMPTS[at : at + size], None, {}, 1, derived_seed(9, "part", at)) for at in starts]


def test_vllm_gets_whole_groups_and_its_log_probabilities_are_kept() -> None:
    prompts = [[number // 2] for number in range(6)]
    trainer, asked = completing(vllm_generation=object(), any_process=bool, _stopping=lambda: False)
    assert trainer._completed(prompts, 3, 9, 2) == [SampledTokens(ids, [-1.0]) for ids in prompts]
    assert [(part, copies) for part, _, _, copies, _ in asked] == [(prompts[:4], 2), (prompts[4:], 2)]


def test_vllm_is_asked_no_more_once_any_process_is_to_stop() -> None:
    heard = iter((False, True))
    trainer, asked = completing(vllm_generation=object(), any_process=lambda _: next(heard), _stopping=lambda: False)
    with pytest.raises(SamplingInterruptedError):
        trainer._completed(PROMPTS, 2, 9)
    assert [part for part, *_ in asked] == [PROMPTS[:2]]


def test_processes_without_vllm_do_not_ask_each_other_between_parts() -> None:
    """Transformers is stopped before each token, or by the next update: see `_generating`."""
    trainer, asked = completing(any_process=lambda _: pytest.fail("asked"), _stopping=lambda: True)
    trainer._completed(PROMPTS, 2, 9)
    assert len(asked) == 3


def test_vllm_is_given_the_settings_the_updates_and_the_seeds_of_its_copies() -> None:
    def complete(*args: Any, step: int, seed: Any) -> Any:
        return *args, step, seed(3)

    trainer = bare(
        SamplingTrainer,
        config(),
        vllm_generation=SimpleNamespace(complete=complete),
        generation_kwargs={"top_p": 1.0},
        state=SimpleNamespace(global_step=7),
    )
    turn = trainer._generate_single_turn(PROMPTS, None, {}, 4, seed=9)
    assert turn == (PROMPTS, 4, {"top_p": 1.0}, 7, derived_seed(9, "copy", 3))


@pytest.mark.parametrize(("processes", "stops"), [(1, True), (2, False)])
def test_only_a_process_alone_is_stopped_in_the_middle_of_a_completion(processes: int, stops: bool) -> None:
    trainer = bare(
        SamplingTrainer,
        config(),
        _processes=processes,
        _sampling=False,
        _stopping=lambda: True,
        model=torch.nn.Linear(1, 1),
    )
    trainer._before_forward()  # an update
    with trainer._generating():
        if stops:
            with pytest.raises(SamplingInterruptedError):
                trainer._before_forward()
        else:
            trainer._before_forward()
    trainer._before_forward()


def test_probabilities_that_are_not_finite_end_the_run_and_other_errors_stay() -> None:
    trainer = bare(
        SamplingTrainer, config(), _sampling=False, model=torch.nn.Linear(1, 1), state=SimpleNamespace(global_step=7)
    )
    with pytest.raises(DivergedError, match="probabilities are not finite") as caught, trainer._generating():
        torch.tensor([math.nan]).multinomial(1)
    assert caught.value.last_good_step == 7
    assert not trainer._sampling
    with pytest.raises(RuntimeError, match="out of memory"), trainer._generating():
        raise RuntimeError("out of memory")


@pytest.mark.parametrize(
    ("ids", "text", "tokens", "truncated"),
    [([5, 6, 1], "5 6", 3, False), ([5, 1, 6], "5 1 6", 3, True), ([2], "", 1, False)],
)
def test_a_completion_ends_with_an_end_token_that_its_text_lacks(
    ids: list[int], text: str, tokens: int, truncated: bool
) -> None:
    decode = SimpleNamespace(decode=lambda ids: " ".join(map(str, ids)))
    trainer = bare(SamplingTrainer, config(), eos_token_ids=[1, 2], _tokenizer=decode)
    assert trainer._completion(ids) == Completion(text, tokens, truncated)


def test_what_is_generated_behind_the_first_end_token_is_cut() -> None:
    trainer = bare(SamplingTrainer, config(), eos_token_ids=[1, 2])
    assert [trainer._until_end(ids) for ids in ([5, 2, 1, 6], [1], [5, 6])] == [[5, 2], [1], [5, 6]]


def test_two_processes_share_an_evaluation_and_get_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each completes equally many problems, for they may share weights; what fills up counts nowhere."""
    monkeypatch.setattr(sampling_trainer, "gather_object", gather_object)
    problems = [Problem(f"{number}", f"{number}") for number in range(5)]

    def judged(process: Process) -> Any:
        completed = list[Any]()

        def complete(prompt_ids: list[list[int]], batch: int | None, seed: int) -> list[SampledTokens]:
            completed.append((prompt_ids, batch, seed))
            return [SampledTokens(ids, None) for ids in prompt_ids]

        trainer = bare(
            SamplingTrainer,
            config(evaluation__sampling_batch=6),
            _rank=process.process_index,
            _processes=2,
            _evaluation_settings=nullcontext,
            _token_ids=lambda problems: [[int(problem.prompt)] for problem in problems],
            _completed=complete,
            _completion=lambda ids: Completion(f"{ids[0]}", 1, truncated=False),
            _task=SimpleNamespace(
                judge=lambda problems, completions: [
                    Judgement(float(completion.text == problem.answer), correct=True)
                    for problem, completion in zip(problems, completions, strict=True)
                ]
            ),
        )
        return trainer._judged(problems, seed=9), completed

    (first, asked), (second, asked_too) = in_both(judged)
    assert first == second
    assert [(completion.text, judgement.reward) for completion, judgement in first] == [(f"{n}", 1.0) for n in range(5)]
    assert asked == [([[0], [2], [4]], 6, 9)]
    assert asked_too == [([[1], [3], [0]], 6, 9)]


@pytest.mark.parametrize("processes", [1, 2])
def test_the_initial_model_is_evaluated_once_by_the_seed_of_all_runs(
    processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def base_evaluation(cache: str, key: Any, compute: Any, *, while_waiting: Any) -> Any:
        return cache, key, compute(), while_waiting

    monkeypatch.setattr(sampling_trainer, "model_digest", lambda folder: f"digest of {folder}")
    monkeypatch.setattr(sampling_trainer, "base_evaluation", base_evaluation)
    monkeypatch.setattr(sampling_trainer, "shared", lambda first, together: ("shared", *first(together)))
    trainer = bare(
        SamplingTrainer,
        config(seed=5),
        _processes=processes,
        _folders=SimpleNamespace(model="model", cache="cache"),
        _task=SimpleNamespace(recipe={"asked": "a"}),
        _evaluation=lambda seed: f"evaluation by {seed}",
    )
    key = initial_evaluation_key(config(seed=5), "digest of model", {"asked": "a"}, processes)
    waiting = trainer._wait_for_another if processes == 1 else trainer._tell_waiting  # several end together, or not
    shared = ("shared",) if processes > 1 else ()
    assert trainer.evaluation_after(0) == (*shared, "cache", key, f"evaluation by {BASE_EVALUATION_SEED}", waiting)


def test_an_evaluation_is_sampled_in_batches_of_its_own_size_and_by_vllm_as_a_whole() -> None:
    assert bare(SamplingTrainer, config())._evaluation_batch == 512
    assert bare(SamplingTrainer, config(), vllm_generation=object())._evaluation_batch is None


def test_a_condition_of_one_process_is_told_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling_trainer, "gather_object", gather_object)

    def told(process: Process) -> list[bool]:
        trainer, rank = bare(SamplingTrainer, config()), process.process_index
        return [trainer.any_process(condition) for condition in (rank == 1, rank == 0, False, True)]

    assert in_both(told) == [[True, True, False, True]] * 2


def test_a_stop_is_heard_while_a_server_starts_and_while_vllm_samples() -> None:
    trainer = bare(SamplingTrainer, config(), _stopping=lambda: False)
    trainer._stop_if_asked()
    trainer._interrupt_if_asked()
    trainer._stopping = lambda: True
    with pytest.raises(StoppedError):
        trainer._stop_if_asked()
    with pytest.raises(SamplingInterruptedError):
        trainer._interrupt_if_asked()


PRETRAINED = {"name": "pretrained", "model": "acme"}
IN_BFLOAT16 = {"model": PRETRAINED | {"weights_dtype": "bfloat16"}, "optimizer__learning_rate": 1e-3}


@pytest.mark.parametrize(
    ("settings", "exact"),
    [({}, True), ({"compute__autocast": "bfloat16"}, False), ({"model": PRETRAINED}, True), (IN_BFLOAT16, False)],
)
@pytest.mark.parametrize("engine", [None, object()])
def test_the_first_prompts_are_checked_exactly_where_arithmetic_is_exact(
    settings: dict[str, Any], exact: bool, engine: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The prompts have 1 to 300 tokens in the order of the data, and the other process has larger gaps."""
    worse, seen = Gap(9.0, 9.0), dict[str, Any]()

    def padding_gap(prompts: list[list[int]], completions: list[list[int]], pad: int, forward: object) -> Gap:
        seen.update(prompts=[len(ids) for ids in prompts], completions=completions, pad=pad, forward=forward)
        return Gap(1.0, 1.0)

    monkeypatch.setattr(sampling_trainer, "gather_object", lambda values: [*values, values[0] and worse])
    monkeypatch.setattr(logprob_check, "padding_gap", padding_gap)
    monkeypatch.setattr(logprob_check, "judged", lambda *gaps, exact: {"gaps": gaps, "exact": exact})
    trainer = bare(
        SamplingTrainer,
        config(**settings),
        vllm_generation=engine,
        _tokenizer=SimpleNamespace(pad_token_id=7),
        _task=SimpleNamespace(training=list(range(1, 301))),
        _token_ids=lambda problems: [list(range(problem)) for problem in problems],
        _generated_with_logprobs=lambda prompts: ([[1]] * len(prompts), torch.zeros(len(prompts), 1)),
        _forward=lambda rows: (torch.ones(rows["completion_ids"].shape), None),
    )
    assert trainer.check_logprobs() == {"gaps": (worse, None if engine else worse), "exact": exact}
    assert (seen["prompts"], seen["pad"], seen["forward"]) == ([1, 2, 255, 256], 7, trainer._forward)
    assert seen["completions"] == ([[0], [0, 1], [*range(247, 255)], [*range(248, 256)]] if engine else [[1]] * 4)


@pytest.mark.parametrize(
    ("mode", "first", "served"), [("colocate", True, 0), ("server", True, 1), ("server", False, 0)]
)
def test_the_first_process_starts_the_server_of_the_run(
    mode: str, first: bool, served: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, started = Address("127.0.0.1", 1, 2), list[Any]()

    class Server:
        def __init__(self, command: Any, *others: Any) -> None:
            started.append((command(address), *others))
            self.address, self.closed = address, 0

        def close(self) -> None:
            self.closed += 1

    monkeypatch.setattr(sampling_trainer, "RolloutServer", Server)
    monkeypatch.setattr(sampling_trainer, "server_command", lambda *args: args)
    monkeypatch.setattr(sampling_trainer, "server_environment", lambda: {"A": "b"})
    monkeypatch.setattr(sampling_trainer, "VLLM", lambda *args, **named: (args, named))
    settings = config(seed=5, model=PRETRAINED, rollout__engine={"name": "vllm", "mode": mode})
    trainer = bare(
        SamplingTrainer,
        settings,
        _server=None,
        _folders=SimpleNamespace(model=tmp_path / "model", output=tmp_path),
        _tokenizer="tokenizer",
        model="model",
        eos_token_ids=[1, 2],
        accelerator=SimpleNamespace(is_main_process=first),
    )
    trainer.end_server()
    engine = settings.rollout.engine
    args, named = trainer._vllm(9)
    assert args == ("model", trainer.accelerator, "tokenizer", engine_arguments(settings, 9, 1))
    assert named == {
        "end_tokens": [1, 2],
        "server": address if served else None,
        "while_sampling": trainer._interrupt_if_asked,
    }
    command = engine, tmp_path / "model", 9 + 12, 5, address
    assert started == [(command, {"A": "b"}, tmp_path / "vllm.log", trainer._stop_if_asked)] * served
    trainer.end_server()
    assert getattr(trainer._server, "closed", 0) == served
