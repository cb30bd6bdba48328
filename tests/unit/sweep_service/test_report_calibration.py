"""How often the report would be wrong: whole sweeps drawn from known truths, from tuning to the verdict's interval.

The figures in docs/report.md come from `main` with 20,000 runs a case.
"""

from dataclasses import dataclass, field

import numpy as np
import pytest

from sweep_service.report.stats import Arm, differences


@dataclass(frozen=True)
class Case:
    """Nine configs, a baseline and a DAPO arm; two tune seeds, then the best two on `seeds` confirm seeds."""

    seeds: int = 4
    config_sd: float = 0.0
    """Of the true means of the configs, in units of the error's sd; the baseline's is 0."""
    error_sd: dict[int, float] = field(default_factory=dict)
    """Of single configs, instead of 1; the baseline is number 9."""
    heavy: bool = False
    """Errors from Student's t with 3 degrees of freedom."""
    missing: float = 0.0
    """Chance that a confirm trial failed."""


CASES = {
    "no difference, 3 seeds": Case(3),
    "no difference, 4 seeds": Case(4),
    "no difference, 6 seeds": Case(6),
    "two noisy configs (sd x 3)": Case(error_sd={0: 3, 1: 3}),
    "noisy baseline (sd x 3)": Case(error_sd={9: 3}),
    "quiet baseline (sd / 3)": Case(error_sd={9: 1 / 3}),
    "noisy DAPO arm (sd x 6)": Case(error_sd={10: 6}),
    "heavy tails": Case(heavy=True),
    "one in ten failed": Case(6, missing=0.1),
    "true differences (sd 2), 4 seeds": Case(4, config_sd=2),
    "true differences (sd 2), 6 seeds": Case(6, config_sd=2),
    "true differences (sd 2), noisy DAPO arm (sd x 6)": Case(4, config_sd=2, error_sd={10: 6}),
}


@dataclass(frozen=True)
class Tally:
    """Shares of runs."""

    better: float
    false_better: float
    coverage: float
    half_width: float


def simulate(case: Case, runs: int, seed: int = 0) -> Tally:
    rng = np.random.default_rng(seed)
    outcomes = np.array([_run(case, rng) for _ in range(runs)])
    decided = outcomes[~np.isnan(outcomes[:, 0])]
    estimate, half, truth = decided.T
    better = estimate - half > 0
    return Tally(
        better=float(better.sum()) / runs,
        false_better=float((better & (truth <= 0)).sum()) / runs,
        coverage=float((np.abs(estimate - truth) <= half).mean()),
        half_width=float(half.mean()),
    )


def _run(case: Case, rng: np.random.Generator) -> tuple[float, float, float]:
    """One sweep: the estimated and true difference of the best config from the baseline, and half the interval."""
    truth = np.append(rng.normal(0, case.config_sd, 9), [0.0, 0.0])
    sd = np.array([case.error_sd.get(number, 1.0) for number in range(11)])

    def results(arms: np.ndarray, seeds: int) -> np.ndarray:
        noise = rng.standard_t(3, (len(arms), seeds)) / 3**0.5 if case.heavy else rng.normal(size=(len(arms), seeds))
        return truth[arms, None] + sd[arms, None] * noise + rng.normal(size=seeds)

    chosen = np.argsort(-results(np.arange(9), 2).mean(1))[:2]
    numbers = np.append(chosen, [9, 10])
    table = results(numbers, case.seeds)
    table[rng.random(table.shape) < case.missing] = np.nan
    arms = [
        Arm(str(number), {seed: float(value) for seed, value in enumerate(row) if not np.isnan(value)})
        for number, row in zip(numbers, table, strict=True)
    ]
    best = max(arms[:2], key=lambda arm: np.mean(list(arm.values.values())) if arm.values else -np.inf)
    for found in differences(arms, "9", [arm.config_id for arm in arms[:2]]):
        if found.config_id == best.config_id and found.half_width is not None:
            return found.estimate, found.half_width, float(truth[int(best.config_id)])
    return np.nan, np.nan, np.nan


@pytest.mark.parametrize("name", CASES)
def test_better_is_rarely_false_and_intervals_cover(name: str) -> None:
    found = simulate(CASES[name], runs=800)
    # 800 runs have a standard error of 0.8 points at 5 %
    assert found.false_better <= 0.065
    assert found.coverage >= 0.91
    if CASES[name].config_sd:
        assert found.better >= 0.6


def main() -> None:
    for name, case in CASES.items():
        found = simulate(case, runs=20_000)
        shares = f"{found.false_better:.1%} | {found.coverage:.1%} | {found.better:.0%}"
        print(f"| {name} | {shares} | {found.half_width:.2f} |")


if __name__ == "__main__":
    main()
