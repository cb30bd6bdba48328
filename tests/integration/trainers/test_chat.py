"""Chat models: their turns end completions in training, and the plan shows what they are asked."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from sweep_service.cli.sweep_print import print_plan
from sweep_service.errors import InvalidSpec
from sweep_service.service import SweepService
from sweep_service.settings import Settings
from sweep_service.store import open_store
from sweep_service.sweep.plan import SweepPlan
from tests.integration.trainers.chat_models import add_chat_model, add_sums
from tests.integration.trainers.trainer_runs import Run, run
from tests.unit.trainers.tasks import chats
from trainers.config import TrainingConfig
from trainers.training.sampling_trainer import SamplingTrainer

pytestmark = pytest.mark.usefixtures("_forked_previews")

DATA = {"ref": "sums", "prompt": "question", "answer_after": "####", "template": "chat"}
TRAINING: dict[str, Any] = {
    "task": {"name": "word_problems", "data": DATA, "reward": "number"},
    "model": {"name": "pretrained", "model": "qwen"},
    "loss": {"name": "ce_gppo"},
    "rollout": {
        "prompts_per_rollout": 4,
        "completions_per_prompt": 4,
        "prompts_per_minibatch": 2,
        "max_completion_tokens": 4,
    },
    "evaluation": {"every_steps": 2, "samples_per_problem": 4, "pass_k": 2, "shown_samples": 16},
    "device_batch": 8,
    "steps": 2,
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cache = tmp_path_factory.mktemp("cache")
    add_chat_model(cache, "qwen", chats.chatml_tokenizer(), "<|im_end|>")
    add_chat_model(cache, "llama", chats.llama_tokenizer(), "<|eot_id|>")
    add_chat_model(cache, "base", chats.base_tokenizer(), "<|endoftext|>")
    add_sums(cache)
    return cache


def trained(output: Path, cache: Path, model: str) -> tuple[Run, list[dict[str, torch.Tensor]]]:
    """A run, and the tensors of its rollouts."""
    rollouts, forward = list[dict[str, torch.Tensor]](), SamplingTrainer._forward
    with pytest.MonkeyPatch.context() as patch:

        def seen(self: SamplingTrainer, rows: Any) -> Any:
            if "advantages" in rows:
                rollouts.append(dict(rows))
            return forward(self, rows)

        patch.setattr(SamplingTrainer, "_forward", seen)
        config = TrainingConfig.model_validate(TRAINING | {"model": {"name": "pretrained", "model": model}})
        return run(config, output, cache), rollouts


@pytest.mark.parametrize(
    ("name", "tokenizer", "end"),
    [("qwen", chats.chatml_tokenizer(), "<|im_end|>"), ("llama", chats.llama_tokenizer(), "<|eot_id|>")],
)
def test_a_completion_ends_with_the_turn(
    tmp_path: Path, cache: Path, name: str, tokenizer: PreTrainedTokenizerFast, end: str
) -> None:
    done, rollouts = trained(tmp_path, cache, name)
    assert done.outcome == "SUCCEEDED"
    evaluation = done.of("evaluation")[-1]["metrics"]
    assert 0 < evaluation["eval/truncated_share"] < 0.8
    written = [sample["completion"] for event in done.of("samples") for sample in event["samples"]]
    assert any(written)
    assert all(set(text) <= set("123") for text in written)  # the end of the turn is not part of the answer
    ids, mask = rollouts[0]["completion_ids"], rollouts[0]["completion_mask"].bool()
    stop = tokenizer.convert_tokens_to_ids(end)
    for row, kept in zip(ids, mask, strict=True):
        places = (row == stop).nonzero().flatten().tolist()
        assert kept.sum() == (places[0] + 1 if places else len(row))  # the end token is trained, what follows is not
        assert (row[~kept] == tokenizer.pad_token_id).all()
    begin = tokenizer.bos_token_id
    prompts, masks = rollouts[0]["prompt_ids"], rollouts[0]["prompt_mask"].bool()
    if begin is not None:
        assert all(
            (row[kept] == begin).sum() == 1 == (row[kept][:1] == begin).sum()
            for row, kept in zip(prompts, masks, strict=True)
        )


def test_a_run_records_its_data_before_its_first_step(tmp_path: Path, cache: Path) -> None:
    kinds = [event["type"] for event in trained(tmp_path, cache, "qwen")[0].events]
    assert kinds.index("data") < kinds.index("evaluation") < kinds.index("step")


def spec(**task: Any) -> dict[str, Any]:
    training = TRAINING | {"task": {**TRAINING["task"], **task}}
    return {
        "name": "own",
        "training": training,
        "space": {"loss.beta1": [0, 0.5]},
        "search": {"strategy": "grid"},
        "seeds": {"tune": [0, 1]},
    }


def plan(tmp_path: Path, cache: Path, raw: dict[str, Any]) -> SweepPlan:
    settings = Settings.model_validate({"home": tmp_path, "cache": cache})
    store = open_store(settings.database_url)
    try:
        return SweepService(store, settings).plan(raw)
    finally:
        store.close()


def test_the_plan_shows_three_prompts_and_the_counted_data(
    tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = plan(tmp_path, cache, spec())
    assert [prompt.tokens for prompt in found.prompts] == sorted(prompt.tokens for prompt in found.prompts)
    assert found.prompts[0].text == (
        "<|im_start|>system\nBe helpful.<|im_end|>\n<|im_start|>user\nWhat is 0 modulo 3, plus 1?\n"
        "Put the final answer in \\boxed{}.\n<|im_end|>\n<|im_start|>assistant\n"
    )
    assert (len(found.prompts), found.prompts[0].answer) == (3, "1")
    assert found.data is not None
    assert (found.data.training.problems, found.data.validation.problems) == (36, 4)
    print_plan(found)
    shown = capsys.readouterr().out
    assert "36 problems to train on, 4 to validate on" in shown
    assert "   | <|im_start|>user\n" in shown


@pytest.mark.long
def test_the_plan_warns_of_a_chat_model_asked_in_plain_text_and_of_answers_that_are_none(
    tmp_path: Path, cache: Path
) -> None:
    short = len("What is 0 modulo 3, plus 1?\nPut the final answer in \\boxed{}.\n")
    data = {"ref": "sums", "prompt": "question", "answer": "hint"}
    warnings = " ".join(plan(tmp_path, cache, spec(data=data, reward="exact", max_prompt_tokens=short)).warnings)
    assert "has a chat template and task.data.template is raw" in warnings
    assert (
        "of 9 answers tried in a box 9 are not right by the reward exact, such as 'look {': see task.data.answer"
        in warnings
    )
    assert "30 of 40 problems are left out: their prompts are longer than task.max_prompt_tokens" in warnings


@pytest.mark.parametrize(
    ("change", "pointer", "detail"),
    [
        ({"model": {"name": "pretrained", "model": "base"}}, "/training/task/data/template", "has no chat template"),
        (
            {"task": {**TRAINING["task"], "data": {**DATA, "answer_after": None}}},
            "/training/task/reward",
            "is not one number",
        ),
        (
            {
                "model": {"name": "tiny_qwen2"},
                "task": {**TRAINING["task"], "data": {**DATA, "answer_after": None, "template": "raw"}},
            },
            "/training/task/reward",
            "is not one number",
        ),
    ],
    ids=["template", "answers", "answers, from scratch"],
)
def test_what_the_trainer_would_refuse_is_refused_in_the_plan(
    tmp_path: Path, cache: Path, change: dict[str, Any], pointer: str, detail: str
) -> None:
    raw = spec()
    for part, settings in change.items():
        raw["training"] = {**raw["training"], part: settings}
    with pytest.raises(InvalidSpec) as refusal:
        plan(tmp_path, cache, raw)
    assert {error.pointer for error in refusal.value.errors} == {pointer}
    assert detail in refusal.value.errors[0].detail
