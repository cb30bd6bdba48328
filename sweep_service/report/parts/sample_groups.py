"""Completions of the best config, the baseline and the worst config, on common prompts where there are any."""

import math
from collections.abc import Collection
from typing import Final, Literal

from sweep_service.report.model import ConfigRow, SampledCompletion, SampleGroup
from sweep_service.report.sweep_facts import Facts
from sweep_service.sweep.records import Sample, Stage

MOST: Final = 6
"""Number of completions shown of each config."""

_Kind = Literal["best", "baseline", "worst"]


def sample_groups(facts: Facts) -> list[SampleGroup]:
    """Show completions of three policies, from the last evaluation of a confirm trial, or of a tune trial."""
    by_trial: dict[str, list[Sample]] = {}
    for sample in facts.inputs.samples:
        by_trial.setdefault(sample.trial_id, []).append(sample)
    with_samples = [trial for trial in facts.trials if trial.id in by_trial]
    with_samples.sort(key=lambda trial: (trial.stage is Stage.CONFIRM, -trial.seed))  # a config's last one is shown
    trials = {trial.config_id: trial for trial in with_samples}
    groups: list[tuple[_Kind, ConfigRow, list[Sample]]] = [
        (kind, row, by_trial[trials[row.id].id]) for kind, row in _shown(facts, trials.keys())
    ]
    prompts: dict[str, int] = {}  # those that all groups have, with their position in the first group
    if groups:
        shared = set[str].intersection(*({sample.prompt for sample in samples} for *_, samples in groups))
        first = dict.fromkeys(sample.prompt for sample in groups[0][-1])
        prompts = {prompt: place for place, prompt in enumerate(first) if prompt in shared}
    return [
        SampleGroup(
            role=kind,
            config_id=row.id,
            label=row.label,
            trial_id=trials[row.id].id,
            seed=trials[row.id].seed,
            step=samples[0].step,
            items=[
                SampledCompletion(prompt=sample.prompt, completion=sample.completion, reward=sample.reward)
                for sample in sorted(samples, key=lambda sample: prompts.get(sample.prompt, math.inf))[:MOST]
            ],
        )
        for kind, row, samples in groups
    ]


def _shown(facts: Facts, with_samples: Collection[str]) -> list[tuple[_Kind, ConfigRow]]:
    """Return best, baseline and worst config with samples; each config once."""
    shown: list[tuple[_Kind, ConfigRow]] = [("best", facts.best)] if facts.best else []
    if facts.baseline is not None:
        shown.append(("baseline", facts.baseline))
    taken = {row.id for _, row in shown}
    stages = {row.id: row.tune or row.confirm for row in facts.rows.values()}  # all configs have tune seeds in common
    means = {id_: stage.mean for id_, stage in stages.items() if stage}
    rest = [facts.rows[id_] for id_ in means if id_ not in taken and id_ in with_samples]
    if rest:
        shown.append(("worst", min(rest, key=lambda row: (means[row.id], row.number))))
    return [(kind, row) for kind, row in shown if row.id in with_samples]
