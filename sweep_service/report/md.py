"""The report as Markdown: verdict, warnings and tables. Curves are left to HTML and JSON."""

from collections.abc import Sequence
from typing import Final

from sweep_service.records import TrialState
from sweep_service.report.labels import NOTHING, count, interval, number, signed
from sweep_service.report.model import Best, Comparison, ConfigRow, Report, StageResult, TrialRow

_SPECIAL: Final = str.maketrans(
    {char: f"\\{char}" for char in "\\`*_[]|#~$!"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
)
_MOST_CONFIGS: Final = 50
_MOST_FAILURES: Final = 20


def render_markdown(report: Report) -> bytes:
    """Render the summary, ending in a newline. Equal reports give equal bytes."""
    sweep = report.sweep
    outcome, sentence = report.verdict.sentence.split(": ", 1)
    parts = [f"# Sweep {plain(sweep.name)}"]
    if report.interim:
        parts.append(
            f"**Interim report.** The sweep is {sweep.state.lower()}; every number may still change, "
            "and the intervals do not allow for looking early."
        )
    parts.append(f"**{outcome}**: {plain(sentence)}")
    parts.append(f"Objective: {plain(report.objective)}.")
    if sweep.message:
        parts.append(plain(sweep.message))
    if report.cautions:
        parts += ["## Warnings", _bullets([f"`{item.code}` {plain(item.text)}" for item in report.cautions])]
    if report.best:
        parts += ["## Best config of the space", *_best(report.best)]
    if report.comparisons:
        parts += ["## Against the comparators", _comparisons(report.comparisons)]
    parts += ["## Configs", _configs(report.configs)]
    if failures := [trial for trial in report.trials if trial.state in (TrialState.FAILED, TrialState.DIVERGED)]:
        parts += ["## Failures", _failures(failures)]
    parts += ["## How this was computed", _bullets([plain(line) for line in report.method])]
    versions = "".join(f", {plain(name)} {plain(version)}" for name, version in report.versions.items())
    parts.append(
        f"Sweep `{sweep.id}`, spec `{sweep.spec_digest[:12]}`, inputs `{report.inputs_digest[:12]}`{versions}."
    )
    return ("\n\n".join(parts) + "\n").encode()


def plain(value: str) -> str:
    """A user's text on one line, with nothing in it that Markdown or HTML would act on."""
    return " ".join(value.split()).translate(_SPECIAL)


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _best(best: Best) -> list[str]:
    facts = [["confirm", *_stage(best.confirm)], ["tune", *_stage(best.tune)]]
    fence = "`" * max(3, 1 + _longest_run(best.yaml))
    parts = [f"**{plain(best.label)}** {plain(best.why)}", _table(["stage", "mean", "95 % interval", "seeds"], facts)]
    if best.optimism is not None:
        parts.append(f"Winner's optimism (tune minus confirm): {signed(best.optimism)}.")
    return [*parts, f"`{best.command}` with", f"{fence}yaml\n{best.yaml}{fence}"]


def _longest_run(text: str) -> int:
    """Length of the longest run of backticks."""
    longest = run = 0
    for char in text:
        run = run + 1 if char == "`" else 0
        longest = max(longest, run)
    return longest


def _stage(result: StageResult | None) -> list[str]:
    if result is None:
        return [NOTHING, NOTHING, "0"]
    return [number(result.mean), interval(result.low, result.high) or NOTHING, str(result.n)]


def _comparisons(comparisons: Sequence[Comparison]) -> str:
    rows = [
        [
            plain(found.label),
            plain(found.comparator_label),
            f"{signed(found.difference)} {interval(found.low, found.high, sign=True)}".strip(),
            str(found.num_seeds),
            found.outcome,
        ]
        for found in comparisons
    ]
    return _table(["config", "minus", "difference, 95 %", "seeds", ""], rows)


def _configs(configs: Sequence[ConfigRow]) -> str:
    rows = [
        [
            plain(row.label),
            " ".join(_stage(row.confirm)[:2]),
            number(row.confirm.sd) if row.confirm else NOTHING,
            str(row.confirm.n) if row.confirm else "0",
            number(row.tune.mean) if row.tune else NOTHING,
            str(row.tune.n) if row.tune else "0",
            f"{number(row.entropy_start, 2)} → {number(row.entropy_end, 2)}",
            f"{number(row.reward_peak, 2)} → {number(row.reward_final, 2)}",
            f"{row.reward_collapsed} of {sum(row.states.values())}",
        ]
        for row in configs[:_MOST_CONFIGS]
    ]
    header = [
        "config",
        "confirm mean, 95 %",
        "sd",
        "n",
        "tune mean",
        "n",
        "entropy",
        "reward peak → final",
        "collapsed",
    ]
    more = len(configs) - _MOST_CONFIGS
    return _table(header, rows) + (f"\n\n… and {count(more, 'more config')} in the JSON." if more > 0 else "")


def _failures(trials: Sequence[TrialRow]) -> str:
    lines = [
        f"trial {trial.number}, {plain(trial.label)}, {trial.stage} seed {trial.seed}: {trial.state.lower()} at step "
        f"{trial.step} of {trial.total_steps}: {plain(trial.message or 'no message')}"
        for trial in trials[:_MOST_FAILURES]
    ]
    more = len(trials) - _MOST_FAILURES
    return _bullets([*lines, *([f"and {more} more in the JSON"] if more > 0 else [])])
