"""What an update is given and what is recorded of it."""

import math
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.unit.trainers.training.bare_trainers import bare, config
from tests.unit.trainers.two_processes import ONE_PROCESS, Process, in_both
from trainers.errors import CheckpointError, DivergedError
from trainers.evaluation.evaluate import EvaluationResult
from trainers.evaluation.problem_counts import ProblemCounts
from trainers.policy.checkpoints import read_state, write_state
from trainers.process.events import NoEvents
from trainers.process.seeds import loss_seed
from trainers.record.frozen_probe import FrozenCompletions
from trainers.record.recorder import Recorder
from trainers.record.rollout_stats import NO_ENGINE
from trainers.rollouts.logprob_check import engine_warning
from trainers.rollouts.rollout import Collected, PromptStream, Sample, problems_digest
from trainers.tasks.base import Completion, Judgement, Problem
from trainers.training import policy_trainer
from trainers.training.inert_betas import InertBetas
from trainers.training.policy_trainer import PolicyTrainer
from trainers.training.sampling_trainer import SampledTokens, SamplingTrainer

TASK: Any = SimpleNamespace(training=[Problem("1+1=", "2"), Problem("1+2=", "3")], validation=[Problem("2+3=", "5")])


def frozen(seed: int) -> list[Any]:
    """Return the prompts and completions that a run of this seed freezes; each completion is drawn."""
    frozen_ids = list[Any]()

    def completed(prompt_ids: list[str], _batch: int | None, seed: int) -> list[SampledTokens]:
        return [SampledTokens([seed, int(torch.randint(2**31, ()))], None) for _ in prompt_ids]

    trainer = bare(
        PolicyTrainer,
        config(seed=seed, evaluation__probe_completions=3),
        _task=TASK,
        _token_ids=lambda problems: [problem.prompt for problem in problems],
        _completed=completed,
        _tokenizer=SimpleNamespace(pad_token_id=0),
        _frozen=SimpleNamespace(freeze=lambda *args: frozen_ids.extend(args[:2])),
    )
    trainer.freeze_completions()
    return frozen_ids


def test_frozen_completions_answer_training_problems_and_are_the_same_for_all_seeds() -> None:
    prompts, completions = frozen(seed=1)
    assert prompts == ["1+1=", "1+2=", "1+1="]
    assert len(set(map(tuple, completions))) == 3
    torch.rand(1)  # nor do they depend on what was drawn before
    assert frozen(seed=2) == [prompts, completions]


def test_a_loss_draws_by_the_seed_of_the_run_the_device_batch_and_the_process() -> None:
    trainer = bare(PolicyTrainer, config(seed=3), _step=11, _rank=2, accelerator=ONE_PROCESS)
    ones_BT, ones_B = torch.ones(2, 4), torch.ones(2)
    inputs = {
        "old_logprobs": 2 * ones_BT,
        "advantages": 3 * ones_B,
        "completion_mask": ones_BT,
        "old_entropy": 4 * ones_BT,
        "correct": torch.tensor([True, False]),
        "active": torch.tensor([False, True]),
        "sampling_weight": 5 * ones_BT,
        "reference_logprobs": 8 * ones_BT,
    }
    batch = trainer._token_batch(inputs, 6 * ones_BT, 7 * ones_BT)
    assert batch.generator.initial_seed() == loss_seed(3, 11, 2)
    means = {name: part.float().mean().item() for name, part in vars(batch).items() if isinstance(part, torch.Tensor)}
    assert means == {
        "logprobs_BT": 6,
        "old_logprobs_BT": 2,
        "advantages_BT": 3,
        "mask_BT": 1,
        "entropy_BT": 7,
        "old_entropy_BT": 4,
        "correct_B": 0.5,
        "active_B": 0.5,
        "sampling_weight_BT": 5,
        "reference_logprobs_BT": 8,
    }
    assert (batch.correct_B.tolist(), batch.active_B.tolist()) == ([True, False], [False, True])


