"""The sections of the report as Markdown: each function returns one section's blocks, without its title."""

from typing import Final

from sweep_service.report.formatting import NOTHING, count, estimate, interval, number, plain, signed
from sweep_service.report.model import (
    BenchmarkCell,
    BenchmarkDifference,
    BudgetComparison,
    Comparison,
    Report,
    StageResult,
)
from sweep_service.report.parts.best_config import FILE_NAME
from sweep_service.report.render import views
from sweep_service.report.render.markdown_text import bullets, code, fenced, table
from sweep_service.sweep.labels import ROLE_NAMES, short_name, value_text
from sweep_service.sweep.records import Role, Stage

_MOST_CONFIGS: Final = 50
_MOST_FAILURES: Final = 20
_MOST_PROMPTS: Final = 3
_MOST_TRIALS: Final = 12
_MOST_LETTERS: Final = 240
"""Number of letters shown of a prompt and of a completion."""


def configs(report: Report) -> list[str]:
    """List the configs, one a row."""
    if not report.configs:
        return ["No config has been tried."]
    names, tune = views.varied(report), views.deltas(report, Stage.TUNE)
    compared = views.compared(report)
    header = [
        "config", *(plain(short_name(name)) for name in names),
        "confirm mean, 95 %", "sd over seeds", "n",
        *([f"minus {views.comparator_name(compared)}, sound runs, {views.confidence(report)}", ""] if compared else []),
        "tune mean", *([f"minus {views.reference_name(report)}"] if tune else []), "n",
        "entropy", "reward peak → final", "ruined",
    ]  # fmt: skip
    rows: list[list[str]] = []
    for row in report.configs[:_MOST_CONFIGS]:
        values = [row.params.get(name) for name in names]
        roles = [ROLE_NAMES[role] for role in row.roles if role is not Role.SPACE]
        best = ["**best**"] if report.best is not None and report.best.config_id == row.id else []
        comparison = compared.get(row.id)
        rows.append(
            [
                " ".join([str(row.number), *best, *roles]),
                *(NOTHING if value is None else plain(value_text(value)) for value in values),
                " ".join(_stage(row.confirm)[:2]) if row.confirm else NOTHING,
                number(row.confirm.sd) if row.confirm else NOTHING,
                str(row.confirm.n) if row.confirm else "0",
                *([_difference(comparison), comparison.outcome if comparison else NOTHING] if compared else []),
                number(row.tune.mean) if row.tune else NOTHING,
                *([_difference(tune.get(row.id))] if tune else []),
                str(row.tune.n) if row.tune else "0",
                f"{number(row.entropy_start, 2)} → {number(row.entropy_end, 2)}",
                f"{number(row.reward_peak, 2)} → {number(row.reward_final, 2)}",
                f"{row.ruined} of {sum(row.states.values())}",
            ]
        )
    more = len(report.configs) - _MOST_CONFIGS
    spread = views.spread_text(report)
    return [
        table(header, rows),
        *([f"… and {count(more, 'more config')} in the JSON."] if more > 0 else []),
        *([spread] if spread else []),
    ]


def _stage(result: StageResult | None) -> list[str]:
    if result is None:
        return [NOTHING, NOTHING, "0"]
    return [number(result.mean), interval(result.low, result.high) or NOTHING, str(result.n)]


def _difference(compared: Comparison | BudgetComparison | BenchmarkDifference | views.Delta | None) -> str:
    if compared is None:
        return NOTHING
    return estimate(compared.difference, compared.low, compared.high, sign=True)


def warnings(report: Report) -> list[str]:
    """List the warnings, each with its rule and the trials that met it."""
    numbers = views.trial_numbers(report)
    lines: list[str] = []
    for caution in report.cautions:
        line = f"{code(caution.code)} {plain(caution.text)}"
        if caution.rule:
            line += f" *Rule: {plain(caution.rule)}*"
        if caution.trials:
            shown = ", ".join(str(numbers[id_]) for id_ in caution.trials[:_MOST_TRIALS])
            more = len(caution.trials) - _MOST_TRIALS
            line += f" ({'trials' if caution.trials[1:] else 'trial'} {shown}{f' and {more} more' if more > 0 else ''})"
        lines.append(line)
    return [bullets(lines)]


