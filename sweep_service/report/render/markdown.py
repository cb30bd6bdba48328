"""The report as Markdown: the page's story in text and tables. Curves are left to HTML and JSON."""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from sweep_service.report.formatting import NOTHING, count, estimate, interval, number, plain, signed
from sweep_service.report.model import (
    BenchmarkCell,
    BenchmarkDifference,
    BenchmarkTable,
    BestConfig,
    BudgetComparison,
    Claim,
    Comparison,
    ConfigRow,
    Effect,
    Exploration,
    Outcome,
    Report,
    SampledCompletion,
    StageResult,
    TrialRow,
    Verdict,
)
from sweep_service.report.parts.best_config import FILE_NAME
from sweep_service.report.render import views
from sweep_service.sweep.labels import ROLE_NAMES, short_name, value_text
from sweep_service.sweep.records import Role, Stage
from trainers.printable import printable

_MOST_CONFIGS: Final = 50
_MOST_FAILURES: Final = 20
_MOST_PROMPTS: Final = 3
_MOST_LETTERS: Final = 240
"""Number of letters shown of a prompt and of a completion."""


def render_markdown(report: Report) -> bytes:
    """Render the summary, ending in a newline. Equal reports give equal bytes."""
    exploring = report.verdict.outcome is Outcome.EXPLORATORY
    exploration = _part("What the parameters do", _exploration(report.exploration) if report.exploration else [])
    parts = [
        *_head(report),
        *_verdict(report.verdict),
        *_part("Every config", _configs(report)),
        *_part("Warnings", _cautions(report)),
        *(exploration if exploring else []),
        *_part("Benchmarks", _benchmarks(report, report.benchmarks) if report.benchmarks else []),
        *_part("What to do next", _best(report.best, halves=report.halves) if report.best else []),
        *_part("Every comparison", _comparisons(report)),
        *([] if exploring else exploration),
        *_part("What the CE-GPPO paper says, in this sweep", _claims(report.claims)),
        *_part("What the policies write", _samples(report)),
        *_part("Trials that went wrong", _failures(views.failures(report))),
        *_part("How this was computed", [bullets([plain(line) for line in report.method])]),
        _origin(report),
    ]
    return ("\n\n".join(parts) + "\n").encode()


def _part(title: str, blocks: Sequence[str]) -> list[str]:
    return [f"## {title}", *blocks] if blocks else []


def bullets(lines: Sequence[str]) -> str:
    """Write lines that are Markdown already as a list."""
    return "\n".join(f"- {line}" for line in lines)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write cells that are Markdown already as a table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def fenced(text: str, language: str = "") -> str:
    """Write a block of code that no backtick inside can end."""
    fence = "`" * max(3, 1 + max((len(list(run)) for char, run in groupby(text) if char == "`"), default=0))
    return f"{fence}{language}\n{printable(text)}{'' if text.endswith(chr(10)) else chr(10)}{fence}"


def _code(text: str) -> str:
    """Write text as code in a line, or as plain text if a reader of Markdown could act on it there."""
    line = " ".join(text.split())
    return plain(line) if set(line) & set("`<>&|[]") else f"`{line}`"


def _head(report: Report) -> list[str]:
    parts = [f"# Sweep {plain(report.sweep.name)}"]
    if report.interim:
        parts.append(
            f"**Interim report.** The sweep is {report.sweep.state.lower()}; every number may still change, "
            "and the intervals do not allow for looking early."
        )
    parts.append(f"**{report.verdict.outcome}**: {plain(views.sentence(report))}")
    if report.verdict.basis:
        parts.append(plain(report.verdict.basis))
    parts.append(f"Objective: {plain(report.objective)}.")
    return [*parts, plain(report.sweep.message)] if report.sweep.message else parts


def _verdict(verdict: Verdict) -> list[str]:
    ties = [f"**Which may be the best.** {plain(verdict.ties.text)}"] if verdict.ties else []
    return [*ties, *([f"**What to train next.** {plain(verdict.next.text)}"] if verdict.next else [])]


def _benchmarks(report: Report, measured: BenchmarkTable) -> list[str]:
    entropy = views.entropy_kept(report)
    rows = [
        [
            plain(row.label) + (" (tune seeds)" if row.stage is Stage.TUNE else ""),
            *(
                _cell(cell, leads=column.leader == row.config_id and not row.initial)
                for column, cell in zip(measured.columns, row.cells, strict=True)
            ),
            number(None if row.initial else entropy.get(row.config_id), 2),
            plain(views.missing_text(row)) or NOTHING,
        ]
        for row in measured.rows[:_MOST_CONFIGS]
    ]
    more = len(measured.rows) - _MOST_CONFIGS
    names = [f"{plain(name)}, Δ baseline, 95 %" for name in views.column_names(measured)]
    return [
        plain(measured.sentence),
        table(["model", *names, "entropy kept", "missing"], rows),
        *([f"… and {count(more, 'more row')} in the JSON."] if more > 0 else []),
        bullets([plain(line) for line in measured.text]),
        *(
            table(
                [plain(name), *(f"pass@{k}" for k in sizes)],
                [[plain(label), *(number(by_k.get(k)) for k in sizes)] for label, by_k in models[:_MOST_CONFIGS]],
            )
            for name, sizes, models in views.passes(measured)
        ),
    ]


