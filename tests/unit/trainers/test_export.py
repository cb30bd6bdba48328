"""The sampling settings of an exported model; whole exports are among the integration tests."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.trainers.tasks import chats
from tests.unit.trainers.training.bare_trainers import config
from trainers.export import _save_sampling

OWN = {"evaluation__temperature": 0.6, "evaluation__top_p": 0.95, "evaluation__max_completion_tokens": 7}
LLAMA = chats.llama_tokenizer()
BOS, END, PAD = LLAMA.bos_token_id, LLAMA.eos_token_id, LLAMA.pad_token_id


@pytest.mark.parametrize(
    ("settings", "of_model", "tokens", "ids"),
    [
        (OWN, {"bos_token_id": 3, "eos_token_id": [4, 5]}, 7, {"bos_token_id": 3, "eos_token_id": [END, 4, 5]}),
        (OWN, {"eos_token_id": [4, END]}, 7, {"bos_token_id": BOS, "eos_token_id": [4, END]}),
        (OWN | {"evaluation__max_completion_tokens": None}, {}, 11, {"bos_token_id": BOS, "eos_token_id": END}),
    ],
    ids=["both", "of the model", "of the tokenizer"],
)
def test_an_exported_model_samples_as_evaluations_do_and_ends_as_in_training(
    settings: dict[str, Any], of_model: dict[str, Any], tokens: int, ids: dict[str, Any], tmp_path: Path
) -> None:
    """The settings of evaluations and of rollouts differ in every value."""
    (tmp_path / "generation_config.json").write_text(json.dumps(of_model | {"temperature": 0.1, "top_k": 3}))
    training = config(**settings, rollout__temperature=0.8, rollout__max_completion_tokens=11)
    _save_sampling(training, tmp_path, LLAMA, tmp_path)
    saved = json.loads((tmp_path / "generation_config.json").read_text())
    del saved["transformers_version"]
    sampling = {"do_sample": True, "temperature": 0.6, "top_p": 0.95, "top_k": 0, "max_new_tokens": tokens}
    assert saved == {**sampling, "pad_token_id": PAD, **ids}
