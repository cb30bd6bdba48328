"""The trainer hands to generation, evaluation, loss and optimizer just what the configuration says."""

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import Qwen2ForCausalLM
from transformers.models.qwen2.modeling_qwen2 import Qwen2Model
from trl.trainer.grpo_trainer import GRPOTrainer

from tests.integration.trainers.random_models import QUESTIONS, TRAINING, catalog
from tests.integration.trainers.trainer_runs import Run, run, run_so_far, small_config
from tests.unit.trainers.tasks import chats
from trainers.benchmarks.job import BenchmarkSampling
from trainers.benchmarks.sampler import ModelReader, ModelSampler
from trainers.config import TrainingConfig, with_params
from trainers.errors import OffPolicyError
from trainers.evaluation.evaluate import EvaluationResult
from trainers.losses import TokenBatch, next_weight
from trainers.losses.terms import next_coefficient
from trainers.policy.checkpoints import read_state
from trainers.policy.load_policy import load_tokenizer
from trainers.process.events import EventWriter
from trainers.rollouts.rollout import PromptStream
from trainers.training import policy_trainer, sampling_trainer
from trainers.training.policy_trainer import PolicyTrainer
from trainers.training.train import train

pytestmark = [pytest.mark.long, pytest.mark.wires]

EVALUATION = {"temperature": 0.6, "top_p": 0.9, "max_completion_tokens": 7, "probe_completions": 4}


def tiny(**changes: Any) -> TrainingConfig:
    evaluation = {f"evaluation.{name}": value for name, value in EVALUATION.items()}
    return TrainingConfig.model_validate(
        with_params(TRAINING, {"rollout.temperature": 0.8, "seed": 3, **evaluation, **changes})
    )


@pytest.fixture(scope="module")
def tiny_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return catalog(tmp_path_factory.mktemp("catalog"))


class Watched:
    """Calls of Transformers' `generate`: their settings, prompts and completions."""

    def __init__(self) -> None:
        self.calls = list[SimpleNamespace]()

    def of(self, temperature: float) -> list[SimpleNamespace]:
        return [call for call in self.calls if call.settings.temperature == temperature]

    def prompts(self, temperature: float) -> set[str]:
        return {prompt for call in self.of(temperature) for prompt in call.prompts}


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    seen, generate, tokenizer = Watched(), Qwen2ForCausalLM.generate, chats.base_tokenizer()

    def watch(self: Any, **kwargs: Any) -> Any:
        answer, settings = generate(self, **kwargs), kwargs["generation_config"]
        if not settings.output_logits:  # the check of log-probabilities at the start
            masks = zip(kwargs["input_ids"], kwargs["attention_mask"].bool(), strict=True)
            prompts = [tokenizer.decode(ids[mask]) for ids, mask in masks]
            ids = answer[:, kwargs["input_ids"].size(1) :]
            seen.calls.append(SimpleNamespace(settings=settings, prompts=prompts, ids=ids.tolist()))
        return answer

    monkeypatch.setattr(Qwen2ForCausalLM, "generate", watch)
    return seen