def test_the_times_of_a_step_are_those_of_its_sampling_its_updates_and_its_measuring(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The step begins with its first device batch, at 10 s; two measurements take 3 and 1 s, and sampling took 12 s."""
    clock, measured = iter((10.0, 14.0, 17.0, 20.0, 21.0, 40.0)), list[object]()
    monkeypatch.setattr(policy_trainer, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    monkeypatch.setattr(policy_trainer, "gather_object", lambda values: [*values, 1e9])
    monkeypatch.setattr(SamplingTrainer, "training_step", lambda _, *args, **kwargs: (args, kwargs))
    trainer = bare(PolicyTrainer, config(), _frozen=SimpleNamespace(measure=measured.append), _forward="forward")
    trainer._restart_clocks()
    for _ in range(2):
        assert trainer.training_step("model", inputs="inputs") == (("model",), {"inputs": "inputs"})
    trainer._generation_s = 12.0
    for _ in range(2):
        trainer.measure_frozen_completions()
    assert measured == ["forward"] * 2
    assert trainer._times({"tokens/step": 150.0}) == {
        "time/generation_s": 12.0,
        "time/update_s": 30.0 - 12 - 4,
        "time/step_s": 30.0,
        "tokens/per_second": 5.0,
        "memory/peak_mib": 1e9,
    }
    assert (trainer._step_started, trainer._generation_s, trainer._frozen_s) == (0.0, 0.0, 0.0)


def test_the_reference_scores_a_rollout_only_where_a_term_reads_it() -> None:
    rows, scores_BT = {"completion_ids": torch.ones(1, 2)}, torch.full((1, 2), -3.0)
    state = ["adapters on"]

    @contextmanager
    def disable_adapter() -> Generator[None]:
        state.append("adapters off")
        yield
        state.append("adapters on")

    parts: Any = {
        "model": SimpleNamespace(disable_adapter=disable_adapter),
        "_logprobs": lambda model, given: (scores_BT, None) if (model, given) == ("copy", rows) else None,
        "_forward": lambda given: (scores_BT + len(state), None) if given is rows else None,
    }
    off = bare(PolicyTrainer, config(), _reference=None, **parts)
    assert off._reference_scores(rows) == {}
    copy = bare(PolicyTrainer, config(terms__kl__coefficient=0.1), _reference="copy", **parts)
    assert torch.equal(copy._reference_scores(rows)["reference_logprobs"], scores_BT)
    assert state == ["adapters on"]
    lora = bare(PolicyTrainer, config(terms__kl__coefficient=0.1, model__lora={}), _reference=None, **parts)
    assert torch.equal(lora._reference_scores(rows)["reference_logprobs"], scores_BT + 2)
    assert state == ["adapters on", "adapters off", "adapters on"]


@pytest.mark.parametrize(
    ("loss", "step", "betas"),
    [
        ({"schedule": [{"step": 3, "beta1": 0.25, "beta2": 0.125}]}, 3, (0.5, 1.0)),
        ({"schedule": [{"step": 3, "beta1": 0.25, "beta2": 0.125}]}, 4, (0.25, 0.125)),
        ({"name": "grpo"}, 1, (None, None)),
    ],
)
def test_the_recorded_betas_are_those_that_the_update_used(loss: Any, step: int, betas: tuple[Any, Any]) -> None:
    trainer = bare(PolicyTrainer, config(loss=loss), _entropy_coefficient=0.6, _positive_weight=0.75)
    assert trainer._schedules(step) == {
        "schedule/beta1": betas[0],
        "schedule/beta2": betas[1],
        "schedule/positive_weight": 0.75,
        "entropy_bonus/coefficient": 0.6,
    }


def restored(state: dict[str, Any], task: Any = TASK, processes: int = 2) -> Any:
    """Return a trainer that goes on from these counters, with all of its parts that count."""
    trainer = bare(
        PolicyTrainer,
        config(),
        _processes=processes,
        _task=task,
        _prompts=PromptStream(2, 0, 0, 1),
        _frozen=FrozenCompletions(),
        _inert=InertBetas(config()),
        _recorder=Recorder(NoEvents(), 480, 0, state),
        _model_only=False,
        state=SimpleNamespace(global_step=state.get("step", 0)),
    )
    trainer._restore(state)
    return trainer


COUNTING = ("_prompts", "_frozen", "_inert", "_recorder", "state")
NO_COUNTERS = {
    *("_rank", "_processes", "_problems", "_model_only", "vllm_generation", "_critic"),
    *("_prompts._problems", "_prompts._seed", "_prompts._rank", "_prompts._processes"),
    *("_frozen.rows", "_frozen._latest"),  # in a file of their own, and read at once
    *("_inert._judged_at", "_inert._has_betas", "_recorder._started", "_recorder._named_problems"),
}
"""What follows from the settings or the checkpoint's folder, or begins anew in each process."""


def counters(trainer: Any) -> dict[str, Any]:
    """Return what a trainer and its parts count, by attribute, as JSON has it."""
    parts = {"": trainer} | {f"{part}.": getattr(trainer, part) for part in COUNTING}
    found = {f"{part}{name}": value for part, of in parts.items() for name, value in vars(of).items()}
    kinds = int | float | str | dict | list | None
    return {name: value for name, value in found.items() if isinstance(value, kinds) and name not in NO_COUNTERS}


def test_a_resumed_run_goes_on_with_the_counters_of_its_checkpoint(tmp_path: Path) -> None:
    """Every counter of the first run is another one than that of a new run."""
    first, new = restored({}), counters(restored({}))
    first.state.global_step, first.evaluated_step, first._prompts.position = 8, 4, 7
    first._rollout_metrics = {"reward/mean": 0.5}
    first._entropy_coefficient, first._positive_weight = 0.25, 0.75
    first._frozen.state |= {"entropy": 1.5}
    first._inert.sums |= {"clipped": 1.0, "all": 2.0, "dead": 3.0}
    first._recorder.step(1, {"tokens/step": 7.0, "reward/mean": None, "entropy": None})
    first._recorder.evaluation(4, EvaluationResult({"eval/avg_at_k": 0.125}, [], ProblemCounts([], [], [])))
    before = counters(first)
    assert [name for name, value in before.items() if new[name] == value] == []
    write_state(tmp_path, config(), first._state())
    assert counters(restored(read_state(tmp_path, config()))) == before


def test_a_run_does_not_go_on_with_another_number_of_processes() -> None:
    with pytest.raises(CheckpointError, match=r"written by 2 process\(es\), .* this run has 1; start 2"):
        restored(restored({})._state(), processes=1)


@pytest.mark.parametrize("part", ["training", "validation"])
def test_a_run_does_not_go_on_with_other_problems(part: str) -> None:
    state = restored({})._state()
    other = SimpleNamespace(**{**vars(TASK), part: [Problem("4+4=", "8")]})
    with pytest.raises(CheckpointError, match="other problems"):
        restored(state, other)


def test_the_memory_is_in_mib(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = SimpleNamespace(RUSAGE_SELF=7, getrusage=lambda who: SimpleNamespace(ru_maxrss=3 * 1024 if who == 7 else 0))
    monkeypatch.setattr(policy_trainer, "resource", usage)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert policy_trainer._memory_peak_since_start_mib() == 3.0
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 5 * 2**20)
    assert policy_trainer._memory_peak_since_start_mib() == 5.0


def clipping(monkeypatch: pytest.MonkeyPatch, loss: float, norm: Any = 2.0, **attributes: Any) -> Any:
    monkeypatch.setattr(SamplingTrainer, "_clip_grad_norm", lambda *_: norm)
    state = SimpleNamespace(global_step=7)
    return bare(PolicyTrainer, config(), state=state, _window_loss=torch.tensor(loss), **attributes)


@pytest.mark.parametrize(
    ("loss", "norm", "said"),
    [(math.nan, 2.0, "the loss is nan"), (1.0, math.inf, "the gradient's norm is inf")],
)
def test_a_run_that_is_not_finite_ends(loss: float, norm: float, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DivergedError, match=said) as caught:
        clipping(monkeypatch, loss, torch.tensor(norm))._clip_grad_norm("model")
    assert caught.value.last_good_step == 7


def test_the_loss_of_an_update_is_summed_anew_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = clipping(monkeypatch, 1e30)
    assert trainer._clip_grad_norm("model") == 2.0
    assert trainer._window_loss.tolist() == 0.0


def test_all_processes_end_where_the_loss_of_one_is_not_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = [1.0, math.nan]

    def ended(process: Process) -> bool:
        loss = losses[process.process_index]
        trainer = clipping(monkeypatch, loss, _processes=2, accelerator=process)
        with pytest.raises(DivergedError):
            trainer._clip_grad_norm("model")
        return True

    assert in_both(ended) == [True, True]


def groups_of(*lengths: int, logprobs: bool = False) -> list[list[Sample]]:
    """One group for each length; the second of its two completions is right, and as long."""
    return [
        [
            Sample(
                [1],
                [2] * length,
                Completion("x", length, truncated=False),
                Judgement(reward, correct=reward == 1),
                [-1.0] * length if logprobs else None,
            )
            for reward in (0.0, 1.0)
        ]
        for length in lengths
    ]


def test_an_update_divides_by_its_share_of_the_tokens_of_all_processes() -> None:
    shares = [groups_of(1, 2), groups_of(3, 6)]

    def scored(process: Process) -> Any:
        trainer = bare(
            PolicyTrainer,
            config(rollout__prompts_per_rollout=8, rollout__prompts_per_minibatch=4),
            _processes=2,
            accelerator=process,
            _tokenizer=SimpleNamespace(pad_token_id=0),
            _forward=lambda rows: (torch.zeros(rows["completion_ids"].shape),) * 2,
        )
        return trainer._scored(Collected(shares[process.process_index], sampled=6)), trainer._rollout_metrics

    for tensors, metrics in in_both(scored):
        totals = {name.partition("/")[2]: float(tensors[name]) for name in tensors if name.startswith("totals/")}
        assert totals == {
            "tokens": 24 / 2 / 2,
            "sequences": 8 / 2 / 2,
            "active_tokens": 24 / 2 / 2,
            "active_sequences": 8 / 2 / 2,
            "correct_tokens": 12 / 2 / 2,
            "correct_sequences": 4 / 2 / 2,
            "width": 12 / 2,
        }
        assert (metrics["completion/length_mean"], metrics["sampling/groups_generated"]) == (3.0, 12 / 4)


def test_a_rollout_lies_on_the_device_of_training() -> None:
    """That device here is torch's one without memory, so nothing that stayed behind would be on it."""
    meta, engine = torch.device("meta"), list[torch.device]()

    def corrected(old_BT: torch.Tensor, engine_BT: torch.Tensor, mask_BT: torch.Tensor) -> dict[str, Any]:
        engine.extend(tensor.device for tensor in (old_BT, engine_BT, mask_BT))
        return {}

    trainer = bare(
        PolicyTrainer,
        config(),
        accelerator=SimpleNamespace(num_processes=1, device=meta, reduce=lambda tensor, **_: tensor),
        _tokenizer=SimpleNamespace(pad_token_id=0),
        _forward=lambda rows: (torch.zeros(rows["completion_ids"].shape, device=meta),) * 2,
        _correction=corrected,
    )
    tensors = trainer._scored(Collected(groups_of(1, 2, logprobs=True), sampled=2))
    assert {name for name, tensor in tensors.items() if tensor.device != meta} == {"totals/width"}
    assert engine == [meta] * 3


def test_an_evaluation_is_recorded_told_to_the_callbacks_and_may_be_the_best() -> None:
    told = list[tuple[Any, ...]]()
    evaluation = SimpleNamespace(metrics={"eval/avg_at_k": 0.5, "eval/pass_at_k": None})
    trainer = bare(
        PolicyTrainer,
        config(keep_best=True),
        evaluation_after=lambda step: evaluation,
        _recorder=SimpleNamespace(evaluation=lambda *args: told.append(("recorded", *args))),
        _keep_best=lambda *args: told.append(("best", *args)),
        callback_handler=SimpleNamespace(on_evaluate=lambda *args: told.append(args) or "next"),
        accelerator=SimpleNamespace(is_main_process=True),
        state=SimpleNamespace(global_step=8),
        args="args",
        control="control",
    )
    assert trainer.evaluate() == {"eval/avg_at_k": 0.5}
    callback = ("args", trainer.state, "control", {"eval/avg_at_k": 0.5})
    assert told == [("recorded", 8, evaluation), ("best", 8, 0.5), callback]
    assert (trainer.evaluated_step, trainer.control) == (8, "next")
    told.clear()
    trainer.state, trainer.accelerator = SimpleNamespace(global_step=0), SimpleNamespace(is_main_process=False)
    trainer.evaluate()
    assert [kind for kind, *_ in told] == ["args"]  # the initial model is not kept, and the first process records


def test_a_new_run_begins_at_the_first_prompt_with_nothing_counted() -> None:
    trainer = restored({})
    assert trainer._prompts.position == 0
    assert trainer._rollout_metrics == {}
    assert trainer._entropy_coefficient == trainer._config.terms.entropy_bonus.coefficient
    assert trainer._positive_weight == 1
    assert trainer._frozen.state == {"entropy": None}
    assert trainer.evaluated_step is None


@pytest.mark.parametrize("derivation", [{}, {"seed_derivation": 1}, {"seed_derivation": 3}])
def test_a_checkpoint_whose_seeds_are_derived_otherwise_is_refused(derivation: dict[str, int]) -> None:
    with pytest.raises(CheckpointError, match=r"seeds are derived in a way .* that this version does not know"):
        restored({"problems": problems_digest(TASK), **derivation})


LOGPROBS, ENGINE = torch.tensor([[-1.0, -2.0]]), torch.tensor([[-2.0, -2.0]])


@pytest.mark.parametrize(("correction", "weights"), [("token_truncate", [[1.5, 1.0]]), ("off", None)])
def test_the_distance_of_the_engine_is_recorded_warned_of_once_and_corrected_if_configured(
    correction: str, weights: Any
) -> None:
    engine: dict[str, Any] = {"name": "vllm", "correction": correction}
    if weights:
        engine["correction_cap"] = 1.5
    warned = list[Any]()
    trainer = bare(
        PolicyTrainer,
        config(model={"name": "pretrained", "model": "some"}, rollout__engine=engine),
        _rollout_metrics={"reward/mean": 0.5, **NO_ENGINE},
        _engine_unseen=True,
        _warn=warned.append,
        accelerator=ONE_PROCESS,
    )
    added = [trainer._correction(LOGPROBS, ENGINE, torch.ones(1, 2)) for _ in range(2)]
    assert [{name: tensor.tolist() for name, tensor in one.items()} for one in added] == [
        {} if weights is None else {"sampling_weight": weights}
    ] * 2
    assert trainer._rollout_metrics == {
        "reward/mean": 0.5,
        "engine/logprob_gap_mean": 0.5,
        "engine/logprob_gap_max": 1.0,
        "engine/weight_mean": weights and 1.25,
        "engine/weight_cut_share": weights and 0.5,
    }
    assert warned == [engine_warning(0.5)]


@pytest.mark.parametrize(("first", "recorded"), [(True, 1), (False, 0)])
def test_the_first_process_records_what_the_check_of_log_probabilities_says(first: bool, recorded: int) -> None:
    told = list[Any]()
    warning: dict[str, Any] | None = {"code": "LOGPROBS_DIFFER"}
    trainer = bare(
        PolicyTrainer,
        config(),
        check_logprobs=lambda: warning,
        _recorder=SimpleNamespace(events=SimpleNamespace(write=lambda *args, **named: told.append((args, named)))),
        accelerator=SimpleNamespace(is_main_process=first),
        state=SimpleNamespace(global_step=4),
    )
    trainer.check_model()
    assert told == [(("warning",), {"step": 4, "code": "LOGPROBS_DIFFER"})] * recorded
    warning = None
    trainer.check_model()
    assert len(told) == recorded
