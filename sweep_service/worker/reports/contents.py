"""Builds a report from the rows of the store. Imports no Ray, MLflow or torch."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import ValidationError
from pydantic_core import from_json, to_json

import trainers
from sweep_service.report import report_json
from sweep_service.report.build import build
from sweep_service.report.facts.report_inputs import CURVE_KEYS, ReportInputs
from sweep_service.report.parts.provenance import data_parts
from sweep_service.report.render.csv import render_csv
from sweep_service.report.render.html import render_html
from sweep_service.report.render.markdown import render_markdown
from sweep_service.report.render.picture import render_picture
from sweep_service.settings import Settings
from sweep_service.store import Store
from sweep_service.sweep.evaluations import initial_model, question
from sweep_service.sweep.extension import LOOK_EVENTS, looks
from sweep_service.sweep.objective import objective_metrics, trial_objective, used_measures
from sweep_service.sweep.records import AskedBefore, Config, Stage, Sweep, Trial, TrialState, ValidatedSweep
from trainers.config import TrainingConfig, WordProblemsTask
from trainers.errors import ConfigError
from trainers.tasks.dataset_rows import dataset_file

_PACKAGES: Final = ("torch", "transformers", "trl", "optuna", "ray", "sweep-service")
_CODE: Final = Path(trainers.__file__).parent


def gather(store: Store, sweep_id: str, settings: Settings) -> ReportInputs:
    """Read everything that a sweep's report is built from.

    Raises: NotFound.
    """
    # what names other rows is read before them, because a runner may go on adding rows
    results, evaluations = store.benchmark_results(sweep_id), store.list_evaluations(sweep_id)
    trials, configs, sweep = store.list_trials(sweep_id), store.list_configs(sweep_id), store.get_sweep(sweep_id)
    again = {trial.id for trial in trials if trial.attempts > 1}
    return ReportInputs(
        sweep=sweep,
        configs=tuple(configs),
        trials=tuple(trials),
        series={series.trial_id: series for series in store.series(sweep_id, CURVE_KEYS)},
        attempts=tuple(one for one in store.list_attempts(sweep_id) if one.trial_id in again) if again else (),
        trained_with=store.versions(sweep_id),
        samples=tuple(store.last_samples(sweep_id, _shown(trials))),
        checkpoints=tuple(store.newest_checkpoints(sweep_id)),
        problem_counts=tuple(store.problem_counts(sweep_id, sweep.spec.objective.last)),
        evaluations=tuple(evaluations),
        benchmark_results=tuple(results),
        validated_before=_validated_before(store, sweep),
        asked_before=_asked_before(store, sweep, [config.id for config in configs]),
        mlflow_url=settings.mlflow_links or None,
        versions={name: metadata.version(name) for name in _PACKAGES},
        provenance=_provenance(configs, settings),
        probe_gpu_hours=store.spent(sweep_id).probe_gpu_hours,
        looks=looks(store.list_events(sweep_id, limit=10_000, types=LOOK_EVENTS)),
    )


def _shown(trials: Sequence[Trial]) -> list[str]:
    """Return the trials whose completions may be shown: for each config and stage, the lowest seed that trained."""
    trained = [trial for trial in trials if trial.state.has_result]
    lowest: dict[tuple[str, Stage], Trial] = {}
    for trial in sorted(trained, key=lambda trial: (trial.state is not TrialState.SUCCEEDED, trial.seed)):
        lowest.setdefault((trial.config_id, trial.stage), trial)
    return [trial.id for trial in lowest.values()]


def _validated_before(store: Store, sweep: Sweep) -> tuple[ValidatedSweep, ...]:
    """Return the earlier sweeps from the same initial model that chose configs by one of this sweep's benchmarks."""
    if sweep.spec.trainer is not None:  # it has no benchmarks
        return ()
    own, earlier = _initial_model(sweep), list[ValidatedSweep]()
    for other in store.validated_on(sweep.benchmarks, before=sweep.id):
        with suppress(ValidationError):  # refused today: its loss's package may be gone
            task = other.spec.base.task
            if isinstance(task, WordProblemsTask) and task.validation and _initial_model(other) == own:
                benchmark = task.validation.benchmark or ""
                earlier.append(ValidatedSweep(sweep_id=other.id, name=other.name, benchmark=benchmark))
    return tuple(earlier)


def _initial_model(sweep: Sweep) -> str:
    return initial_model(sweep.spec.base.model_dump(mode="json"))


