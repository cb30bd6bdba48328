"""The README.md of an exported model: its training, its results, and how to check them.

Made from the report and the exported trial. All texts of users are escaped.
"""

import json
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, Final, NamedTuple

from sweep_service.report.formatting import NOTHING, count, estimate, number, plain
from sweep_service.report.model import BenchmarkTable, BestConfig, Report
from sweep_service.report.parts.best_config import FILE_NAME, commented, train_command
from sweep_service.report.render import views
from sweep_service.report.render.markdown_text import bullets, fenced, table, titled
from sweep_service.sweep.records import Role, Stage, Trial
from trainers.catalog.entries import ModelEntry
from trainers.yaml_text import write_yaml

_LOSS_FIRST: Final = ("name", "beta1", "beta2", "epsilon", "epsilon_low", "epsilon_high")
"""Settings that head the list of the loss's settings."""


class Exported(NamedTuple):
    """A trial whose policy was exported."""

    trial: Trial
    objective: float | None
    why: str
    """Reason for the choice of this trial among those of its config, a sentence."""
    training: Mapping[str, Any]
    """Complete training configuration of the trial, without the seed."""
    evaluation: float | None
    """Value of eval/avg_at_k at the trial's last evaluation."""
    facts: Mapping[str, Any]
    """Facts that `trainers.export` printed as JSON."""
    processes: int
    """Number of processes that trained it together."""
    base: ModelEntry | None
    """Catalog's record of the model that training started from; None if this catalog has none."""


def model_card(report: Report, best: BestConfig, exported: Exported) -> str:
    """Write the card, with the head that the Hugging Face Hub reads."""
    trained = [(plain(name), plain(value)) for name, value in _settings(exported).items() if value]
    origin = {
        "sweep": f"{report.sweep.name}, {report.sweep.id}",
        "trial": exported.trial.id,
        **best.provenance,
        "report": f"inputs sha256:{report.inputs_digest}, version {report.report_version}",
    }
    if exported.base is not None:
        origin["base model's files"] = f"sha256:{exported.base.digest}"
    origins = [(plain(name), plain(value)) for name, value in origin.items()]
    again = f"`{FILE_NAME}` is the whole configuration with this seed; CACHE is a folder with the same catalog entries."
    blocks = [
        _head(exported),
        f"# {plain(report.sweep.name)}: {plain(best.label)}",
        _summary(exported),
        *titled("What the sweep found", [*_finding(report), table(*_results(report, best, exported))]),
        *titled("Benchmarks", _benchmarks(report.benchmarks, report, best, exported) if report.benchmarks else []),
        *titled("This model", _this_model(exported)),
        *titled("What was trained", [table(("setting", "value"), trained)]),
        *titled("Train it again", [again, fenced(_command(exported), "sh"), table(("what", "which"), origins)]),
        *titled("Limits", [bullets(_limits(report, exported))]),
    ]
    return "\n\n".join(blocks) + "\n"


def trial_yaml(report: Report, best: BestConfig, exported: Exported) -> str:
    """Write the configuration that trained the exported model, for `python -m trainers`."""
    trial = exported.trial
    lines = [
        f"{best.label}: config {best.config_id} of sweep {report.sweep.name} ({report.sweep.id})",
        f"The {trial.stage} trial {trial.id}, whose policy is in this folder.",
        f"Train it again: {_command(exported)}",
        f"Evaluate this folder: {_command(exported, '--evaluate .')}",
    ]
    return commented(lines) + write_yaml({"seed": trial.seed, **exported.training})


def _command(exported: Exported, *options: str) -> str:
    return train_command(exported.trial.threads, exported.processes, *options, "--cache CACHE")


def _head(exported: Exported) -> str:
    base, adapters = exported.base, _is_adapter(exported)
    head: dict[str, Any] = {
        "library_name": "peft" if adapters else "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["reinforcement-learning", "trl", exported.training["loss"]["name"]],
    }
    if base is not None and base.origin.repository:
        head["base_model"] = base.origin.repository
        head["base_model_relation"] = "adapter" if adapters else "finetune"
    return f"---\n{write_yaml(head)}---"


def _is_adapter(exported: Exported) -> bool:
    return "base" in exported.facts and not exported.facts["merged"]


def _summary(exported: Exported) -> str:
    trial, kind = exported.trial, "The LoRA adapters of" if _is_adapter(exported) else "The policy of"
    merged = " Its LoRA adapters are merged into the base model." if exported.facts["merged"] else ""
    return (
        f"{kind} the {trial.stage} trial with seed {trial.seed} of the best configuration of a hyperparameter sweep, "
        f"after {trial.step} updates of reinforcement learning from {plain(_base_name(exported))}.{merged} "
        f"{plain(exported.why)}"
    )


def _base_name(exported: Exported) -> str:
    model, entry = exported.training["model"], exported.base
    if model["name"] != "pretrained":
        return "a small model that the code makes and warm-starts"
    if entry is None or not entry.origin.repository:
        return f"{model['model']}, a model of the local catalog"
    return f"{entry.origin.repository}@{entry.origin.revision or 'unknown revision'}"


def _finding(report: Report) -> list[str]:
    ties = [plain(report.verdict.ties.text)] if report.verdict.ties else []
    warnings = [f"{plain(item.code)}: {plain(item.text)}" for item in report.cautions]
    return [
        f"**{report.verdict.outcome}**: {plain(views.sentence(report))}",
        *ties,
        f"Objective: {plain(report.objective)}.",
        *(["Warnings of the report:", bullets(warnings)] if warnings else []),
    ]


