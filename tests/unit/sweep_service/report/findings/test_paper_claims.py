"""The paper's claims against sweeps in which they are made to hold, to fail, or to stay open."""

import numpy as np
import pytest

from sweep_service.report.build import build
from sweep_service.report.model import Holds
from sweep_service.sweep.records import Config, Trial, TrialState
from sweep_service.sweep.series import Values
from tests.unit.sweep_service.report.report_claims import GRID, claim, with_curves
from tests.unit.sweep_service.report.report_sweeps import on_seeds, sweep_inputs
from tests.unit.sweep_service.report.report_worlds import HEALTHY, ending, is_baseline


def test_all_claims_of_a_sweep_over_both_betas() -> None:
    assert [found.code for found in build(sweep_inputs(GRID)).claims] == [
        "ENTROPY_STEADIER",
        "NO_WORSE_FINAL",
        "NO_MORE_DIVERGENCES",
        "KL_IN_RANGE",
        "GRAD_NORM_IN_RANGE",
        "BETA1_ENTROPY_FALLS_FASTER",
        "BETA2_SLOWER",
    ]


def test_a_sweep_without_ce_gppo_has_no_claims() -> None:
    spec = {"training": {"loss": {"name": "grpo"}, "steps": 240}, "space": {"loss.epsilon_high": [0.2, 0.25]}}
    assert build(sweep_inputs(spec)).claims == []


def test_a_sweep_over_losses_has_the_claims_that_need_no_range_of_betas() -> None:
    evidence = {
        claim.code: claim.evidence
        for claim in build(sweep_inputs({"space": {"loss.name": ["grpo", "ce_gppo", "cispo"]}})).claims
    }
    assert {"ENTROPY_STEADIER", "NO_WORSE_FINAL", "NO_MORE_DIVERGENCES"} <= evidence.keys()
    assert "cispo" not in " ".join(evidence.values())


def test_without_a_baseline_only_the_betas_are_judged() -> None:
    baselines = {"ppo_clip": False, "dapo": True, "matched": False}
    codes = [found.code for found in build(sweep_inputs({**GRID, "baselines": baselines})).claims]
    assert codes == ["BETA1_ENTROPY_FALLS_FASTER", "BETA2_SLOWER"]


@pytest.mark.parametrize(("factor", "outcome"), [(0.3, Holds.HOLDS), (3.0, Holds.FAILS), (1.0, Holds.UNDECIDED)])
def test_steadier_entropy_is_a_smaller_variance_about_the_line(factor: float, outcome: Holds) -> None:
    def curve(config: Config, trial: Trial, values: Values) -> Values:
        share = np.arange(len(values)) / len(values)
        size = 0.1 * np.random.default_rng(trial.number).uniform(0.8, 1.2) * (1 if is_baseline(config) else factor)
        return 1 - 0.5 * share + size * np.sin(20 * share)

    found = claim(with_curves(sweep_inputs(), entropy=curve), "ENTROPY_STEADIER")
    assert found.outcome is outcome
    assert found.num_pairs == 4
    assert found.estimate == pytest.approx(factor**2, rel=0.5)
    assert "4 confirm seeds" in found.evidence


@pytest.mark.parametrize(("advantage", "outcome"), [(0.08, Holds.HOLDS), (0.0, Holds.UNDECIDED), (-0.08, Holds.FAILS)])
def test_no_worse_is_non_inferiority(advantage: float, outcome: Holds) -> None:
    report = build(sweep_inputs(advantage=advantage))
    (found,) = [found for found in report.claims if found.code == "NO_WORSE_FINAL"]
    comparison = report.verdict.comparison
    assert found.outcome is outcome
    assert (found.low, found.high) == (comparison.low, comparison.high)


def test_on_the_seeds_that_chose_the_config_no_worse_is_never_shown() -> None:
    found = claim(sweep_inputs(on_seeds(range(4), confirm=()), advantage=0.08), "NO_WORSE_FINAL")
    assert found.low > 0
    assert found.outcome is Holds.UNDECIDED
    assert "The same seeds chose it" in found.evidence


@pytest.mark.parametrize(("bad_share", "outcome"), [(1.0, Holds.FAILS), (0.0, Holds.HOLDS)])
def test_divergences_are_counted_against_the_baselines(bad_share: float, outcome: Holds) -> None:
    fate = ending(lambda c, t: not is_baseline(c) and t.seed < 40 * bad_share, TrialState.DIVERGED, step=40)
    spec = HEALTHY | on_seeds(range(40), confirm=())
    found = claim(sweep_inputs(spec, fate=fate), "NO_MORE_DIVERGENCES")
    assert found.outcome is outcome
    assert f"{80 if bad_share else 0} of 80 trials" in found.evidence
    assert "0 of 40 with PPO clip and all else equal" in found.evidence


def test_the_comparison_is_with_ppo_clip_and_all_else_equal() -> None:
    rates = {"loss.beta1": 0.0, "loss.beta2": 1.0, "optimizer.learning_rate": [1e-4, 3e-4]}
    inputs = sweep_inputs({"space": rates})
    best = build(inputs).best
    rate = best.label.partition(" lr=")[2]
    evidence = claim(inputs, "ENTROPY_STEADIER").evidence
    assert evidence.startswith(f"{best.label} divided by matched β2=0 lr={rate}, ")
    assert "0 of 8 with PPO clip and all else equal" in claim(inputs, "NO_MORE_DIVERGENCES").evidence
    tune_only = build(sweep_inputs({"space": rates} | on_seeds((0, 1, 2), confirm=())))
    assert not {"ENTROPY_STEADIER", "NO_MORE_DIVERGENCES"} & {found.code for found in tune_only.claims}


def test_few_trials_leave_divergences_open() -> None:
    assert claim(sweep_inputs(), "NO_MORE_DIVERGENCES").outcome is Holds.UNDECIDED


@pytest.mark.parametrize(("factor", "outcome"), [(1.5, Holds.HOLDS), (3.0, Holds.FAILS), (2.0, Holds.UNDECIDED)])
@pytest.mark.parametrize(("code", "key"), [("KL_IN_RANGE", "kl__k3"), ("GRAD_NORM_IN_RANGE", "grad_norm")])
def test_in_range_is_a_factor_of_two_at_most(code: str, key: str, factor: float, outcome: Holds) -> None:
    def curve(config: Config, trial: Trial, values: Values) -> Values:
        own = np.random.default_rng(trial.number).uniform(0.9, 1.1)
        return np.full(len(values), 0.01 * own * (1 if is_baseline(config) else factor))

    found = claim(with_curves(sweep_inputs(), **{key: curve}), code)
    assert found.outcome is outcome
    assert found.estimate == pytest.approx(factor, rel=0.15)


def test_a_seed_without_its_pair_is_left_out_and_said_so() -> None:
    fate = ending(lambda c, t: t.seed == 12 and is_baseline(c), step=80)
    found = claim(sweep_inputs(fate=fate), "ENTROPY_STEADIER")
    assert found.num_pairs == 3
    assert found.evidence.endswith("Left out: 1 seed on which one of them did not train to its end.")
