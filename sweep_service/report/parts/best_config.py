"""The best config of the space: how it was chosen, what speaks for and against it, and the file that trains it."""

import json
import shlex
from collections.abc import Sequence
from functools import lru_cache
from statistics import fmean
from typing import Final, NamedTuple

from sweep_service.report.facts.table_rows import is_comparator
from sweep_service.report.formatting import count, estimate, number, signed
from sweep_service.report.model import BestConfig, CheckpointRef, ConfigRow, Outcome, StageResult
from sweep_service.report.parts.provenance import provenance
from sweep_service.report.sweep_facts import Facts
from sweep_service.report.verdict.comparators import LOSS
from sweep_service.report.verdict.verdict import all_equal_text, shared_lead_text
from sweep_service.sweep.links import run_link
from sweep_service.sweep.objective import all_diverged, means_of_all, same_objective
from sweep_service.sweep.own_trainer import command_line, own_file
from sweep_service.sweep.records import Role, Stage, Trial, TrialState
from trainers.yaml_text import write_yaml

FILE_NAME: Final = "best.yaml"
_MOST_OTHERS: Final = 8
_STANDING: Final = {
    (True, True): "; it may still be the best",
    (True, False): "; it may be the best only if its runs are ruined less often",
    (False, True): "; it is not the best on average over all runs",
    (False, False): "; the data rule it out as the best",
}
"""Standing of another config, by whether it may be the best over all runs, and whether it may in sound ones."""


def card(facts: Facts) -> BestConfig | None:
    """Return everything about the best config; None if nothing succeeded."""
    row = facts.best
    if row is None:
        return None
    trials = [trial for trial in facts.inputs.trials if trial.config_id == row.id]
    confirm = [trial for trial in trials if trial.stage is Stage.CONFIRM]
    trials = sorted(confirm or trials, key=lambda trial: trial.seed)
    standing = _standing(facts, row)
    spec, seed = facts.inputs.sweep.spec, trials[0].seed
    newest = {checkpoint.trial_id: checkpoint for checkpoint in facts.inputs.checkpoints}
    if spec.trainer is not None:
        command = f"mkdir -p run && {shlex.join(command_line(spec.trainer.command, FILE_NAME, 'run'))}"
    else:
        command = train_command(trials[0].threads, spec.resources.processes_for(spec.base), f"seed={seed}")
    return BestConfig(
        config_id=row.id,
        label=row.label,
        why=_why(facts, row),
        tune=row.tune,
        confirm=row.confirm,
        optimism=standing and standing.optimism,
        params=row.params,
        evidence=_evidence(facts, row, standing),
        others=_others(facts, row),
        yaml=_yaml(facts, row, trials[0], command),
        command=command,
        seeds=[trial.seed for trial in trials if trial.stage is Stage.CONFIRM],
        checkpoints=[
            CheckpointRef(trial_id=trial.id, seed=trial.seed, stage=trial.stage, step=last.step, path=last.path)
            for trial in trials
            if (last := newest.get(trial.id))
        ],
        mlflow_urls=[url for trial in trials if (url := run_link(facts.inputs.mlflow_url, trial.mlflow_run_id))],
        provenance=provenance(facts, facts.configs[row.id]),
    )


class _Standing(NamedTuple):
    """A config's standing in the tune stage, which chose it, and on fresh seeds."""

    tune: float
    confirm: float
    other: ConfigRow | None
    """The config from which both are differences; None if they are the config's means."""

    @property
    def optimism(self) -> float:
        """The amount by which tuning saw the config better than fresh seeds did."""
        return self.tune - self.confirm


def _standing(facts: Facts, row: ConfigRow) -> _Standing | None:
    """Return the config's standing in both stages; None where they cannot be compared.

    Where each stage has validation problems of its own, one half may be easier than the other. Then it is the config's
    lead, seed by seed, over the first comparator that ran on its seeds in both stages and was not chosen itself.
    """
    if row.tune is None or row.confirm is None:
        return None
    if not facts.inputs.halves:
        return _Standing(row.tune.mean, row.confirm.mean, None)
    comparators = (facts.rows[one.comparator_id] for one in facts.comparisons if one.config_id == row.id)
    for other in comparators:
        if other.id not in facts.candidates and other.tune and other.confirm and (tune := row.tune.minus(other.tune)):
            return _Standing(fmean(tune.values()), fmean(row.confirm.minus(other.confirm).values()), other)
    return None