def test_trl_gets_the_tokenizer_that_asks_and_reads(
    tiny_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it, TRL would load one by the model's name, which has not been given an end token or padding."""
    loaded, given = list[object](), dict[str, Any]()

    def load(folder: Path) -> object:
        loaded.append(load_tokenizer(folder))
        return loaded[-1]

    def made(_: object, **arguments: Any) -> None:
        given.update(arguments)
        raise InterruptedError

    monkeypatch.setattr(sampling_trainer, "load_tokenizer", load)
    monkeypatch.setattr(GRPOTrainer, "__init__", made)
    with pytest.raises(InterruptedError):
        run(tiny(), tmp_path, tiny_cache)
    assert given["processing_class"] is loaded[-1]


def test_generation_gets_the_settings_of_training_and_of_evaluation(
    watched: Watched, tiny_cache: Path, tmp_path: Path
) -> None:
    run(tiny(), tmp_path, tiny_cache)
    asked = {
        (c.settings.temperature, c.settings.top_p, c.settings.top_k, c.settings.max_new_tokens, c.settings.do_sample)
        for c in watched.calls
    }
    assert asked == {(0.8, 1.0, 0, 4, True), (0.6, 0.9, 0, 7, True)}
    for call in watched.calls:
        settings = call.settings
        neutral = (settings.min_p, settings.typical_p, settings.repetition_penalty, settings.num_beams)
        assert set(neutral) <= {None, 1.0}


def test_more_than_fifty_tokens_can_be_drawn_in_one_place(watched: Watched, tiny_cache: Path, tmp_path: Path) -> None:
    params = {"rollout.completions_per_prompt": 64, "rollout.temperature": 5.0, "device_batch": 64}
    run(tiny(**params), tmp_path, tiny_cache)
    firsts: dict[str, set[int]] = {}
    for call in watched.of(5.0):
        for prompt, ids in zip(call.prompts, call.ids, strict=True):
            firsts.setdefault(prompt, set()).add(ids[0])
    assert max(map(len, firsts.values())) > 50


def test_training_and_frozen_completions_ask_training_problems_and_evaluation_all_others(
    watched: Watched, tiny_cache: Path, tmp_path: Path
) -> None:
    done = run(tiny(**{"rollout.prompts_per_rollout": 16, "rollout.prompts_per_minibatch": 8}), tmp_path, tiny_cache)
    (data,) = done.of("data")
    trained, evaluated = watched.prompts(0.8), watched.prompts(0.6)
    assert len(evaluated) == data["validation"]["problems"]
    assert not trained & evaluated
    assert {prompt.split("\n")[0] for prompt in trained | evaluated} <= set(QUESTIONS)
    assert {sample["prompt"] for event in done.of("samples") for sample in event["samples"]} <= evaluated


def test_a_run_reads_the_prompts_of_its_seed(tiny_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class SeenError(Exception):
        """Ends the run as soon as it is known which prompts it reads."""

    def see(_self: PromptStream, num_problems: int, seed: int, rank: int, processes: int) -> None:
        raise SeenError(num_problems, seed, rank, processes)

    monkeypatch.setattr(PromptStream, "__init__", see)
    with pytest.raises(SeenError) as seen:
        run(tiny(seed=5), tmp_path / "run", tiny_cache)
    assert seen.value.args[1:] == (5, 0, 1)


def test_seeds_draw_differently_from_the_same_prompts(
    watched: Watched, tiny_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, seeds = PromptStream.__init__, list[int]()

    def same_prompts(self: PromptStream, num_problems: int, seed: int, rank: int, processes: int) -> None:
        seeds.append(seed)
        begin(self, num_problems, 0, rank, processes)

    monkeypatch.setattr(PromptStream, "__init__", same_prompts)
    drawn = list[list[Any]]()
    for name, seed in (("one", 1), ("again", 1), ("two", 2)):
        watched.calls.clear()
        run(tiny(seed=seed), tmp_path / name, tiny_cache)
        drawn.append([(call.prompts, call.ids) for call in watched.of(0.8)])
    one, again, two = drawn
    assert seeds == [1, 1, 2]  # else each would read other prompts than its seed's
    assert one == again
    assert [prompts for prompts, _ in one] == [prompts for prompts, _ in two]
    assert [ids for _, ids in one] != [ids for _, ids in two]


@pytest.mark.parametrize("autocast", ["none", "bfloat16"])
def test_products_are_computed_in_the_type_that_is_configured(
    tiny_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autocast: str
) -> None:
    forward, types = Qwen2Model.forward, set[Any]()

    def watch(self: Any, *args: Any, **kwargs: Any) -> Any:
        if torch.is_grad_enabled():
            enabled = torch.is_autocast_enabled("cpu")
            types.add(torch.get_autocast_dtype("cpu") if enabled else "none")
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(Qwen2Model, "forward", watch)
    run(tiny(**{"compute.autocast": autocast}), tmp_path, tiny_cache)
    assert types == {"none" if autocast == "none" else torch.bfloat16}


@pytest.mark.parametrize("change", [{"evaluation.temperature": 0.7}, {"compute.autocast": "bfloat16"}])
def test_runs_that_evaluate_otherwise_share_no_initial_evaluation(
    watched: Watched, tmp_path: Path, change: dict[str, Any]
) -> None:
    cache = catalog(tmp_path)

    def kept() -> int:
        return len(list((cache / "evaluations").glob("*.json")))

    run(tiny(seed=1), tmp_path / "one", cache)
    assert kept() == 1
    run(tiny(seed=2, steps=2), tmp_path / "two", cache)
    assert kept() == 1  # neither seed nor steps matter
    run(tiny(**change), tmp_path / "three", cache)
    assert kept() == 2


def test_an_evaluation_depends_on_no_setting_of_training(cache: Path, tmp_path: Path) -> None:
    changes: list[dict[str, Any]] = [
        {"evaluation__max_completion_tokens": 12},
        {"rollout__prompts_per_rollout": 2, "rollout__prompts_per_minibatch": 1, "device_batch": 8},
        {"rollout__sampling_batch": 3, "rollout__temperature": 0.7, "device_batch": 4},
        {"rollout__max_completion_tokens": 6, "evaluation__max_completion_tokens": 12},
        {"seed": 5, "evaluation__every_steps": 2},
    ]
    scores = list[Any]()
    for number, change in enumerate(changes):
        for kept in cache.glob("evaluations/*.json"):
            kept.unlink()  # each evaluates for itself
        done = run(small_config(**{"steps": 4, **change}), tmp_path / f"{number}", cache)
        (first, *_) = done.of("evaluation")
        scores.append({name: value for name, value in first["metrics"].items() if not name.endswith("_s")})
        assert len(list(cache.glob("evaluations/*.json"))) == 1
    assert scores == [scores[0]] * len(changes)


ADAPTIVE = {"target": 1.6, "coefficient": 0.3, "delta": 0.02}


@pytest.fixture(scope="module")
def steered(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    config = small_config(steps=12, terms={"entropy_bonus": ADAPTIVE}, loss__schedule=[{"step": 5, "beta1": 0.25}])
    return run(config, tmp_path_factory.mktemp("steered"), cache)


def test_the_entropy_bonus_is_in_the_loss_with_the_recorded_coefficient(steered: Run) -> None:
    for metrics in steered.metrics():
        policy, penalty, entropy = (metrics[f"loss/{name}"] or 0.0 for name in ("policy", "penalty", "entropy"))
        coefficient = metrics["entropy_bonus/coefficient"] or 0.0
        assert entropy > 0.1
        assert coefficient > 0.01
        assert metrics["loss"] == pytest.approx(policy + penalty - coefficient * entropy, abs=1e-6)


def test_the_coefficient_follows_the_entropy_of_the_update_before(steered: Run) -> None:
    steps, bonus = steered.metrics(), small_config(terms={"entropy_bonus": ADAPTIVE}).terms.entropy_bonus
    assert steps[0]["entropy_bonus/coefficient"] == ADAPTIVE["coefficient"]
    for before, after in pairwise(steps):
        coefficient, entropy = before["entropy_bonus/coefficient"] or 0.0, before["entropy"] or 0.0
        assert after["entropy_bonus/coefficient"] == next_coefficient(coefficient, entropy, bonus)


def test_the_entropy_that_steers_is_that_of_the_update_and_not_of_the_rollout(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = list[float]()

    def watch(coefficient: float, entropy: float, bonus: Any) -> float:
        given.append(entropy)
        return next_coefficient(coefficient, entropy, bonus)

    monkeypatch.setattr(policy_trainer, "next_coefficient", watch)
    done = run(small_config(steps=8, terms={"entropy_bonus": ADAPTIVE}), tmp_path, cache)
    assert given == [metrics["entropy"] for metrics in done.metrics()]
    assert given != [metrics["entropy/old"] for metrics in done.metrics()]


def test_an_entropy_that_is_not_finite_leaves_the_coefficient(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reduced = policy_trainer.StepStats.reduced

    def without_entropy(self: Any, *args: Any) -> Any:
        return reduced(self, *args) | {"entropy": None}

    monkeypatch.setattr(policy_trainer.StepStats, "reduced", without_entropy)
    done = run(small_config(steps=8, terms={"entropy_bonus": ADAPTIVE}), tmp_path, cache)
    assert {metrics["entropy_bonus/coefficient"] for metrics in done.metrics()} == {ADAPTIVE["coefficient"]}


def test_the_positive_weight_follows_the_entropy_of_the_update_before_and_is_used(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used, objective = list[float](), policy_trainer.objective

    def watch(*args: Any, **kwargs: Any) -> Any:
        used.append(kwargs["positive_weight"])
        return objective(*args, **kwargs)

    monkeypatch.setattr(policy_trainer, "objective", watch)
    guided = {"weight": 0.5, "target": 1.6, "delta": 0.02}
    settings = small_config(steps=8, advantage={"positive_weight": guided})
    done, params = run(settings, tmp_path, cache), settings.advantage.positive_weight
    recorded = [metrics["schedule/positive_weight"] for metrics in done.metrics()]
    assert recorded[0] == 0.5
    assert recorded == used[:: len(used) // 8]
    assert len(set(recorded)) > 1
    for step, (before, after) in enumerate(pairwise(done.metrics()), start=1):
        weight = before["schedule/positive_weight"]
        assert after["schedule/positive_weight"] == next_weight(weight, step, before["entropy"], params)


def test_tokens_have_advantages_of_their_own_where_rewards_are_shared_out(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, objective = list[Any](), policy_trainer.objective

    def watch(batch: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(batch)
        return objective(batch, *args, **kwargs)

    monkeypatch.setattr(policy_trainer, "objective", watch)
    options = {"entropy_reward": {"level": "token"}, "entropy": {"alpha": 0.4}}
    done = run(small_config(steps=8, advantage=options), tmp_path, cache)
    assert done.outcome == "SUCCEEDED"
    rows = [
        (values_T[mask_T], active)
        for batch in seen
        for values_T, mask_T, active in zip(batch.advantages_BT, batch.mask_BT, batch.active_B, strict=True)
    ]
    assert any(len(values_N.unique()) > 1 for values_N, _ in rows)
    assert not any(values_N.any() for values_N, active in rows if not active)


def test_the_recorded_betas_are_those_of_the_update(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used, objective = list[tuple[float, float]](), policy_trainer.objective

    def watch(batch: Any, params: Any, *args: Any, **kwargs: Any) -> Any:
        used.append((params.beta1, params.beta2))
        return objective(batch, params, *args, **kwargs)

    monkeypatch.setattr(policy_trainer, "objective", watch)
    schedule = [{"step": 3, "beta1": 0.25}, {"step": 6, "beta2": 0.5}]
    done = run(small_config(steps=8, loss__schedule=schedule), tmp_path, cache)
    recorded = [(metrics["schedule/beta1"], metrics["schedule/beta2"]) for metrics in done.metrics()]
    assert recorded == used
    assert len({betas[0] for betas in used[:3]}) == 1
    assert (used[3][0], used[6][1]) == (0.25, 0.5)


class ShiftedTrainer(PolicyTrainer):
    """Its old log-probabilities are not those of the policy."""

    def _forward(self, rows: Any) -> tuple[Tensor, Tensor]:
        logprobs_BT, entropy_BT = super()._forward(rows)
        return logprobs_BT - (0.03 if "advantages" in rows else 0), entropy_BT


def test_a_rollout_whose_ratios_do_not_begin_at_one_ends_the_run(cache: Path, tmp_path: Path) -> None:
    with EventWriter(tmp_path / "events.jsonl") as events, pytest.raises(OffPolicyError, match=r"0\.03 nats a token"):
        train(small_config(), tmp_path, events, cache=cache, make=ShiftedTrainer)


@pytest.mark.parametrize(("other", "raises"), [(0.0, False), (0.03, True)])
def test_all_processes_end_when_one_finds_other_ratios(other: float, raises: bool) -> None:
    logprobs_BT = torch.zeros(1, 2)
    batch = TokenBatch(logprobs_BT, logprobs_BT, logprobs_BT, torch.ones(1, 2))
    gathered: Any = lambda gap: torch.cat([gap, torch.tensor([other])])  # noqa: E731
    trainer: Any = SimpleNamespace(_processes=2, accelerator=SimpleNamespace(gather=gathered))
    if raises:
        with pytest.raises(OffPolicyError):
            PolicyTrainer._check_on_policy(trainer, batch)
    else:
        PolicyTrainer._check_on_policy(trainer, batch)


def test_a_resumed_run_goes_on_with_the_sums_of_the_betas_warning(cache: Path, tmp_path: Path) -> None:
    config, output = small_config(steps=8), tmp_path / "stopped"
    run(config, output, cache, stopping=lambda: run_so_far(output).steps_done >= 3)
    saved = read_state(output / "step-4", config)["inert"]
    assert saved["all"] > 0
    resumed = list[dict[str, float]]()

    class Resumed(PolicyTrainer):
        def _restore(self, state: Any) -> None:
            super()._restore(state)
            resumed.append(dict(self._inert.sums))

    with EventWriter(tmp_path / "rest" / "events.jsonl") as events:
        train(config, tmp_path / "rest", events, cache=cache, resume_from=output / "step-4", make=Resumed)
    assert resumed == [saved]


class LevelTrainer(PolicyTrainer):
    """All its evaluations have the same score."""

    def evaluation_after(self, step: int) -> EvaluationResult:
        evaluation = super().evaluation_after(step)
        return evaluation._replace(metrics={**evaluation.metrics, "eval/avg_at_k": 0.5})


def test_the_best_weights_are_the_first_of_equals(cache: Path, tmp_path: Path) -> None:
    config = small_config(steps=12, evaluation__every_steps=4, keep_best=True)
    with EventWriter(tmp_path / "events.jsonl") as events:
        train(config, tmp_path, events, cache=cache, make=LevelTrainer)
    assert [event["step"] for event in run_so_far(tmp_path).of("best")] == [4]


def test_a_benchmark_draws_from_the_whole_vocabulary(tiny_cache: Path) -> None:
    folder = tiny_cache.parent / "tiny"
    sampler = ModelSampler(folder, "float32", lambda: False)
    sampling = BenchmarkSampling(
        samples=1,
        temperature=5.0,
        top_p=1.0,
        max_tokens=1,
        prompt_suffix="",
        chat=False,
        dtype="float32",
        reward="number",
        seed=0,
    )
    prompt = ModelReader(folder).prompt_ids("7+7", sampling)
    drawn = {completion.text for completion in sampler.sample([prompt] * 400, sampling, range(400))}
    assert len(drawn) > 50
