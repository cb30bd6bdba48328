"""The best config of the space: how it was chosen, and the file that trains it."""

from collections.abc import Mapping, Sequence

import yaml

from sweep_service.records import Config, Sweep
from sweep_service.report.facts import Facts
from sweep_service.report.labels import count, number
from sweep_service.report.model import Best, ConfigRow, Outcome, Verdict

FILE_NAME = "best.yaml"


def pick(candidates: Sequence[str], rows: Mapping[str, ConfigRow]) -> ConfigRow | None:
    """The candidate with the highest confirm mean; while none is confirmed, the first one by tune mean.

    Args:
        candidates: ids of the configs that tuning chose, best first.
        rows: all configs' results.
    """
    chosen = [rows[id_] for id_ in candidates]
    confirmed = [(row.confirm.mean, -row.number, row) for row in chosen if row.confirm is not None]
    if confirmed:
        return max(confirmed, key=lambda item: item[:2])[2]
    return chosen[0] if chosen else None


def card(facts: Facts) -> Best | None:
    """Everything about the best config; None if nothing succeeded."""
    row, verdict = facts.best, facts.verdict
    if row is None:
        return None
    config, sweep = facts.configs[row.id], facts.inputs.sweep
    candidates = [facts.rows[id_] for id_ in facts.candidates]
    optimism = row.tune.mean - row.confirm.mean if row.tune and row.confirm else None
    return Best(
        config_id=row.id,
        label=row.label,
        why=_why(row, candidates, verdict),
        tune=row.tune,
        confirm=row.confirm,
        optimism=optimism,
        yaml=_yaml(row, config, sweep, verdict),
        command=f"python -m trainers {FILE_NAME}",
    )


def _why(row: ConfigRow, candidates: Sequence[ConfigRow], verdict: Verdict) -> str:
    if row.confirm is None:
        return "It has the highest mean on the tune seeds, the same that it was chosen on."
    others = [other for other in candidates if other.id != row.id and other.confirm is not None]
    behind = ", ".join(f"{other.label} {number(other.confirm.mean)}" for other in others if other.confirm)
    text = "Tuning chose it" if not others else f"Tuning chose {count(len(others) + 1, 'config')}"
    text += f"; on {count(row.confirm.n, 'fresh seed')} it has a mean of {number(row.confirm.mean)}"
    text += f", ahead of {behind}." if behind else "."
    comparison = verdict.comparison
    if comparison is None:
        return text
    if verdict.outcome is Outcome.TIED:
        text += f" It cannot be told apart from {comparison.comparator_label}; this is not a win."
    elif verdict.outcome is Outcome.WORSE:
        text += f" It is worse than {comparison.comparator_label}; prefer that."
    return text


def _yaml(row: ConfigRow, config: Config, sweep: Sweep, verdict: Verdict) -> str:
    lines = [
        f"{row.label}: config {row.id} of sweep {sweep.name} ({sweep.id})",
        verdict.sentence,
        f"Run it: python -m trainers {FILE_NAME}",
    ]
    comment = "".join(f"# {' '.join(line.split())}\n" for line in lines)
    return comment + yaml.safe_dump(config.training, sort_keys=False, allow_unicode=True)
