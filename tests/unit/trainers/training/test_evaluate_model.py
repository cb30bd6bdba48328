"""A finished model is evaluated as its run evaluated its last step."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.trainers.training.bare_trainers import config
from trainers.config import TrainingConfig
from trainers.evaluation.evaluate import EvaluationResult
from trainers.evaluation.problem_counts import ProblemCounts
from trainers.training import evaluate_model as module
from trainers.training.evaluate_model import evaluate_model
from trainers.training.sampling_trainer import Folders

SCORE = EvaluationResult({"eval/avg_at_k": 0.5}, [], ProblemCounts([], [], []))


class Told:
    """Stands for the class of trainers; writes down with what one is made and what it is told."""

    def __init__(self) -> None:
        self.settings, self.folder, self.told = TrainingConfig(), Path(), list[str]()
        self.model, self.accelerator = "the model", SimpleNamespace(prepare_model=self._prepare)

    def __call__(self, settings: TrainingConfig, _task: Any, folders: Folders, *_: Any) -> "Told":
        self.settings, self.folder = settings, folders.model
        return self

    def _prepare(self, model: str, *, evaluation_mode: bool) -> None:
        self.told.append(f"prepare {model}, {evaluation_mode}")

    def evaluation_after(self, step: int) -> EvaluationResult:
        self.told.append(f"evaluate as after {step}")
        return SCORE


@pytest.fixture
def trainer(monkeypatch: pytest.MonkeyPatch) -> Told:
    told = Told()
    monkeypatch.setattr(module, "SamplingTrainer", told)
    monkeypatch.setattr(module, "model_digest", str)
    return told


def test_a_whole_model_is_prepared_as_in_training_so_that_it_samples_in_that_precision(trainer: Told) -> None:
    settings = config(steps=16)
    assert evaluate_model(settings, Path("folder"), Path("cache")) is SCORE
    assert (trainer.settings, trainer.folder) == (settings, Path("folder"))
    assert trainer.told == ["prepare the model, True", "evaluate as after 16"]


def test_adapters_are_not_prepared_and_no_new_ones_made(trainer: Told) -> None:
    model = {"name": "pretrained", "model": "acme"}
    evaluate_model(config(steps=16, model={**model, "lora": {}}), Path("folder"), Path("cache"))
    assert trainer.settings == config(steps=16, model=model)
    assert trainer.told == ["evaluate as after 16"]
