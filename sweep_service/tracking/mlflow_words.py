"""Translates sweeps and trials to MLflow's words: names, params, tags, states, metrics. Pure."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sweep_service.report import Report
from sweep_service.report.formatting import plain
from sweep_service.report.model import ConfigRow
from sweep_service.store.projection_rows import Chunk
from sweep_service.sweep.labels import config_label, names_to_show
from sweep_service.sweep.records import Config, Role, Sweep, SweepState, Trial, TrialState
from sweep_service.tracking.tracker import MetricPoint, RunStatus

MAX_PARAM: Final = 500
"""Longest value of a param that every MLflow server takes, in characters."""
MAX_TAG: Final = 5000
"""Longest value of a tag that every MLflow server takes, in characters."""

GROUP_TAG: Final = "line"
"""The tag by which MLflow's charts group trials: a line per config."""

COLORS: Final = (
    "#72808c", "#a6630c", "#2272b4", "#c83243", "#3ba65e", "#de7921", "#8a63bf", "#04867d", "#b45091",
    "#facb66", "#8396a5", "#6b74c9", "#8ddda8", "#f792a6", "#8acaff",
)  # fmt: skip
"""Colours of runs by config number, which show on a white page and on a dark one; grey for the baseline, the first."""

_STATUS: Final[Mapping[str, RunStatus]] = {
    "QUEUED": "SCHEDULED",
    "PENDING": "SCHEDULED",
    "SUCCEEDED": "FINISHED",
    "DIVERGED": "FAILED",
    "FAILED": "FAILED",
    "CANCELLED": "KILLED",
    "STOPPED": "KILLED",
    "DISCARDED": "KILLED",
    "EARLY_STOPPED": "KILLED",
}
"""MLflow's word for a state of a sweep or trial; for every other state it is RUNNING."""

EVERY_UPDATE: Final = frozenset(
    {
        "loss",
        "grad_norm",
        "entropy",
        "entropy/na_lp",
        "entropy/pa_lp",
        "entropy_change/predicted",
        "share/na_lp",
        "share/pa_lp",
        "clip_fraction/low",
        "clip_fraction/high",
        "ratio/max",
        "ppo_kl",
        "time/generation_s",
        "time/step_s",
    }
)
"""MLflow gets the values of these metrics at every update."""
OF_ROLLOUT: Final = frozenset({"reward/mean", "completion/length_mean"})
"""Metrics that stay the same over a rollout's updates; MLflow gets the value at the first."""

EXPERIMENT_TAGS: Final = {
    "mlflow.experimentKind": "custom_model_development",
    "mlflow.note.content": "Each run at the top is a sweep; its description leads to its curves.",
}


def run_status(state: SweepState | TrialState) -> RunStatus:
    """Return MLflow's status of a run; the tag `state` keeps our own word."""
    return _STATUS.get(state.value, "RUNNING")


def milliseconds(seconds: float) -> int:
    """Return a time in seconds as whole milliseconds, MLflow's unit."""
    return round(seconds * 1000)


def label(sweep: Sweep, config: Config) -> str:
    """Name a config, such as `β1=0.5 β2=1`, first by what the space varies; the same whichever configs exist yet."""
    varied = sweep.spec.space.varied or sweep.spec.space.names
    return config_label(config, list(dict.fromkeys((*varied, *names_to_show(varied)))))


def group_name(number: int, label: str) -> str:
    """Return the name of a config's line while MLflow averages its trials.

    The number keeps alike labels apart: MLflow takes a group's colour from a checksum of its name, in which `β1=0 β2=1`
    and `β1=1 β2=1` are equal.
    """
    return f"{number:02} {label}"[:MAX_TAG]


def group_names(sweep: Sweep, configs: Sequence[Config]) -> list[str]:
    """Return the names of a sweep's lines; the configs that a search has yet to propose are named like the last one."""
    names = [group_name(config.number, label(sweep, config)) for config in configs]
    proposed = sum(Role.SPACE in config.roles for config in configs)
    return names + (names[-1:] or [""]) * ((sweep.spec.search.num_configs or 0) - proposed)


def child_tags(sweep: Sweep, kind: str, number: int, config: Config | ConfigRow, label: str) -> dict[str, str]:
    """Return the tags that the run of a config shares with the runs of its trials."""
    return {
        "mlflow.parentRunId": sweep.mlflow_run_id or "",
        "kind": kind,
        "sweep": sweep.name,
        "sweep_id": sweep.id,
        "number": f"{number:05}",  # sorts as text
        "config": label[:MAX_TAG],
        "config_id": config.id,
        GROUP_TAG: group_name(config.number, label),
        "mlflow.runColor": COLORS[config.number % len(COLORS)],
        "role": ",".join(config.roles),
    }


