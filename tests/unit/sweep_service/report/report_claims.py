"""Sweeps whose curves are made up so that claims hold, fail or stay open."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sweep_service.report.build import build
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.model import Claim
from sweep_service.sweep.records import Config, Trial
from sweep_service.sweep.series import Values
from tests.unit.sweep_service.report.report_sweeps import on_seeds

GRID = {"space": {"loss.beta1": [0.0, 0.25, 0.5], "loss.beta2": [0.5, 1.0]}} | on_seeds(tune=range(4))
Curve = Callable[[Config, Trial, Values], Values]


def with_curves(inputs: ReportInputs, **curves: Curve) -> ReportInputs:
    """The same sweep with other curves; `__` in a name stands for its slash."""
    configs = {config.id: config for config in inputs.configs}
    series = dict(inputs.series)
    for trial in inputs.trials:
        if trial.id in series:
            own, config = series[trial.id], configs[trial.config_id]
            other = {
                name.replace("__", "/"): curve(config, trial, own.metrics[name.replace("__", "/")])
                for name, curve in curves.items()
            }
            series[trial.id] = replace(own, metrics={**own.metrics, **other})
    return replace(inputs, series=series)


def claim(inputs: ReportInputs, code: str) -> Claim:
    (found,) = [found for found in build(inputs).claims if found.code == code]
    return found


def beta(config: Config, name: str) -> float:
    return float(config.training["loss"].get(name, 0.0))


def entropy_with_slope(slope: Callable[[Config], float], noise: float = 0.005) -> Curve:
    """Entropy that falls exponentially, with a little noise in each trial's slope."""

    def curve(config: Config, trial: Trial, values: Values) -> Values:
        own = slope(config) + np.random.default_rng(trial.number).normal(0, noise)
        return np.exp(own * np.arange(1, len(values) + 1) / len(values))

    return curve