def exploration(report: Report) -> list[str]:
    """State main effects and the response surface, if parameters were explored."""
    findings = report.exploration
    if findings is None:
        return []
    blocks = [bullets([plain(line) for line in findings.text])] if findings.text else []
    rows = [
        [plain(effect.label), plain(level.text), estimate(level.mean, level.low, level.high), str(level.configs)]
        for effect in findings.effects
        for level in effect.levels
    ]
    if rows:
        blocks.append(table(["parameter", "value", "adjusted mean, 95 %", "configs"], rows))
    return [*blocks, plain(findings.surface.text)] if findings.surface else blocks


def benchmarks(report: Report) -> list[str]:
    """Tabulate scores on benchmarks and pass@k, if the sweep has benchmarks."""
    measured = report.benchmarks
    if measured is None:
        return []
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
    parts = [f"**{average}**" if leads else average]
    if cell.difference:
        parts.append(f"{_difference(cell.difference)}{' *shown*' if cell.difference.shown else ''}")
    return "; ".join([*parts, f"n {cell.num_seeds}", count(cell.num_problems, "problem")])


def best(report: Report) -> list[str]:
    """Present the best config: how it was chosen, its file, checkpoints and provenance."""
    config = report.best
    if config is None:
        return []
    stages = [["tune", *_stage(config.tune)], ["confirm", *_stage(config.confirm)]]
    blocks = [
        f"**{plain(config.label)}** {plain(config.why)}",
        table(["stage", "mean", "95 % interval", "seeds"], stages),
    ]
    if config.optimism is not None:
        lead = "its lead: " if report.halves else ""
        blocks.append(f"Winner's optimism ({lead}tune minus confirm): {signed(config.optimism)}.")
    if config.evidence:
        blocks.append(bullets([plain(line) for line in config.evidence]))
    if config.others:
        blocks += ["Why not the others:", bullets([plain(line) for line in config.others])]
    blocks += [f"{code(config.command)} with `{FILE_NAME}`:", fenced(config.yaml, "yaml")]
    if config.checkpoints:
        points = [f"{one.stage} seed {one.seed}, step {one.step}: {code(one.path)}" for one in config.checkpoints]
        blocks += ["Checkpoints:", bullets(points)]
    if config.provenance:
        facts = [f"{plain(name)}: {plain(value)}" for name, value in config.provenance.items()]
        blocks += ["Provenance:", bullets(facts)]
    return blocks


def comparisons(report: Report) -> list[str]:
    """Tabulate every comparison, also at equal cost."""
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
    at_cost = [f"at equal {unit}" for unit in units]
    return [table(["config", "minus", "", f"at equal steps, {views.confidence(report)}", *at_cost, "seeds"], rows)]


def claims(report: Report) -> list[str]:
    """Hold the paper's claims against the sweep."""
    rows = [
        [
            f"**{claim.outcome}**",
            plain(claim.claim),
            plain(claim.evidence),
            NOTHING if claim.estimate is None else estimate(claim.estimate, claim.low, claim.high),
        ]
        for claim in report.claims
    ]
    return [table(["", "claim", "evidence here", "estimate, 95 %"], rows)]


def samples(report: Report) -> list[str]:
    """Show the first problems, each with one completion of every group."""
    groups = [f"{group.role}: {plain(group.label)}, seed {group.seed}, step {group.step}" for group in report.samples]
    blocks = [bullets(groups)]
    for prompt in views.prompts(report.samples)[:_MOST_PROMPTS]:
        answers = [
            f"{group.role}: {plain(_shortened(items[0].completion))} (reward {number(items[0].reward, 2)})"
            for group, items in zip(report.samples, prompt.completions, strict=True)
            if items
        ]
        blocks += [f"Prompt: {plain(_shortened(prompt.text))}", bullets(answers)]
    return blocks


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]} …"


def failures(report: Report) -> list[str]:
    """List the first trials that went wrong."""
    trials = views.failures(report)
    lines = [
        f"trial {trial.number}, {plain(trial.label)}, {trial.stage} seed {trial.seed}: {trial.state.lower()} at step "
        f"{trial.step} of {trial.total_steps}: {plain(trial.message or 'no message')}"
        for trial in trials[:_MOST_FAILURES]
    ]
    more = [f"and {len(trials) - _MOST_FAILURES} more in the JSON"] if len(trials) > _MOST_FAILURES else []
    return [bullets([*lines, *more])]


def method(report: Report) -> list[str]:
    """List the sentences on how the numbers were made."""
    return [bullets([plain(line) for line in report.method])]