def _cell(cell: BenchmarkCell | None, *, leads: bool) -> str:
    if cell is None:
        return NOTHING
    average = f"{number(cell.mean)}{'' if cell.k is None else f' avg@{cell.k}'}"
    delta = cell.difference
    parts = [f"**{average}**" if leads else average]
    if delta:
        parts.append(f"{_difference(delta)}{' *shown*' if delta.shown else ''}")
    return "; ".join([*parts, f"n {cell.num_seeds}", count(cell.num_problems, "problem")])


def _cautions(report: Report) -> list[str]:
    numbers = {trial.id: trial.number for trial in report.trials}
    lines = [
        f"{_code(item.code)} {plain(item.text)}{f' *Rule: {plain(item.rule)}*' if item.rule else ''}"
        f"{_trials([numbers[id_] for id_ in item.trials])}"
        for item in report.cautions
    ]
    return [bullets(lines)] if lines else []


def _trials(numbers: Sequence[int], most: int = 12) -> str:
    if not numbers:
        return ""
    more = f" and {len(numbers) - most} more" if len(numbers) > most else ""
    return f" ({'trial' if len(numbers) == 1 else 'trials'} {', '.join(str(n) for n in numbers[:most])}{more})"


def _exploration(exploration: Exploration) -> list[str]:
    parts = [bullets([plain(line) for line in exploration.text])] if exploration.text else []
    rows = [row for effect in exploration.effects for row in _effect(effect)]
    if rows:
        parts.append(table(["parameter", "value", "adjusted mean, 95 %", "configs"], rows))
    return [*parts, plain(exploration.surface.text)] if exploration.surface else parts


def _effect(effect: Effect) -> list[list[str]]:
    return [
        [
            plain(effect.label),
            plain(level.text),
            estimate(level.mean, level.low, level.high),
            str(level.configs),
        ]
        for level in effect.levels
    ]


def _best(best: BestConfig, *, halves: bool) -> list[str]:
    stages = [["tune", *_stage(best.tune)], ["confirm", *_stage(best.confirm)]]
    parts = [f"**{plain(best.label)}** {plain(best.why)}", table(["stage", "mean", "95 % interval", "seeds"], stages)]
    if best.optimism is not None:
        parts.append(
            f"Winner's optimism ({'its lead: ' if halves else ''}tune minus confirm): {signed(best.optimism)}."
        )
    if best.evidence:
        parts.append(bullets([plain(line) for line in best.evidence]))
    if best.others:
        parts += ["Why not the others:", bullets([plain(line) for line in best.others])]
    parts += [f"{_code(best.command)} with `{FILE_NAME}`:", fenced(best.yaml, "yaml")]
    if best.checkpoints:
        lines = [
            f"{point.stage} seed {point.seed}, step {point.step}: {_code(point.path)}" for point in best.checkpoints
        ]
        parts += ["Checkpoints:", bullets(lines)]
    if best.provenance:
        parts += [
            "Provenance:",
            bullets([f"{plain(name)}: {plain(value)}" for name, value in best.provenance.items()]),
        ]
    return parts


def _stage(result: StageResult | None) -> list[str]:
    if result is None:
        return [NOTHING, NOTHING, "0"]
    return [number(result.mean), interval(result.low, result.high) or NOTHING, str(result.n)]


def _comparisons(report: Report) -> list[str]:
    if not report.comparisons:
        return []
    units, budgets = views.units(report), views.budgets(report)
    rows = [
        [
            plain(compared.label),
            plain(compared.comparator_label),
            compared.outcome,
            _difference(compared),
            *(_difference(budgets.get((compared.config_id, compared.comparator_id), {}).get(unit)) for unit in units),
            str(compared.num_seeds),
        ]
        for compared in report.comparisons
    ]
    header = [
        "config",
        "minus",
        "",
        f"at equal steps, {views.confidence(report)}",
        *(f"at equal {unit}" for unit in units),
        "seeds",
    ]
    return [table(header, rows)]


