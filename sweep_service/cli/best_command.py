"""The command `best`: prints the best config, or exports its policy as a model folder with the evidence beside it."""

import json
import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import trainers
from sweep_service.cli.arguments import Json, Which, connect
from sweep_service.cli.output import plural, print_data, print_json, say, stderr
from sweep_service.cli.winner import verdict_line
from sweep_service.client import Client
from sweep_service.errors import NotReady, ServiceError
from sweep_service.processes.child_processes import LIFELINE, run_to_end
from sweep_service.schemas import TrialView
from sweep_service.settings import Settings
from sweep_service.sweep.records import Stage, TrialState
from trainers.catalog.entries import ModelEntry, read_entry
from trainers.config import TrainingConfig
from trainers.errors import ConfigError
from trainers.process.durable import move_whole, write_whole

Weights = Literal["float32", "bfloat16"]
_EVALUATION = "eval/avg_at_k"


def best(
    sweep: Which = None,
    export: Annotated[
        Path | None, typer.Option("--export", metavar="DIR", help="Write the policy as a Hugging Face model folder.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", help="With --export: take the trial of this seed. Default: the one with the median objective."
        ),
    ] = None,
    dtype: Annotated[Weights, typer.Option("--dtype", help="With --export: the type of the weights.")] = "float32",
    adapter: Annotated[
        bool,
        typer.Option("--adapter", help="With --export: write the LoRA adapters alone, not merged into their base."),
    ] = False,
    json: Json = False,
) -> None:
    """Print the best config as YAML, ready to run, with its verdict; or export its policy.

    [bold]sweeps best demo > best.yaml && python -m trainers best.yaml --output run[/bold]
    [bold]sweeps best demo --export model[/bold]
    """
    if export is None and (seed is not None or adapter or dtype != "float32"):
        raise typer.BadParameter("--seed, --dtype and --adapter choose what --export writes; give --export DIR, too")
    with connect() as client:
        sweep_id = client.find_sweep(sweep)
        if export is not None:
            path = _export_best(client, sweep_id, export, seed=seed, weights=dtype, adapter=adapter)
            print_json({"folder": str(path)}) if json else print_data(str(path))
        elif json:
            print_json(client.best(sweep_id))
        else:
            print_data(client.best_yaml(sweep_id))
            if not sys.stdout.isatty():  # whoever looks at a terminal would not see the file's comment
                stderr().print(verdict_line(client.best(sweep_id)))


def _export_best(
    client: Client, sweep_id: str, target: Path, *, seed: int | None, weights: Weights, adapter: bool
) -> Path:
    """Write the policy of one trial of the report's best config; return its folder, which is complete or absent.

    Raises: NotReady, while there is no final report; ServiceError, if it cannot be exported.
    """
    from sweep_service.report.model import Report  # brings the report's parts
    from sweep_service.report.parts.best_config import FILE_NAME
    from sweep_service.report.render.model_card import Exported, model_card, trial_yaml

    target = target.expanduser().absolute()
    if target.exists():
        raise ServiceError(f"{target} exists already; name a folder that does not exist yet")
    if not target.parent.is_dir():
        raise ServiceError(f"{target.parent} is not a directory; make it first")
    report = Report.model_validate_json(client.report(sweep_id, "json", timeout_s=30))
    if report.best is None:
        raise NotReady(f"no config of sweep {sweep_id} has a result, so there is nothing to export")
    if (trainer := client.get(sweep_id).spec.trainer) is not None:
        program = shlex.join(trainer.command)
        places = ", ".join(checkpoint.path for checkpoint in report.best.checkpoints) or "none was recorded"
        raise ServiceError(f"{program} trained this sweep, and only it can read its checkpoints: {places}")
    best, stage = report.best, Stage.CONFIRM if report.best.seeds else Stage.TUNE
    trials = [trial for trial in client.trials(sweep_id) if (trial.config_id, trial.stage) == (best.config_id, stage)]
    trial, why = choose_trial(trials, seed)
    say(f"{best.label}, {stage} trial {trial.id} with seed {trial.seed}. {why}\n{report.verdict.sentence}")
    checkpoint = _reachable(trial)
    training = next(config.training for config in client.configs(sweep_id) if config.id == best.config_id)
    processes = client.get(sweep_id).spec.resources.processes_for(TrainingConfig.model_validate(training))
    (curve,) = client.curves(sweep_id, [_EVALUATION], [trial.id], last=1)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-", ignore_cleanup_errors=True) as near:
        folder = Path(near) / "model"
        facts = _export(checkpoint, folder, weights, adapter=adapter)
        exported = Exported(trial, trial.objective, why, training, curve.values[-1], facts, processes, _base(training))
        write_whole(folder / FILE_NAME, trial_yaml(report, best, exported))
        write_whole(folder / "README.md", model_card(report, best, exported))
        move_whole(folder, target)
    size = f"{facts['parameters']:,} parameters in {facts['dtype']}, {facts['bytes'] / 2**20:,.1f} MiB"
    say(f"{size}; README.md in it holds the evidence")
    return target


