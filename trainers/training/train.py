"""One training run, from configuration to outcome."""

import os
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from trainers.config import TinyPolicy, TrainingConfig
from trainers.config.package_settings import extensible_names
from trainers.config.several_processes import sharing_refusals
from trainers.errors import ConfigError, DivergedError, StoppedError
from trainers.policy.checkpoints import UNFINISHED, read_state, refuse_later
from trainers.policy.load_policy import load_tokenizer, pretrained_folder
from trainers.policy.warm_start import warm_started
from trainers.process.device import device
from trainers.process.environment import HARDWARE, versions
from trainers.process.events import EventWriter
from trainers.process.parallel import process_state
from trainers.record.recorder import Outcome, Recorder
from trainers.tasks import Task, make_task
from trainers.tasks.prompted_problems import PromptedProblems, data_record
from trainers.tasks.word_problems import WordProblems
from trainers.training.policy_trainer import PolicyTrainer
from trainers.training.sampling_trainer import Folders

_LIBRARIES: Final = ("torch", "transformers", "trl")


def train(
    config: TrainingConfig,
    output: Path,
    events: EventWriter,
    *,
    cache: Path,
    resume_from: Path | None = None,
    stopping: Callable[[], bool] = lambda: False,
    model_only: bool = False,
    keep_models: Collection[int] = (),
    make: Callable[..., PolicyTrainer] = PolicyTrainer,
) -> Outcome:
    """Train the policy that `config` describes; on a CPU the same arguments give the same weights.

    Several processes started together (torchrun, accelerate) share one run: the same prompts, split between them.

    Args:
        output: folder for the checkpoints `step-N`.
        events: gets the run's record; in all processes but the first it must keep nothing.
        cache: folder of models, data and first evaluations, shared between runs.
        resume_from: checkpoint of the same configuration to continue from.
        stopping: polled; once it is true the run saves after the present update, or the state before the present
            sampling, and ends.
        model_only: keep nothing but the model of the last step: no optimizer, no older checkpoints.
        keep_models: numbers of updates after which the model alone is kept as `model-N`.
        make: makes the trainer; takes PolicyTrainer's arguments.
    Raises: CheckpointError, if `resume_from` cannot be continued, or not in `output`; ConfigError, if the configuration
        does not fit the model, data, machine or number of processes.
    """
    if refusals := sharing_refusals(config, process_state().num_processes):  # before minutes of warm start
        raise ConfigError(*(refusal.reason for refusal in refusals))
    state = {} if resume_from is None else read_state(resume_from, config)
    first_step = int(state.get("step", 0))
    if resume_from is not None:
        refuse_later(output, resume_from, first_step)
    # of packages that bring the loss or a reward: each with the start of its code's digest
    packages = {name: text for kind, called in extensible_names(config) for name, text in kind.versions(called).items()}
    events.write(
        "started",
        config=config.model_dump(mode="json"),
        versions={HARDWARE: device()[0]} | versions(_LIBRARIES) | packages,
        resumed_from_step=None if resume_from is None else first_step,
        pid=os.getpid(),
    )
    recorder = Recorder(events, config.steps, first_step, state)
    if state.get("model_only"):  # the run was complete, but killed before it could record that
        recorder.finished("SUCCEEDED", first_step)
        return "SUCCEEDED"
    task: Task = make_task(config.task, cache)
    message: str | None = None
    try:
        if process_state().is_main_process:
            shutil.rmtree(output / UNFINISHED, ignore_errors=True)  # left by a process that was killed while saving
        with process_state().main_process_first():  # only the first of several processes can save a model
            if isinstance(config.model, TinyPolicy):
                model = warm_started(config.model, task, cache, events, stopping)
            else:
                model = pretrained_folder(config.model, cache)
        if isinstance(task, WordProblems):
            task = PromptedProblems(task, load_tokenizer(model))
            if (warning := task.warning()) and process_state().is_main_process:
                events.write("warning", step=first_step, **warning)
        events.write("data", **data_record(task).model_dump(mode="json"))
        folders = Folders(model, output, cache)
        trainer = make(config, task, folders, recorder, stopping, state, model_only=model_only, keep_models=keep_models)
        trainer.run(resume_from)
        process_state().wait_for_everyone()  # so that none has ended while the first still saves
        step = trainer.state.global_step
        outcome: Outcome = "SUCCEEDED" if step == config.steps and not trainer.interrupted else "STOPPED"
    except StoppedError:
        step, outcome = first_step, "STOPPED"
    except DivergedError as error:
        step, outcome, message = error.last_good_step, "DIVERGED", str(error)
    finally:
        task.close()
    if process_state().is_main_process:
        shutil.rmtree(output / UNFINISHED, ignore_errors=True)
        recorder.finished(outcome, step, message)
    return outcome