def _results(report: Report, best: BestConfig, exported: Exported) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Return head and rows of a table: the objective of the config and of its comparator, by seed."""
    stage = exported.trial.stage
    rows = {row.id: row for row in report.configs}
    if report.verdict.comparison is not None:
        against = rows[report.verdict.comparison.comparator_id]
    elif (against := views.reference(report)) is not None and against.id == best.config_id:
        against = None
    labels, results = [best.label], [rows[best.config_id].stage(stage)]
    if against:
        labels.append(against.label)
        results.append(against.stage(stage))
    values = [result.by_seed if result else {} for result in results]
    means = [estimate(result.mean, result.low, result.high) if result else NOTHING for result in results]
    lines: list[Sequence[str]] = [
        [f"{seed}{' (this model)' if seed == exported.trial.seed else ''}", *(number(own.get(seed)) for own in values)]
        for seed in sorted({seed for own in values for seed in own})
    ]
    return [f"{stage} seed", *map(plain, labels)], [*lines, ["mean, 95 % interval", *means]]


def _benchmarks(measured: BenchmarkTable, report: Report, best: BestConfig, exported: Exported) -> list[str]:
    """Return this model's scores, its configuration's, the initial model's and the baseline's."""
    own = next((row.benchmarks for row in report.trials if row.id == exported.trial.id), {})
    baselines = {row.id for row in report.configs if Role.BASELINE in row.roles}
    config = next((row for row in measured.rows if row.config_id == best.config_id and not row.initial), None)
    others = [row for row in measured.rows if row is not config and (row.initial or row.config_id in baselines)]
    lines: list[Sequence[str]] = []
    for place, name in enumerate(views.column_names(measured)):
        names = measured.names if name not in measured.names else [name]
        scores = [own[one] for one in names if one in own]
        cell = config.cells[place] if config else None
        lines.append(
            (
                plain(name) + (f", avg@{cell.k}" if cell and cell.k is not None else ""),
                number(fmean(scores) if len(scores) == len(names) else None),
                f"{number(cell.mean)} ({count(cell.num_seeds, 'seed')})" if cell else NOTHING,
                estimate(delta.difference, delta.low, delta.high, sign=True)
                if cell and (delta := cell.difference)
                else NOTHING,
                *(number(other.mean if (other := row.cells[place]) else None) for row in others),
            )
        )
    header = (
        "benchmark",
        "this model",
        plain(best.label),
        "minus baseline, 95 %",
        *(plain(row.label) for row in others),
    )
    how = (
        "Scores of configurations are means over training seeds. Differences are paired by seed and by problem; their "
        "intervals count other seeds and other problems of the same kind. No benchmark chose this configuration."
    )
    return [plain(measured.sentence), table(header, lines), how]


def _this_model(exported: Exported) -> list[str]:
    trial, facts = exported.trial, exported.facts
    evaluated = (
        f"Its last evaluation, after {trial.step} updates, gave an avg@k of {exported.evaluation!r} on the validation "
        f"problems; its objective is {number(exported.objective)}."
        if exported.evaluation is not None
        else f"Its objective is {number(exported.objective)}."
    )
    return [
        f"{evaluated} {facts['parameters']:,} parameters, stored as {plain(str(facts['dtype']))}.",
        "To check it:",
        fenced(_command(exported, "--evaluate ."), "sh"),
        "With the weights in float32, on the same kind of CPU, with the same versions and not merged, this gives the "
        "same digits. Otherwise single tokens may be sampled differently, and with them the number moves a little. "
        "`generation_config.json` has the temperature and top_p of the evaluations.",
    ]


def _settings(exported: Exported) -> dict[str, str]:
    training, trial = exported.training, exported.trial
    loss, rollout = dict.fromkeys(_LOSS_FIRST) | training["loss"], training["rollout"]
    tokens = trial.summary.get("tokens/total")
    return {
        "base model": _base_name(exported),
        "LoRA": _named(training["model"].get("lora")) or "no: all weights were trained",
        "task": _named(training["task"]),
        "loss": _named(loss),
        "advantage": _named(training["advantage"]),
        "rollouts": f"{rollout['prompts_per_rollout']} prompts x {rollout['completions_per_prompt']} completions of at "
        f"most {rollout['max_completion_tokens']} tokens, {rollout['prompts_per_minibatch']} prompts an update",
        "optimizer": _named(training["optimizer"]),
        "updates": str(trial.step),
        "completion tokens": "" if tokens is None else f"{tokens:,.0f}",
        "seed": str(trial.seed),
        "CPU threads": str(trial.threads),
    }


def _named(settings: Mapping[str, Any] | None) -> str:
    return ", ".join(
        f"{name} {_value(value)}" for name, value in (settings or {}).items() if value not in (None, [], {})
    )


def _value(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else json.dumps(value)


def _limits(report: Report, exported: Exported) -> list[str]:
    interim = ["The sweep was still going on; its findings may have changed since."] if report.interim else []
    beyond = " and on the benchmarks above" if report.benchmarks else " only"
    chose = "others of which" if report.halves else "which also"
    return [
        *interim,
        "Exploratory: the configuration was chosen on these very seeds and confirmed on no others."
        if exported.trial.stage is Stage.TUNE
        else "The interval is of the configuration over seeds; this model is one of them.",
        f"Measured on this sweep's validation problems, {chose} chose the configuration,{beyond}; nothing is known of "
        "other tasks, of safety or of bias.",
        "Licence: as the base model's and the data's; this card knows neither.",
    ]
