"""Sweeps made up for the report's tests: real records, with curves drawn to look like the embedded task's."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np

from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.sweep.objective import choose, selection_objectives, trial_objective
from sweep_service.sweep.plan import confirm_records, first_records
from sweep_service.sweep.records import Config, Curve, SweepState, Trial, TrialState
from sweep_service.sweep.series import EVALUATION, Steps, TrialSeries, Values
from sweep_service.sweep.spec import SweepSpec
from tests.stored_sweeps import make_sweep


def on_seeds(
    tune: Collection[int] = (0, 1), confirm: Collection[int] = (10, 11, 12, 13), top_k: int = 2
) -> dict[str, Any]:
    """What a spec says of its seeds, with no confirm stage where there are no confirm seeds."""
    stage = {"top_k": top_k, "seeds": [*confirm]} if confirm else None
    return {"seeds": {"tune": [*tune], "confirm": stage}}


SPEC: dict[str, Any] = {
    "name": "beta-grid",
    "labels": {"note": "made up"},
    "training": {"loss": {"name": "ce_gppo"}, "steps": 240},
    "space": {"loss.beta1": [0.0, 0.5, 1.0], "loss.beta2": 1.0},
} | on_seeds()

Fate = Callable[[Config, Trial], Trial]


def succeed(config: Config, trial: Trial) -> Trial:
    """Every trial trains to its end."""
    return trial.model_copy(update={"state": TrialState.SUCCEEDED, "step": trial.total_steps})


def sweep_inputs(
    spec: dict[str, Any] | None = None,
    *,
    fate: Fate = succeed,
    state: SweepState = SweepState.FINALIZING,
    confirmed: bool = True,
    advantage: float = 0.0,
) -> ReportInputs:
    """Run a made-up sweep through both stages.

    Args:
        spec: what differs from `SPEC`.
        fate: what becomes of each trial.
        state: of the sweep.
        confirmed: whether the confirm stage ran.
        advantage: added to the accuracy of beta1 = 0, beta2 = 1.
    """
    parsed = SweepSpec.model_validate(SPEC | (spec or {}))
    configs, planned = first_records(parsed, "swp_test")
    trials, series = _train(configs, planned, fate, advantage)
    if confirmed and parsed.seeds.confirm:
        metric = parsed.objective.metric
        scores = {id_: one.metrics[metric].tolist() for id_, one in series.items() if metric in one.metrics}
        values = {trial.id: trial_objective(trial, scores.get(trial.id, ()), parsed.objective) for trial in trials}
        chosen = choose(configs, selection_objectives(trials, values), parsed.seeds.confirm.top_k)
        changed, planned = confirm_records(parsed, "swp_test", configs, chosen, len(trials))
        configs = sorted(({c.id: c for c in configs} | {c.id: c for c in changed}).values(), key=lambda c: c.number)
        more, more_series = _train(configs, planned, fate, advantage)
        trials, series = trials + more, series | more_series
    return ReportInputs(
        sweep=make_sweep(parsed, id="swp_test", state=state, created_at=1_790_000_000, mlflow_run_id="parent"),
        configs=tuple(configs),
        trials=tuple(trials),
        series=series,
        mlflow_url="http://127.0.0.1:5000",
        versions={"torch": "2.13.0", "trl": "1.16.0"},
        trained_with={trial.id: [{"python": "3.11.9", "torch": "2.13.0"}] for trial in trials},
    )


def _train(
    configs: list[Config], planned: list[Trial], fate: Fate, advantage: float
) -> tuple[list[Trial], dict[str, TrialSeries]]:
    by_id = {config.id: config for config in configs}
    trials: list[Trial] = []
    series: dict[str, TrialSeries] = {}
    for number, trial in enumerate(planned, planned[0].number if planned else 0):
        ended = {"started_at": 1e9 + 25 * number, "ended_at": 1e9 + 25 * number + 22, "held_s": 20.0, "attempts": 1}
        named = trial.model_copy(update={"id": f"trl_{number:04}", "mlflow_run_id": f"run{number}", **ended})
        config = by_id[trial.config_id]
        done = fate(config, named)
        trials.append(done)
        if done.step:
            loss = config.settings["loss"]
            beta1 = loss.get("beta1", 0.0)
            plus = advantage if loss.get("beta2") == 1.0 and beta1 == 0 else 0.0
            series[done.id] = _series(
                done, _metrics(done.seed, config.number, done.step, done.total_steps, beta1, plus)
            )
    return trials, series


def _series(trial: Trial, metrics: Mapping[str, Values]) -> TrialSeries:
    eval_steps = _evaluated(trial.step)
    return TrialSeries(trial.id, np.arange(1, trial.step + 1), eval_steps, 1e9 + eval_steps.astype(float), metrics)


def _evaluated(step: int) -> Steps:
    return np.arange(0, step + 1, 40)


@cache
def _metrics(
    seed: int, config_number: int, last_step: int, total_steps: int, beta1: float, plus: float
) -> Mapping[str, Values]:
    """Draw a trial's curves, which all tests share: beta1 = 0.5 learns less, beta1 = 1 collapses."""
    rng = np.random.default_rng([seed, config_number])
    common = np.random.default_rng(seed).normal(0, 0.012)
    steps = np.arange(1, last_step + 1)
    share = steps / total_steps
    level = 0.84 + plus - 0.12 * (beta1 == 0.5) + common + rng.normal(0, 0.012)
    reward = 0.45 + (level - 0.45) * (1 - np.exp(-4 * share))
    entropy = 1.05 * np.exp(-(1.25 - 0.15 * beta1) * share) + rng.normal(0, 0.02, steps.size)
    if beta1 == 1:
        fall = 1 / (1 + np.exp((share - 0.4 - 0.05 * rng.random()) * 25))
        reward, entropy = reward * fall + 0.03, entropy + 0.5 * (1 - fall) * rng.random()
    rollout = np.repeat(rng.normal(0, 0.02, steps.size // 8 + 1), 8)[: steps.size]
    step_metrics = {
        "entropy": entropy,
        "reward/mean": np.clip(reward + rollout, 0, 1),
        "share/na_lp": 0.012 * (1 + beta1) * (1 - np.exp(-5 * share)) + rng.normal(0, 0.001, steps.size) ** 2,
        "share/pa_lp": 0.009 * (1 - np.exp(-5 * share)) + rng.normal(0, 0.001, steps.size) ** 2,
        "completion/length_mean": 6.5 + rng.normal(0, 0.1, steps.size),
        **_token_metrics(rng, share, beta1),
    }
    every = _evaluated(last_step)
    at = np.clip(every - 1, 0, None)
    evaluations = {
        "eval/avg_at_k": np.clip(reward[at] - 0.04 + rng.normal(0, 0.006, every.size), 0, 1),
        "eval/pass_at_k": np.clip(reward[at] + 0.1, 0, 1),
        "eval/avg_at_k_se": np.full(every.size, 0.006),
        "eval/length_mean": 6.4 + 0.3 * every / total_steps,
    }
    metrics = step_metrics | evaluations
    for values in metrics.values():
        values.setflags(write=False)
    return MappingProxyType(metrics)


def _token_metrics(rng: np.random.Generator, share: Any, beta1: float) -> dict[str, Any]:
    """Everything else that a report reads of updates: regions, ratios, changes of entropy, the probe, the optimizer."""
    size = share.size
    update = np.arange(size) % 8
    apart = 0.02 * update * (1 - np.exp(-5 * share))
    bins = {
        "below_0.5": 0.1,
        "0.5_to_0.8": 0.3,
        "0.8_to_0.95": 1.2,
        "1.05_to_1.25": 1.3,
        "1.25_to_2": 0.3,
        "above_2": 0.1,
    }
    ratios = {f"ratio_share/{name}": weight * apart for name, weight in bins.items()}
    changes = {"na_lp": 2e-4 * beta1, "pa_lp": -1e-4, "pa_low": 1e-5, "na_high": -1e-5, "inside": -1e-3}
    ends = update == 7
    return {
        **ratios,
        "ratio_share/0.95_to_1.05": 1 - 3.3 * apart,
        **{f"entropy_change/predicted_{name}": v * (1 + rng.normal(0, 0.2, size)) for name, v in changes.items()},
        "entropy_change/measured": np.where(ends, rng.normal(-0.012, 0.004, size), np.nan),
        "probe/entropy": np.where(ends, 1.05 * np.exp(-1.2 * share), np.nan),
        "probe/kl_from_initial_k3": np.where(ends, 0.8 * share, np.nan),
        **{f"share/{name}": apart * 0.1 for name in ("pa_low", "na_high")},
        **{f"weight_share/{name}": apart * w for name, w in (("na_lp", beta1), ("pa_lp", 0.8), ("pa_low", 0.1))},
        "weight_share/na_high": apart * 0.1,
        "weight_share/inside": 1 - apart * (1 + beta1),
        "weight_share/potential": apart * 1.8,
        "group/zero_spread_share": 0.1 + 0.4 * share,
        "completion/length_ended": 6.4 + rng.normal(0, 0.1, size),
        "completion/truncated_share": 0.02 * np.ones(size),
        "clip_fraction/low": apart,
        "clip_fraction/high": 0.7 * apart,
        "clip_fraction/dropped": 0.5 * apart,
        "ppo_kl": 0.01 * apart + rng.normal(0, 1e-4, size),
        "kl/k3": 0.01 * apart,
        "grad_norm": 0.4 * np.exp(rng.normal(0, 0.2, size)),
        "tokens/total": np.cumsum(rng.normal(420, 20, size)),
    }


def in_halves(inputs: ReportInputs) -> ReportInputs:
    """The same sweep with trainers that recorded halves: the tune part is 0.1 easier, the confirm part 0.1 harder."""

    def recorded(series: TrialSeries) -> TrialSeries:
        whole, error = series.metrics["eval/avg_at_k"], series.metrics["eval/avg_at_k_se"]
        parts = {f"eval/{part}/avg_at_k": whole + by for part, by in (("tune_part", 0.1), ("confirm_part", -0.1))}
        errors = {f"eval/{part}/avg_at_k_se": 2 * error for part in ("tune_part", "confirm_part")}
        return replace(series, metrics={**series.metrics, **parts, **errors})

    return replace(inputs, series={id_: recorded(series) for id_, series in inputs.series.items()})


def series_of(curves: list[Curve]) -> dict[str, TrialSeries]:
    """Curves as a report takes them."""
    by_trial: dict[str, dict[str, Curve]] = {}
    for curve in curves:
        by_trial.setdefault(curve.trial_id, {})[curve.key] = curve
    return {trial_id: _arrays(trial_id, found) for trial_id, found in by_trial.items()}


def _arrays(trial_id: str, curves: dict[str, Curve]) -> TrialSeries:
    """One trial's curves with common steps; a step that a curve lacks is NaN."""
    times = {step: time for key, curve in curves.items() if key.startswith(EVALUATION) for step, time in _times(curve)}
    eval_steps = np.array(sorted(times), dtype=np.int64)
    steps = np.array(
        sorted({step for key, curve in curves.items() if not key.startswith(EVALUATION) for step in curve.steps}),
        dtype=np.int64,
    )

    def values(curve: Curve) -> Values:
        own = eval_steps if curve.key.startswith(EVALUATION) else steps
        found = np.full(len(own), np.nan)
        found[np.searchsorted(own, curve.steps)] = [np.nan if value is None else value for value in curve.values]
        return found

    return TrialSeries(
        trial_id=trial_id,
        steps=steps,
        eval_steps=eval_steps,
        eval_times=np.array([times[int(step)] for step in eval_steps]),
        metrics={key: values(curve) for key, curve in curves.items()},
    )


def _times(curve: Curve) -> Iterator[tuple[int, float]]:
    return zip(curve.steps, curve.times, strict=True)
