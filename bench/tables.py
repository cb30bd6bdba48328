"""The tables of docs/results.md, between `<!-- table: STUDY -->` and `<!-- end -->`."""

import re
from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Final

from scipy.stats import t as student
from studies import LOSSES

_LAST_EVALUATIONS: Final = 3
_WINDOW: Final = 0.1
"""Share of training over which a value "at x %" is averaged: the part that ends there."""

Runs = dict[str, Any]
"""A loss's runs by seed."""


def write_tables(results: dict[str, Any], file: Path) -> None:
    """Replace each table by one of the present curves."""
    text = file.read_text()
    for study, settings in results.items():
        table = {"losses": _losses, "family": _losses, "confirm": _confirm}.get(study, _search)(settings)
        pattern = rf"(<!-- table: {study} -->\n).*?(<!-- end -->)"
        text = re.sub(pattern, lambda found, new=table: found[1] + new + found[2], text, flags=re.DOTALL)
    file.write_text(text)


def _losses(settings: dict[str, dict[str, Runs]]) -> str:
    losses = settings["default"]
    columns: dict[str, Callable[[Runs], str]] = {
        "entropy at 25 %": lambda runs: _spread(_at("entropy", 0.25, runs)),
        "50 %": lambda runs: _spread(_at("entropy", 0.5, runs)),
        "100 %": lambda runs: _spread(_at("entropy", 1, runs)),
        "frozen": lambda runs: _spread(_at("probe/entropy", 1, runs)),
        "reward": lambda runs: _spread(_at("reward/mean", 1, runs)),
        "avg@32": lambda runs: _spread(_scores("eval/avg_at_k", runs)),
        "minus GRPO": lambda runs: _difference("eval/avg_at_k", runs, losses["grpo"]),
        "pass@8": lambda runs: _spread(_scores("eval/pass_at_k", runs)),
        "answers": lambda runs: f"{mean(_scores('eval/distinct_answers', runs)):.1f}",
        "dropped": lambda runs: f"{100 * mean(run['clip_fraction/dropped'] for run in runs.values()):.2g} %",
    }
    rows = [[LOSSES[loss].label, *(cell(runs) for cell in columns.values())] for loss, runs in losses.items()]
    return _table(["loss", *columns], rows)


def _search(settings: dict[str, dict[str, Runs]]) -> str:
    columns: dict[str, Callable[[Runs], str]] = {
        "entropy, first": lambda runs: f"{mean(run['entropy'][0] for run in runs.values()):.2f}",
        "entropy, last": lambda runs: f"{mean(_at('entropy', 1, runs)):.2f}",
        "avg@32, first": lambda runs: f"{mean(run['eval/avg_at_k'][0] for run in runs.values()):.3f}",
        "avg@32, last": lambda runs: _spread(_scores("eval/avg_at_k", runs), digits=3),
        "pass@8, best": lambda runs: f"{mean(max(run['eval/pass_at_k']) for run in runs.values()):.3f}",
        "pass@8, last": lambda runs: _spread(_scores("eval/pass_at_k", runs), digits=3),
    }
    rows = [
        [setting, LOSSES[loss].label, *(cell(runs) for cell in columns.values())]
        for setting, losses in settings.items()
        for loss, runs in losses.items()
    ]
    return _table(["setting", "loss", *columns], rows)


def _confirm(settings: dict[str, dict[str, Runs]]) -> str:
    ((_, losses),) = settings.items()
    columns: dict[str, Callable[[Runs], str]] = {"entropy, last": lambda runs: _spread(_at("entropy", 1, runs))}
    for name, curve in (("avg@32", "eval/avg_at_k"), ("pass@8", "eval/pass_at_k")):
        columns[name] = lambda runs, curve=curve: _spread(_scores(curve, runs), digits=3)
        for other in ("grpo", "dapo"):
            columns[f"{name} minus {LOSSES[other].label}"] = lambda runs, curve=curve, other=other: _difference(
                curve, runs, losses[other]
            )
    rows = [[LOSSES[loss].label, *(cell(runs) for cell in columns.values())] for loss, runs in losses.items()]
    return _table(["loss", *columns], rows)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _at(curve: str, share: float, runs: Runs) -> list[float]:
    ends = [(round(share * len(run[curve])), max(1, round(_WINDOW * len(run[curve])))) for run in runs.values()]
    return [mean(run[curve][end - width : end]) for run, (end, width) in zip(runs.values(), ends, strict=True)]


def _scores(curve: str, runs: Runs) -> list[float]:
    """The mean of each run's last evaluations; 0 for a run that diverged."""
    return [mean(run[curve][-_LAST_EVALUATIONS:]) if run["outcome"] == "SUCCEEDED" else 0.0 for run in runs.values()]


def _spread(values: list[float], digits: int = 2) -> str:
    shown = f"{mean(values):.{digits}f}"
    return f"{shown} ± {stdev(values):.{digits}f}" if len(values) > 1 else shown


def _difference(curve: str, runs: Runs, reference: Runs) -> str:
    """Paired by seed, with a 95 % t interval."""
    if runs is reference:
        return ""
    differences = [a - b for a, b in zip(_scores(curve, runs), _scores(curve, reference), strict=True)]
    if len(differences) == 1:
        return f"{differences[0]:+.3f}"
    half = float(student.ppf(0.975, len(differences) - 1)) * stdev(differences) / len(differences) ** 0.5
    return f"{mean(differences):+.3f} [{mean(differences) - half:+.3f}, {mean(differences) + half:+.3f}]"