def _why(facts: Facts, row: ConfigRow) -> str:
    if all_diverged(trial.state for trial in facts.trials):
        return "Every trial with a result diverged, so no config is the best; this is the first of the space."
    if row.confirm is None:
        if equal := all_equal_text(facts.rows):
            return f"On the tune seeds {equal}; this is the first of them."
        shared = shared_lead_text(row, facts.rows)
        first = f"; {shared}, and it is the first of them" if shared else ""
        return f"Of the space's configs it has the highest mean on the tune seeds, on which it was chosen{first}."
    candidates = [facts.rows[id_] for id_ in facts.candidates]
    others = [other for other in candidates if other.id != row.id and other.confirm is not None]
    fresh, mean = count(row.confirm.n, "fresh seed"), number(row.confirm.mean)
    objectives, worst = (
        {trial.id: trial.objective for trial in facts.trials},
        facts.inputs.sweep.spec.objective.diverged,
    )
    mean_of = means_of_all([one.id for one in (row, *others)], facts.inputs.trials, objectives, worst)
    behind = ", ".join(f"{other.label} {number(mean_of[other.id])}" for other in others)
    text = f"Tuning chose it; on {fresh} it has a mean of {mean}."
    if behind:
        highest = f"it has the highest mean, {number(mean_of[row.id])}, ahead of {behind}"
        if all(same_objective(mean_of[other.id], mean_of[row.id]) for other in others):
            highest = f"it has exactly the same mean as {behind}, and is the first of them"
        text = (
            f"Tuning chose {count(len(others) + 1, 'config')}; over its trials of both stages {highest}. "
            f"On the {fresh} alone its mean is {mean}."
        )
    comparison = facts.verdict.comparison
    if comparison is None:
        return text
    outcome = facts.verdict.outcome
    if outcome is Outcome.UNDECIDED or outcome.sign == 0:
        text += (
            f" It cannot be told apart from {comparison.comparator_label}; this is not a win. Where nothing else "
            f"speaks for it, prefer the simpler one: {comparison.comparator_label}."
        )
    elif outcome.sign == -1:
        where = "" if outcome is Outcome.WORSE else " where no run is ruined"
        where += ", on these problems" if outcome.is_of_these_problems else ""
        text += f" It is behind {comparison.comparator_label}{where}; prefer that."
    elif outcome is Outcome.AHEAD:
        text += f" Where no run is ruined it is ahead of {comparison.comparator_label}; on average that is open."
    elif outcome is Outcome.AHEAD_HERE:
        text += (
            f" Where no run is ruined it is ahead of {comparison.comparator_label} on these problems; on others that "
            "is open."
        )
    return text + _not_from_its_loss(facts, row)


def _not_from_its_loss(facts: Facts, row: ConfigRow) -> str:
    """Say which of the config's advantages may come from something other than the loss, or than its betas."""
    own = [c for c in facts.comparisons if c.config_id == row.id]
    gain = next((c for c in own if c.comparator_role is Role.BASELINE and c.outcome.sign == 1), None)
    alone = next((c for c in own if c.comparator_role is Role.MATCHED), None)
    if gain is None or alone is None or alone.outcome.sign == 1 or alone.differs_in != [LOSS]:
        return ""
    source = "what its loss adds to PPO clip" if gain.differs_in == [LOSS] else "its loss"
    over = "The gain" if facts.verdict.comparison == gain else f"It is ahead of {gain.comparator_label}, but the gain"
    return (
        f" {over} is not shown to come from {source}: with PPO clip and all else equal ({alone.comparator_label}) "
        f"the difference is {estimate(alone.difference, alone.low, alone.high, sign=True)}."
    )


def _evidence(facts: Facts, row: ConfigRow, standing: _Standing | None) -> list[str]:
    texts = [
        f"Minus {c.comparator_label}: {estimate(c.difference, c.low, c.high, sign=True)}, "
        f"{count(c.num_seeds, 'confirm seed')}."
        for c in facts.comparisons
        if c.config_id == row.id
    ]
    if standing and row.tune:
        saw, gave = number(standing.tune), number(standing.confirm)
        on, fresh = count(row.tune.n, "seed"), "fresh seeds"
        if standing.other:
            saw, gave = f"it {signed(standing.tune)} from {standing.other.label}", signed(standing.confirm)
            on, fresh = f"{on} and half of the problems", "fresh seeds and the other half"
        texts.append(f"Tuning saw {saw} on {on}, {fresh} gave {gave}: an optimism of {signed(standing.optimism)}.")
    texts += [_health(facts, row), _cost(row, facts.baseline)]
    if row.evaluation_se is not None:
        texts.append(
            f"Sampling completions at evaluations gives one trial's objective a standard error of "
            f"{number(row.evaluation_se)}; the rest of its spread over seeds comes from training."
        )
    return [text for text in texts if text]