def choose_trial(trials: Sequence[TrialView], seed: int | None) -> tuple[TrialView, str]:
    """Return the trial whose policy stands for its config, and the reason in a sentence.

    Args:
        trials: trials of one config and one stage.
        seed: the trial's seed; None takes the trial with the median objective, the lower of two in the middle.
    Raises: ServiceError, if no such trial has trained to its end.
    """
    ended = [trial for trial in trials if trial.state is TrialState.SUCCEEDED and trial.objective is not None]
    ranked = sorted(ended, key=lambda trial: (trial.objective or 0.0, trial.seed))
    if not ranked:
        raise ServiceError("no trial of the best config has trained to its end")
    seeds = plural(len(ranked), f"{ranked[0].stage} seed")
    if seed is not None:
        chosen = next((trial for trial in ranked if trial.seed == seed), None)
        if chosen is None:
            finished = ", ".join(map(str, sorted(trial.seed for trial in ranked)))
            raise ServiceError(f"the best config has no finished trial of seed {seed}; choose one of {finished}")
        place = len(ranked) - ranked.index(chosen)
        return chosen, f"Seed {seed} was asked for; by objective it is number {place} of {seeds}."
    chosen = ranked[(len(ranked) - 1) // 2]
    if len(ranked) == 1:
        return chosen, f"There is only {seeds}."
    middle = "the lower of the two in the middle" if len(ranked) % 2 == 0 else "the one in the middle"
    return chosen, f"By objective seed {chosen.seed} is {middle} of {seeds}, not the luckiest."


def _reachable(trial: TrialView) -> Path:
    """Return the folder of a trial's checkpoint, if this machine has it."""
    if trial.checkpoint is None:
        raise ServiceError(f"trial {trial.id} has recorded no checkpoint; choose another one with --seed")
    if not (path := Path(trial.checkpoint.path)).is_dir():
        raise ServiceError(
            f"trial {trial.id} left its policy at {path}, which this machine does not have. Run the same command where "
            "the storage of trials (SWEEPS_STORAGE) is mounted, with SWEEPS_URL and SWEEPS_TOKEN_FILE naming this "
            "server; if it was removed there, choose another one with --seed"
        )
    return path


def _base(training: dict[str, Any]) -> ModelEntry | None:
    """Return the catalog's record of the base model; None if this machine's catalog has none."""
    if training["model"]["name"] != "pretrained":
        return None
    try:
        return read_entry(Settings().cache, ModelEntry, training["model"]["model"])
    except ConfigError:
        return None


def _export(checkpoint: Path, folder: Path, weights: Weights, *, adapter: bool) -> dict[str, Any]:
    """Have a child write the model, for this process has no torch; the child ends with this process."""
    command = [sys.executable, "-m", "trainers.export", str(checkpoint), str(folder), "--dtype", weights]
    command += ["--parent-fd", str(LIFELINE), *(["--adapter"] if adapter else [])]
    packages = os.pathsep.join(filter(None, [str(Path(trainers.__file__).parent.parent), os.environ.get("PYTHONPATH")]))
    child = run_to_end(command, os.environ | {"PYTHONPATH": packages})
    if child.returncode:
        raise ServiceError(f"the model was not exported (exit code {child.returncode}); the reason is printed above")
    return json.loads(child.stdout)