def _difference(compared: Comparison | BudgetComparison | BenchmarkDifference | views.Delta | None) -> str:
    if compared is None:
        return NOTHING
    return estimate(compared.difference, compared.low, compared.high, sign=True)


def _claims(claims: Sequence[Claim]) -> list[str]:
    rows = [
        [
            f"**{claim.outcome}**",
            plain(claim.claim),
            plain(claim.evidence),
            NOTHING if claim.estimate is None else estimate(claim.estimate, claim.low, claim.high),
        ]
        for claim in claims
    ]
    return [table(["", "claim", "evidence here", "estimate, 95 %"], rows)] if rows else []


def _configs(report: Report) -> list[str]:
    if not report.configs:
        return ["No config has been tried."]
    names, tune = views.varied(report), views.deltas(report, Stage.TUNE)
    compared = views.compared(report)
    header = [
        "config", *(plain(short_name(name)) for name in names),
        "confirm mean, 95 %", "sd over seeds", "n",
        *([f"minus {views.comparator_name(compared)}, {views.confidence(report)}", ""] if compared else []),
        "tune mean", *([f"minus {views.reference_name(report)}"] if tune else []), "n",
        "entropy", "reward peak → final", "collapsed",
    ]  # fmt: skip
    rows = [
        [
            _name(row, report.best),
            *(_value(row, name) for name in names),
            " ".join(_stage(row.confirm)[:2]) if row.confirm else NOTHING,
            number(row.confirm.sd) if row.confirm else NOTHING,
            str(row.confirm.n) if row.confirm else "0",
            *(_compared(compared.get(row.id)) if compared else []),
            number(row.tune.mean) if row.tune else NOTHING,
            *([_difference(tune.get(row.id))] if tune else []),
            str(row.tune.n) if row.tune else "0",
            f"{number(row.entropy_start, 2)} → {number(row.entropy_end, 2)}",
            f"{number(row.reward_peak, 2)} → {number(row.reward_final, 2)}",
            f"{row.collapsed} of {sum(row.states.values())}",
        ]
        for row in report.configs[:_MOST_CONFIGS]
    ]
    more = len(report.configs) - _MOST_CONFIGS
    spread = views.spread_text(report)
    return [
        table(header, rows),
        *([f"… and {count(more, 'more config')} in the JSON."] if more > 0 else []),
        *([spread] if spread else []),
    ]


def _compared(comparison: Comparison | None) -> list[str]:
    """Write a config's difference and what it says."""
    return [_difference(comparison), comparison.outcome if comparison else NOTHING]


def _name(row: ConfigRow, best: BestConfig | None) -> str:
    """Name a config without its parameters, which have columns of their own: `3 **best**`, `0 baseline`."""
    roles = [ROLE_NAMES[role] for role in row.roles if role is not Role.SPACE]
    marks = ["**best**"] if best and best.config_id == row.id else []
    return " ".join([str(row.number), *marks, *roles])


def _value(row: ConfigRow, name: str) -> str:
    value = row.params.get(name)
    return NOTHING if value is None else plain(value_text(value))


def _samples(report: Report) -> list[str]:
    """Write the first problems, each with one completion of every group."""
    if not report.samples:
        return []
    parts = [
        bullets(
            [f"{group.role}: {plain(group.label)}, seed {group.seed}, step {group.step}" for group in report.samples]
        )
    ]
    for prompt in views.prompts(report.samples)[:_MOST_PROMPTS]:
        answers = [
            f"{group.role}: {_answer(items[0])}"
            for group, items in zip(report.samples, prompt.completions, strict=True)
            if items
        ]
        parts += [f"Prompt: {plain(_shortened(prompt.text))}", bullets(answers)]
    return parts


def _answer(item: SampledCompletion) -> str:
    return f"{plain(_shortened(item.completion))} (reward {number(item.reward, 2)})"


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]} …"


def _failures(trials: Sequence[TrialRow]) -> list[str]:
    lines = [
        f"trial {trial.number}, {plain(trial.label)}, {trial.stage} seed {trial.seed}: {trial.state.lower()} at step "
        f"{trial.step} of {trial.total_steps}: {plain(trial.message or 'no message')}"
        for trial in trials[:_MOST_FAILURES]
    ]
    more = [f"and {len(trials) - _MOST_FAILURES} more in the JSON"] if len(trials) > _MOST_FAILURES else []
    return [bullets([*lines, *more])] if lines else []


def _origin(report: Report) -> str:
    versions = "".join(f", {plain(name)} {plain(version)}" for name, version in report.versions.items())
    sweep = report.sweep
    return f"Sweep `{sweep.id}`, spec `{sweep.spec_digest[:12]}`, inputs `{report.inputs_digest[:12]}`{versions}."
