"""Completions of the best config, the baseline and the worst config, on common prompts where there are any."""

import math
from collections.abc import Collection, Sequence
from typing import Final, Literal

from sweep_service.report.model import ConfigRow, SampledCompletion, SampleGroup, TrialRow
from sweep_service.report.sweep_facts import Facts
from sweep_service.sweep.records import Sample, Stage

MOST: Final = 6
"""Number of completions shown of each config."""

_Kind = Literal["best", "baseline", "worst"]


def sample_groups(facts: Facts) -> list[SampleGroup]:
    """Show what three policies wrote at the last evaluation of a confirm trial, or of a tune trial."""
    by_trial: dict[str, list[Sample]] = {}
    for sample in facts.inputs.samples:
        by_trial.setdefault(sample.trial_id, []).append(sample)
    groups: list[tuple[_Kind, ConfigRow, TrialRow, list[Sample]]] = [
        (role, row, trial, by_trial[trial.id])
        for role, row in _shown(facts, by_trial.keys())
        if (trial := _trial(facts, row, by_trial.keys()))
    ]
    prompts = _common([samples for *_, samples in groups])
    return [
        SampleGroup(
            role=role,
            config_id=row.id,
            label=row.label,
            trial_id=trial.id,
            seed=trial.seed,
            step=samples[0].step,
            items=[
                SampledCompletion(prompt=sample.prompt, completion=sample.completion, reward=sample.reward)
                for sample in sorted(samples, key=lambda sample: prompts.get(sample.prompt, math.inf))[:MOST]
            ],
        )
        for role, row, trial, samples in groups
    ]


def _shown(facts: Facts, with_samples: Collection[str]) -> list[tuple[_Kind, ConfigRow]]:
    """Return best, baseline and worst config; each config once."""
    shown: list[tuple[_Kind, ConfigRow]] = [("best", facts.best)] if facts.best else []
    if facts.baseline is not None:
        shown.append(("baseline", facts.baseline))
    taken = {row.id for _, row in shown}
    rest = [row for row in facts.rows.values() if row.id not in taken and _mean(row) is not None]
    rest = [row for row in rest if _trial(facts, row, with_samples)]
    if rest:
        shown.append(("worst", min(rest, key=lambda row: (_mean(row) or 0.0, row.number))))
    return shown


def _mean(row: ConfigRow) -> float | None:
    """Return the mean on the tune seeds, which all configs have; else on the confirm seeds."""
    stage = row.tune or row.confirm
    return stage.mean if stage else None


def _trial(facts: Facts, row: ConfigRow, with_samples: Collection[str]) -> TrialRow | None:
    """Return the config's trial with samples and the lowest seed, a confirm trial if there is one."""
    trials = [trial for trial in facts.trials_of(row.id) if trial.id in with_samples]
    return min(trials, key=lambda trial: (trial.stage is not Stage.CONFIRM, trial.seed), default=None)


def _common(groups: Sequence[Sequence[Sample]]) -> dict[str, int]:
    """Return the prompts that all groups have, with their position in the first group."""
    if not groups:
        return {}
    shared = set[str].intersection(*({sample.prompt for sample in group} for group in groups))
    return {
        prompt: place for place, prompt in enumerate(dict.fromkeys(s.prompt for s in groups[0])) if prompt in shared
    }
