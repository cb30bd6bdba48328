"""Command line: one training run, or instead a preview, cost probe, evaluation or measurement.

python -m trainers CONFIG.yaml [dotted=value ...]
"""

import argparse
import gc
import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from pydantic import ValidationError

from trainers.benchmarks.measure_request import read_request
from trainers.config import TrainingConfig, with_params
from trainers.config.complaints import complaints, settings_of
from trainers.config.package_settings import with_package_loss
from trainers.errors import CheckpointError, ConfigError
from trainers.extensions import require_packages
from trainers.policy.checkpoints import newest
from trainers.printable import printable
from trainers.process.environment import ENVIRONMENT, EXIT_CODES, UMASK, default_cache
from trainers.process.events import EVENTS_FILE, EventWriter, NoEvents, append_event, read_events
from trainers.process.imports import without_collections
from trainers.process.launch import launch
from trainers.process.lifeline import StopSignal, follow_parent
from trainers.process.machine_faults import machine_fault
from trainers.rollouts.rollout_server import hide_server_gpus
from trainers.training.out_of_memory import OUT_OF_MEMORY, is_out_of_memory, message, phase_of
from trainers.yaml_text import YamlError, read_yaml, read_yaml_file

Work = Callable[..., str]
"""Takes `events` and `stopping`, and returns the outcome, a key of `EXIT_CODES`."""