def _asked_before(store: Store, sweep: Sweep, config_ids: Collection[str]) -> tuple[AskedBefore, ...]:
    """Return the sweeps with a final report that were submitted before one and ask the same question, oldest first.

    Args:
        config_ids: the sweep's configs; of those that an earlier sweep has confirmed, too, the results are returned.
    """
    if sweep.spec.trainer is not None:  # what its settings mean, and on which problems it evaluates, is not known
        return ()
    own, same = sweep.spec.base, list[AskedBefore]()
    for id_, raw in store.answered(sweep.id):
        if not _may_be_same(raw, own):
            continue
        with suppress(ValidationError):  # refused today: its loss's package may be gone
            if question(TrainingConfig.model_validate(raw)) == question(own):
                same.append(_asked(store, store.get_sweep(id_), sweep, config_ids))
    return tuple(same)


def _may_be_same(raw: Mapping[str, Any], own: TrainingConfig) -> bool:
    """True if a base as it was submitted names the same task and kind of model, or leaves them to the defaults."""
    pairs = ((raw.get("task"), own.task.name), (raw.get("model"), own.model.name))
    return all(not isinstance(part, dict) or part.get("name", name) == name for part, name in pairs)


def _asked(store: Store, earlier: Sweep, sweep: Sweep, config_ids: Collection[str]) -> AskedBefore:
    report = store.find_report(earlier.id, "verdict")
    outcome = from_json(report.content)["outcome"] if report else ""
    sweep_before = AskedBefore(sweep_id=earlier.id, name=earlier.name, outcome=outcome)
    kinds = [one.spec.objective.model_dump(exclude={"relevant"}) for one in (earlier, sweep)]
    if kinds[0] != kinds[1]:
        return sweep_before
    trials, values = store.list_trials(earlier.id), dict[tuple[str, str], list[float]]()
    for curve in store.curves(earlier.id, objective_metrics(earlier.spec)):
        values[curve.trial_id, curve.key] = [value for value in curve.values if value is not None]
    used = used_measures(trials, lambda id_, metric: values.get((id_, metric), ()), earlier.spec)
    measure, confirmed = used[Stage.CONFIRM], dict[str, dict[int, float]]()
    ruined = store.ruined_trials(earlier.id)
    if ruined is None:
        return sweep_before
    for trial in trials:
        if trial.stage is Stage.CONFIRM and trial.config_id in config_ids and trial.id not in ruined:
            value = trial_objective(trial, values.get((trial.id, measure), ()), earlier.spec.objective)
            if value is not None:
                confirmed.setdefault(trial.config_id, {})[trial.seed] = value
    return sweep_before.model_copy(update={"confirmed": confirmed, "measured_by": measure})


def _provenance(configs: Sequence[Config], settings: Settings) -> dict[str, str]:
    commit = settings.commit or _checked_out(_CODE.parent / ".git")
    versions = {"commit": commit} if commit else {}
    for ref, split in sorted({part for config in configs for part in data_parts(config.training.get("task", {}))}):
        with suppress(ConfigError, OSError):  # the file is gone, so its digest is unknown
            content = dataset_file(ref, split, settings.cache).read_bytes()
            versions[f"{ref}/{split}"] = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return versions


def _checked_out(git: Path) -> str | None:
    """Return the commit that is checked out, whatever uncommitted changes there are; None outside a checkout."""
    try:
        head = (git / "HEAD").read_text().strip()
        name = head.removeprefix("ref: ")
        if name == head:
            return head
        if (git / name).exists():
            return (git / name).read_text().strip()
        packed = (line.split() for line in (git / "packed-refs").read_text().splitlines())
        return next((words[0] for words in packed if words[1:] == [name]), None)
    except OSError:
        return None


class BuiltReport(NamedTuple):
    """A report in its formats."""

    inputs_digest: str
    contents: dict[str, bytes]
    """By format: those of `schemas.ReportFormat`, under verdict that part of the JSON with the ids of ruined trials,
    and under yaml the best config's file, if there is one."""
    compares: bool
    """True if it compares confirm results."""


def build_report(store: Store, sweep_id: str, settings: Settings) -> BuiltReport:
    """Build a sweep's report as it stands; an interim one while the sweep goes on.

    Raises: NotFound.
    """
    report = build(gather(store, sweep_id, settings))
    ruined = [trial.id for trial in report.trials if trial.ruined]
    contents = {
        "html": render_html(report),
        "json": report_json(report),
        "md": render_markdown(report),
        "csv": render_csv(report),
        "png": render_picture(report, "png"),
        "svg": render_picture(report, "svg"),
        "verdict": to_json(report.verdict.model_dump(mode="json") | {"ruined": ruined}),
    }
    if report.best is not None:
        contents["yaml"] = report.best.yaml.encode()
    return BuiltReport(report.inputs_digest, contents, compares=bool(report.comparisons))
