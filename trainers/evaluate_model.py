"""Evaluates a model folder as a run evaluates its policy after its last step."""

import tempfile
from pathlib import Path

from transformers import TrainerCallback

from trainers.config import TrainingConfig
from trainers.evaluate import Evaluation
from trainers.model_folder import model_digest
from trainers.policy import load_tokenizer
from trainers.sampling_trainer import Folders, SamplingTrainer
from trainers.tasks import Task, make_task
from trainers.tasks.asked import Asked
from trainers.tasks.word_problems import WordProblems


def evaluate_model(config: TrainingConfig, folder: Path, cache: Path) -> Evaluation:
    """Sample and judge the validation problems of `config` with the model in a folder.

    The sampling is seeded as that of the run's last evaluation, so the weights that this evaluated give the same
    numbers on a CPU, with as many processes and threads. Also takes LoRA adapters whose base model is on this machine.

    Raises: ConfigError, if the folder holds no model, or one that does not fit the task.
    """
    model_digest(folder)
    alone = config.model_copy(
        update={
            "model": config.model.model_copy(update={"lora": None}),
            "compute": config.compute.model_copy(update={"sharding": "none"}),
        }
    )
    task: Task = make_task(config.task, cache)
    try:
        if isinstance(task, WordProblems):
            task = Asked(task, load_tokenizer(folder))
        with tempfile.TemporaryDirectory(prefix="evaluate-") as scratch:
            folders = Folders(folder, Path(scratch), cache)
            trainer = SamplingTrainer(alone, task, folders, lambda: False, TrainerCallback())
            if config.model.lora is None:  # in the precision of training, whose adapters sample without autocast
                trainer.accelerator.prepare_model(trainer.model, evaluation_mode=True)
            return trainer.evaluation_after(config.steps)
    finally:
        task.close()