def trial_name(sweep: Sweep, trial: Trial, config: Config) -> str:
    """Name a trial's run, such as `s0 β1=0.5 β2=1 tune`: MLflow's list shows some 24 characters, whatever differs."""
    return f"s{trial.seed} {label(sweep, config)} {trial.stage}"[:MAX_PARAM]


def sweep_tags(sweep: Sweep) -> dict[str, str]:
    """Return the tags by which a sweep's run is found."""
    return {
        "kind": "sweep",
        "sweep": sweep.name,
        "sweep_id": sweep.id,
        "state": sweep.state.value,
        "spec_digest": sweep.spec_digest,
        **{f"label.{name}": value for name, value in sweep.spec.labels.items()},
    }


def answer_tags(report: Report | None, note: str) -> dict[str, str]:
    """Return the tags that tell how a sweep ended: the verdict, and a tag for each warning."""
    tags = {"mlflow.note.content": note[:MAX_TAG]}
    if report is None:
        return tags
    tags |= {"verdict": report.verdict.sentence[:MAX_TAG], "outcome": report.verdict.outcome.value}
    return tags | {f"warning.{caution.code}": caution.text[:MAX_TAG] for caution in report.cautions}


def trial_tags(sweep: Sweep, trial: Trial, config: Config) -> dict[str, str]:
    """Return the tags by which a trial's run is found, grouped and filtered."""
    return {
        **child_tags(sweep, "trial", trial.number, config, label(sweep, config)),
        "trial_id": trial.id,
        "seed": str(trial.seed),
        "stage": trial.stage.value,
        **({} if config.is_own else {"loss": config.training["loss"]["name"]}),
        **progress_tags(trial),
    }


def progress_tags(trial: Trial) -> dict[str, str]:
    """Return the tags that change as a trial goes on."""
    warnings = [f"{warning.code}: {warning.message}" for warning in trial.warnings]
    note = "\n\n".join(map(plain, [*(trial.message or "").splitlines(), *warnings]))
    tags = {"state": trial.state.value, "attempt": str(trial.attempts), "mlflow.note.content": note[:MAX_TAG]}
    codes = ",".join(warning.code for warning in trial.warnings)
    return tags | ({"warnings": codes[:MAX_TAG]} if codes else {})


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Return nested mappings as one with dotted names; lists as JSON; values cut at the server's limit."""
    flattened: dict[str, str] = {}
    for name, value in values.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and value:
            flattened |= flat(value, f"{key}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            flattened[metric_key(key)] = text if len(text) <= MAX_PARAM else text[: MAX_PARAM - 1] + "…"
    return flattened


def metric_key(name: str) -> str:
    """Return a name in which `_` replaces the characters that MLflow does not allow in keys, such as @.

    For it they are paths: no part of one is empty, or dots alone.
    """
    parts = re.sub(r"[^\w/. :-]", "_", name)[:250].split("/")
    return "/".join(part if part.strip(".") else "_" * len(part) for part in parts if part) or "_"


def chunk_points(chunk: Chunk, updates_per_rollout: int) -> list[MetricPoint]:
    """Return a chunk's values as metrics; a step without a value has none.

    Training metrics outside `EVERY_UPDATE` and `OF_ROLLOUT` keep only the value at each rollout's last update, when
    ratios are furthest from 1; with all values MLflow could take more CPU time than training a small policy.
    """

    def is_shown(key: str, step: int) -> bool:
        update = 1 if key in OF_ROLLOUT else 0  # the first of a rollout, or the last
        return key in EVERY_UPDATE or step % updates_per_rollout == update % updates_per_rollout

    return [
        MetricPoint(metric_key(key), value, milliseconds(time), step)
        for key, values in chunk.metrics.items()
        for step, time, value in zip(chunk.steps, chunk.times, values, strict=True)
        if value is not None and (chunk.kind == "evaluation" or is_shown(key, step))
    ]


def final_points(trial: Trial, objective: float | None) -> list[MetricPoint]:
    """Return an ended trial's closing figures as `final/…`, at step 0, which MLflow draws as bars."""
    named = {metric_key(name.removeprefix("eval/").replace("/", "_")): value for name, value in trial.summary.items()}
    timestamp = milliseconds(trial.ended_at or 0)
    return [
        MetricPoint(f"final/{name}", value, timestamp, 0)
        for name, value in ({"objective": None} | named | {"objective": objective}).items()
        if value is not None
    ]