_ANOTHERS_END_S: Final = 1.0
_GOES_ON: Final = "the same command goes on, of a training with --resume"
_EPILOG: Final = """\
what a run writes, below DIR:
  events.jsonl  one JSON object a line: started, progress, data, step, samples,
                evaluation, checkpoint, finished, failed; with --probe: cost;
                with --measure: benchmark
  step-N/       the newest checkpoints: a Hugging Face model (or LoRA adapter)
                with all that is needed to go on exactly
  best-N/       with keep_best=true: the model of the best evaluation so far
  model-N/      with --keep-models: the model after N updates, which stays

exit codes:
  0 finished   1 unexpected error   2 bad configuration   3 diverged
  4 stopped by a signal, after a checkpoint
  5 the owner named by --parent-fd is gone
  6 the machine failed: a full disk, too many open files
  130 interrupted a second time

examples; an empty run.yaml is the default run:
  python -m trainers run.yaml loss.beta1=0.3 seed=7
  python -m trainers run.yaml loss.name=grpo --output runs/ppo
  python -m trainers run.yaml --resume           # start, or go on
  python -m trainers run.yaml --resume-from runs/run/step-240 --output runs/2
  python -m trainers run.yaml --preview          # three prompts; no weights
  python -m trainers run.yaml --probe --output runs/probe      # its cost
  python -m trainers run.yaml --evaluate runs/run/step-480     # as at its end
  python -m trainers run.yaml --processes 2      # one policy, each on its GPU
  python -m trainers run.yaml --measure request.json --output measured/run
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    os.umask(UMASK)
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except Exception as error:
        if (fault := machine_fault(error)) is None:
            if isinstance(error, ConfigError):
                return _refused(str(error))
            raise
        try:
            traceback.print_exception(error)
            sys.stderr.write(f"this machine failed: {fault}\n{_GOES_ON}, once the machine is well again\n")
            sys.stderr.flush()
        except OSError:  # of what is left in it Python would complain at its end, with an exit code of its own
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
        return EXIT_CODES["MACHINE_FAULT"]


def _run(arguments: Sequence[str]) -> int:
    options = _parser().parse_intermixed_args(arguments)
    output: Path = options.output or Path("runs") / options.config.stem
    if options.parent_fd is not None:
        with _usable(f"--parent-fd {options.parent_fd}"):
            follow_parent(options.parent_fd)
    if options.measure is not None:
        return _measure(options, output)
    if options.processes < 1 or (options.processes > 1 and "RANK" in os.environ):
        raise ConfigError(
            f"--processes {options.processes}: give 1 or more, and none below torchrun, which starts its own"
        )
    if options.processes > 1:
        return launch(arguments, options.processes)
    if options.evaluate is not None:
        return _evaluate(options)
    if options.preview:
        return _preview(options)
    begins = options.resume_from is None and not options.resume
    with _usable(f"--output {output}"):
        if options.output is not None:
            output.mkdir(parents=True, exist_ok=True)
        if begins and _first_process():
            if _holds_run(output):  # we must not write into its record
                raise ConfigError(f"--output: {output} already holds a run; continue it with --resume, or name another")
            (output / EVENTS_FILE).unlink(missing_ok=True)
    with _usable(f"--cache {options.cache}"):
        options.cache.mkdir(parents=True, exist_ok=True)
    with _recorded_refusal(output if options.output is not None and _first_process() else None):
        require_packages(options.needs)
        config = load_config(options.config, options.setting)
        keep_models = _steps(options.keep_models, config)
    code = _recorded(config, output, partial(_training, config, options, output, keep_models))
    if options.probe and code == EXIT_CODES["SUCCEEDED"] and _first_process():
        figures = next(event["figures"] for event in read_events(output / EVENTS_FILE) if event["type"] == "cost")
        sys.stdout.write("".join(f"{name:24} {value}\n" for name, value in figures.items()))
    return code


def _refused(message: str) -> int:
    sys.stderr.write(f"{message}\n")
    return EXIT_CODES["BAD_CONFIG"]


@contextmanager
def _usable(what: str) -> Generator[None]:
    """Refuse an option whose file or folder the block cannot use. Raises: ConfigError."""
    try:
        yield
    except OSError as error:
        if machine_fault(error):
            raise
        raise ConfigError(f"{what} cannot be used: {error}") from error


@contextmanager
def _recorded_refusal(output: Path | None) -> Generator[None]:
    """Write into the record, if there is one in `output`, that the block refused the configuration."""
    try:
        yield
    except ConfigError as error:
        if output is not None and not machine_fault(error):
            with EventWriter(output / EVENTS_FILE) as events:
                events.write("failed", code="BAD_CONFIG", message=str(error))
        raise


def _holds_run(output: Path) -> bool:
    """Say whether this folder holds a run, other than one that was refused before its first update."""
    lines = _record(output)
    refused = bool(lines) and '"code":"BAD_CONFIG"' in lines[-1]
    return bool(lines) and (not refused or _trained(output))


def _trained(output: Path) -> bool:
    """Say whether this folder holds a run that has made an update."""
    return newest(output) is not None or any('"type":"step"' in line for line in _record(output))


def _record(output: Path) -> list[str]:
    try:
        return (output / EVENTS_FILE).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []


def load_config(file: Path, settings: Sequence[str]) -> TrainingConfig:
    """Read a configuration and apply `dotted=value` settings, whose values are YAML.

    Raises: ConfigError, naming everything that is wrong.
    """
    try:
        content: Any = read_yaml_file(file) or {}
    except YamlError as error:
        raise ConfigError(str(error)) from error
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"{file}: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{file}: expected settings as `name: value`, found {type(content).__name__}")
    try:
        raw = with_params(cast("dict[str, Any]", content), _params(settings))
    except ValueError as error:
        raise ConfigError(str(error)) from error
    try:
        return TrainingConfig.model_validate(raw)
    except ValidationError as error:
        problems = complaints(error, raw, with_package_loss(settings_of(TrainingConfig), raw))
        sentences = (f"{'.'.join(map(str, one.path)) or 'configuration'}: {one.sentence}" for one in problems)
        raise ConfigError(*sentences) from error


def _params(settings: Sequence[str]) -> dict[str, Any]:
    params: dict[str, Any] = {}
    problems: list[str] = []
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not all(part.isidentifier() for part in name.split(".")):
            problems.append(f"{setting}: expected dotted=value, such as loss.beta1=0.3")
            continue
        if name in params:
            problems.append(f"{setting}: {name} is set twice; set it once")
        try:
            params[name] = read_yaml(value, setting)
        except YamlError as error:
            problems.append(str(error))
    if problems:
        raise ConfigError(*problems)
    return params


def _prepare_imports() -> None:
    os.environ.update(ENVIRONMENT)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # more gain a small policy nothing and cost its neighbours
    # TRL 1.16 uses names that transformers changed
    warnings.filterwarnings("ignore", message=r"`\w*gradient_checkpointing\w*` is", category=FutureWarning)


def _preview(options: argparse.Namespace) -> int:
    """Print the prompts that a run would read; with --json, also what is wrong with the run."""
    _prepare_imports()
    from trainers.training.preview import preview, text

    try:
        with redirect_stdout(sys.stderr):  # which code of rewards may print to
            shown = preview(load_config(options.config, options.setting), options.cache)
    except ConfigError as error:
        if options.json:
            sys.stdout.write(json.dumps({"problems": error.problems}) + "\n")
        return _refused(str(error))
    sys.stdout.write(shown.model_dump_json() + "\n" if options.json else printable(text(shown)))
    return EXIT_CODES["SUCCEEDED"]


def _evaluate(options: argparse.Namespace) -> int:
    """Print the metrics of a model folder."""
    try:
        config = load_config(options.config, options.setting)
        _prepare_imports()
        from transformers.utils import logging

        from trainers.training.evaluate_model import evaluate_model

        logging.disable_progress_bar()
        evaluation = evaluate_model(config, options.evaluate, options.cache)
    except (CheckpointError, ConfigError) as error:
        return _refused(str(error))
    if _first_process():
        facts = {"model": str(options.evaluate), "seed": config.seed, "step": config.steps}
        lines = [f"{name:24} {value}" for name, value in {**facts, **evaluation.metrics}.items()]
        sys.stdout.write(json.dumps({**facts, "metrics": evaluation.metrics}) if options.json else "\n".join(lines))
        sys.stdout.write("\n")
    return EXIT_CODES["SUCCEEDED"]


def _measure(options: argparse.Namespace, output: Path) -> int:
    """Measure a model on benchmarks; the record of an earlier attempt goes on."""
    if options.processes != 1 or "RANK" in os.environ:
        raise ConfigError(
            "--measure: one process measures a model; leave out --processes, and start it without torchrun"
        )
    with _usable(f"--output {output} or --cache {options.cache}"):
        output.mkdir(parents=True, exist_ok=True)
        if _trained(output):
            raise ConfigError(f"--output: {output} holds a training run; name another folder")
        options.cache.mkdir(parents=True, exist_ok=True)
    with _recorded_refusal(output):
        require_packages(options.needs)
        config, request = load_config(options.config, options.setting), read_request(options.measure)

    def measuring() -> Work:
        from trainers.benchmarks.measure import measure_model

        return partial(measure_model, config, request, output, cache=options.cache)

    return _recorded(config, output, measuring)


def _steps(text: str, config: TrainingConfig) -> list[int]:
    """Read the steps of --keep-models. Raises: ConfigError."""
    words = text.split(",") if text else []
    if wrong := [word for word in words if not word.isdecimal() or not 1 <= int(word) <= config.steps]:
        raise ConfigError(
            f"--keep-models {text}: {', '.join(map(repr, wrong))} is not a number of updates from 1 to the run's "
            f"{config.steps} steps; give such numbers with commas between them"
        )
    return [int(word) for word in words]


def _training(config: TrainingConfig, options: argparse.Namespace, output: Path, keep_models: list[int]) -> Work:
    hide_server_gpus(config.rollout.engine)
    from trainers.cost.cost_probe import measure_cost
    from trainers.training.train import train

    if options.probe:
        return partial(measure_cost, config, output, cache=options.cache)
    resume_from = newest(output) if options.resume else options.resume_from
    return partial(
        train,
        config,
        output,
        cache=options.cache,
        resume_from=resume_from,
        model_only=options.model_only_at_end,
        keep_models=keep_models,
    )


def _recorded(config: TrainingConfig, output: Path, imported: Callable[[], Work]) -> int:
    """Do work with a record, which gets its end, too; return the exit code.

    Args:
        imported: imports torch, transformers and trl, which takes seconds, and returns the work.
    """
    stop = StopSignal()
    _prepare_imports()
    with EventWriter(output / EVENTS_FILE) if _first_process() else NoEvents() as events:
        try:
            with without_collections():
                work = imported()
                from transformers.utils import logging

            logging.disable_progress_bar()
            gc.freeze()  # what was imported stays; collections during training need not look at it
            outcome = work(events=events, stopping=lambda: stop.requested)
        except Exception as error:
            if fault := machine_fault(error):
                with suppress(OSError):  # after all that could not be written before, if it can be now
                    events.write("failed", code="MACHINE_FAULT", message=fault)
                raise
            if isinstance(error, CheckpointError | ConfigError):
                events.write("failed", code="BAD_CONFIG", message=str(error))
                return _refused(str(error))
            if is_out_of_memory(error):  # each process records its own, since the others only see it end
                advice = message(phase_of(error), config, str(error))
                append_event(output / EVENTS_FILE, "failed", code=OUT_OF_MEMORY, message=advice)
                traceback.print_exc()
                return EXIT_CODES["FAILED"]
            if "RANK" in os.environ:
                if stop.requested:  # another has stopped first, and this is how we hear of it
                    return EXIT_CODES["STOPPED"]
                time.sleep(_ANOTHERS_END_S)  # if it follows from another's end, whoever started both now ends this one
            events.write("failed", code="FAILED", message=f"{type(error).__name__}: {error}")
            traceback.print_exc()
            return EXIT_CODES["FAILED"]
    if outcome == "STOPPED" and _first_process():
        sys.stderr.write(f"\nstopped by a signal; {_GOES_ON}\n")
    return EXIT_CODES[outcome]


def _first_process() -> bool:
    """Tell whether this process is the one that keeps the record, of those that train together."""
    return os.environ.get("RANK", "0") == "0"


def _parser() -> argparse.ArgumentParser:
    cache = default_cache()
    parser = argparse.ArgumentParser(
        "python -m trainers",
        description="Train one policy with reinforcement learning, as a YAML file describes.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("config", type=Path, metavar="CONFIG.yaml", help="the run; what it does not name has a default")
    parser.add_argument("setting", nargs="*", metavar="dotted=value", help="overrides, read as YAML")
    parser.add_argument("--output", type=Path, metavar="DIR", help="where the run is written (default: runs/CONFIG)")
    resuming = parser.add_mutually_exclusive_group()
    resuming.add_argument("--resume", action="store_true", help="go on from the newest checkpoint in --output, if any")
    resuming.add_argument(
        "--probe", action="store_true", help="cost probe: measure time and memory of three updates; keep no model"
    )
    resuming.add_argument(
        "--measure", type=Path, metavar="REQUEST.json", help="train nothing; measure a model on benchmarks, resumable"
    )
    resuming.add_argument("--resume-from", type=Path, metavar="CHECKPOINT", help="continue from this step-N folder")
    parser.add_argument(
        "--model-only-at-end", action="store_true", help="keep of the last step its model alone, without optimizer"
    )
    parser.add_argument(
        "--keep-models", default="", metavar="N[,N]", help="keep the model alone after these updates, too, as model-N"
    )
    parser.add_argument(
        "--evaluate", type=Path, metavar="FOLDER", help="train nothing; print how this model does after the last step"
    )
    parser.add_argument(
        "--preview", action="store_true", help="train nothing; print three prompts as read, and what data is left out"
    )
    parser.add_argument("--json", action="store_true", help="with --evaluate or --preview: print JSON")
    parser.add_argument("--cache", type=Path, default=cache, metavar="DIR", help=f"models, data ({cache})")
    parser.add_argument(
        "--processes", type=int, default=1, metavar="N", help="processes that train the policy together"
    )
    parser.add_argument(
        "--needs",
        action="append",
        default=[],
        metavar="NAME==VERSION",
        help="end at once if this package is missing here",
    )
    parser.add_argument("--parent-fd", type=int, metavar="N", help="exit when this inherited pipe reaches its end")
    return parser