def _health(facts: Facts, row: ConfigRow) -> str:
    trials, baseline = facts.trials_of(row.id), facts.baseline
    bad = {
        "ruined": sum(trial.ruined for trial in trials),
        "lost their entropy": sum(trial.entropy_collapsed for trial in trials),
        "failed": sum(trial.state is TrialState.FAILED for trial in trials),
    }
    endings = ", ".join(f"{n} {what}" for what, n in bad.items() if n) or "none was ruined or failed"
    text = f"Of its {count(len(trials), 'trial')} {endings}"
    if row.entropy_kept is not None:
        text += f"; on average {row.entropy_kept:.0%} of the entropy was left at the end"
        if baseline and baseline.id != row.id and baseline.entropy_kept is not None:
            text += f" (baseline: {baseline.entropy_kept:.0%})"
    return f"{text}."


def _cost(row: ConfigRow, baseline: ConfigRow | None) -> str:
    if row.hours is None:
        return ""
    minutes = row.hours * 60
    text = f"A trial takes {minutes:.1f} minutes" if minutes >= 1 else f"A trial takes {60 * minutes:.1f} seconds"
    if row.tokens is not None:
        text += f" and {row.tokens:,.0f} completion tokens"
        if baseline and baseline.id != row.id and baseline.tokens:
            text += f" (baseline: {baseline.tokens:,.0f})"
    return f"{text}."


def _others(facts: Facts, row: ConfigRow) -> list[str]:
    """Say why other configs were not picked: the confirmed ones, then the best of those that tuning dropped."""
    rest = [other for other in facts.ordered if other.id != row.id]
    texts = [_confirmed(facts, row, other, other.confirm) for other in rest if other.confirm]
    dropped = [other for other in rest if other.confirm is None and other.tune and not is_comparator(other)]
    first = next((other.id for other in dropped if other.id not in facts.candidates), None)
    for other in dropped:
        if other.tune:
            gap = other.tune.mean - (row.tune.mean if row.tune else other.tune.mean)
            text = f"{other.label}: {number(other.tune.mean)} on {count(other.tune.n, 'tune seed')}, {_apart(gap)}"
            if row.confirm:
                chosen = other.id in facts.candidates
                so_far = " so far" if facts.inputs.interim else ""
                text += f"; chosen too, without a confirm result{so_far}" if chosen else "; not confirmed"
                text += ", dropped early" if facts.configs[other.id].dropped else ""
                text += ", the first below the line" if other.id == first else ""
            texts.append(f"{text}{_ruined(other)}.")
    return texts[:_MOST_OTHERS]


def _confirmed(facts: Facts, row: ConfigRow, other: ConfigRow, stage: StageResult) -> str:
    text = f"{other.label}: {number(stage.mean)} on {count(stage.n, 'confirm seed')}"
    if row.confirm is not None:
        text += f", {_apart(stage.mean - row.confirm.mean)}"
    members = facts.verdict.ties.members if facts.verdict.ties else []
    member = next((member for member in members if member.config_id == other.id), None)
    if member is not None and member.low is not None:
        text += _STANDING[member.in_set, member.in_sound_set]
    return f"{text}{_ruined(other)}."


def _apart(gap: float) -> str:
    return f"{number(abs(gap))} {'lower' if gap <= 0 else 'higher'}"


def _ruined(row: ConfigRow) -> str:
    trials = count(sum(row.states.values()), "trial")
    return f"; {row.ruined} of {trials} ruined" if row.ruined else ""


def train_command(threads: int, processes: int, *options: str) -> str:
    """Return the command that trains by the file with a trial's threads and processes, on which results depend."""
    together = [f"--processes {processes}"] if processes > 1 else []
    return " ".join(
        [f"OMP_NUM_THREADS={max(1, threads // processes)} python -m trainers", FILE_NAME, *options, *together]
    )


def commented(lines: Sequence[str]) -> str:
    """Write the lines as the comment that leads a file."""
    return "".join(f"# {' '.join(line.split())}\n" for line in lines)


def _yaml(facts: Facts, row: ConfigRow, trial: Trial, command: str) -> str:
    config, sweep = facts.configs[row.id], facts.inputs.sweep
    if config.is_own:
        return own_file({"seed": trial.seed, **config.settings})
    lines = [
        f"{row.label}: config {row.id} of sweep {sweep.name} ({sweep.id})",
        facts.verdict.sentence,
        f"Run it: {command}",
        f"This is the {trial.stage} trial {trial.id}. With --cache FOLDER it takes the sweep's models and data.",
    ]
    return f"{commented(lines)}seed: {trial.seed}\n{_dumped(json.dumps(config.settings))}"


@lru_cache(maxsize=64)
def _dumped(training: str) -> str:
    return write_yaml(json.loads(training))
