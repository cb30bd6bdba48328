"""What a report claims of beta1 and beta2, where they are made to move entropy, and where the design says nothing."""

import statistics
from typing import Any

import numpy as np
import pytest

from sweep_service.report.build import build
from sweep_service.report.findings.beta_effects import BetaRun, beta_effect
from sweep_service.report.model import Claim, Holds
from sweep_service.sweep.records import Config, Stage
from tests.unit.sweep_service.report.report_claims import GRID, beta, claim, entropy_with_slope, with_curves
from tests.unit.sweep_service.report.report_sweeps import Fate, on_seeds, succeed, sweep_inputs
from tests.unit.sweep_service.report.report_worlds import ending

BETA1 = "BETA1_ENTROPY_FALLS_FASTER"
SMALLEST = "The smallest design that can: a grid of 2 values of beta1 x 2 values of beta2 on 3 tune seeds, 12 trials"


def crossed(effect_low: float, effect_high: float, noise: float = 0.005, **spec: Any) -> Claim:
    """The claim about beta1 where its effect at beta2 = 0.5 and at beta2 = 1 is given."""

    def slope(config: Config) -> float:
        return -1 + beta(config, "beta1") * (effect_low if beta(config, "beta2") == 0.5 else effect_high)

    return claim(with_curves(sweep_inputs(GRID | spec), entropy=entropy_with_slope(slope, noise)), BETA1)


@pytest.mark.parametrize(
    ("beta1", "beta2", "code", "outcome"),
    [
        (-0.5, 0.3, BETA1, Holds.HOLDS),
        (0.5, 0.3, BETA1, Holds.FAILS),
        (0.0, 0.3, BETA1, Holds.UNDECIDED),
        (-0.3, 0.5, "BETA2_SLOWER", Holds.HOLDS),
        (-0.3, -0.5, "BETA2_SLOWER", Holds.FAILS),
    ],
)
def test_what_each_beta_does_to_the_slope_of_log_entropy(beta1: float, beta2: float, code: str, outcome: Holds) -> None:
    curve = entropy_with_slope(lambda config: -1 + beta1 * beta(config, "beta1") + beta2 * beta(config, "beta2"))
    found = claim(with_curves(sweep_inputs(GRID), entropy=curve), code)
    assert found.outcome is outcome
    assert found.estimate == pytest.approx(beta1 if code == BETA1 else beta2, abs=0.02)


def test_collapsed_trials_are_left_out_of_the_slopes_and_said_so() -> None:
    found = claim(sweep_inputs(), BETA1)  # beta1 = 1 collapses in it
    assert "Left out: 2 trials of 20 whose reward collapsed, in which entropy follows the collapse." in found.evidence
    found = claim(sweep_inputs(on_seeds((0, 1, 2), confirm=())), BETA1)
    assert "with them, on average, +" in found.evidence


def test_slopes_of_collapsed_trials_alone_decide_nothing() -> None:
    inputs = with_curves(
        sweep_inputs(GRID),
        entropy=entropy_with_slope(lambda config: -beta(config, "beta1")),
        reward__mean=lambda config, trial, values: np.linspace(0.8, 0.1, len(values)),
    )
    found = claim(inputs, BETA1)
    assert found.high < 0
    assert found.outcome is Holds.UNDECIDED
    assert "whose reward collapsed, in which entropy follows the collapse, so nothing is decided." in found.evidence


def test_beta2_is_not_judged_where_only_other_things_vary() -> None:
    spec = {"space": {"loss.beta1": [0.25, 0.5], "loss.beta2": 1.0}}
    assert "BETA2_SLOWER" not in {found.code for found in build(sweep_inputs(spec)).claims}


def test_an_effect_whose_sign_depends_on_the_other_beta_neither_holds_nor_fails() -> None:
    found = crossed(-1.0, 0.3)
    assert found.outcome is Holds.DEPENDS
    assert (found.estimate, found.low, found.high, found.num_pairs) == (None, None, None, 4)
    assert "at β2 = 0.5 and by +0." in found.evidence
    assert "So the sign of what β1 does depends on β2, and no average stands for it." in found.evidence
    assert "On average" not in found.evidence


def test_every_value_of_the_other_beta_comes_before_the_average() -> None:
    found = crossed(-1.0, -0.5)
    assert found.outcome is Holds.HOLDS
    assert found.estimate == pytest.approx(-0.75, abs=0.02)
    ends, average = found.evidence.index("at β2 = 0.5 and by -0."), found.evidence.index("On average")
    assert ends < average
    assert "(98 % each; below 0: it falls faster)" in found.evidence
    assert "an interaction of β1 and β2 is shown" in found.evidence


def test_an_interaction_that_cannot_be_excluded_is_said() -> None:
    found = crossed(-0.5, -0.5)
    assert found.outcome is Holds.HOLDS
    assert "an interaction of β1 and β2 cannot be excluded" in found.evidence


def test_an_average_alone_decides_nothing() -> None:
    """At beta2 = 1 the effect is lost in the noise, so that the average is what beta2 = 0.5 makes of it."""
    found = crossed(-3.0, 0.0, noise=0.1)
    assert found.high < 0
    assert found.outcome is Holds.UNDECIDED
    assert "That β1 has this sign at β2 = 1 is not shown, so nothing is decided." in found.evidence


def by_beta2(effects: dict[float, float], fate: Fate = succeed) -> Claim:
    """The claim about beta1 with its effect at each value of beta2."""

    def slope(config: Config) -> float:
        return -1 + beta(config, "beta1") * effects.get(beta(config, "beta2"), 0.0)

    spec = GRID | {"space": {"loss.beta1": [0.0, 0.5], "loss.beta2": [*effects]}}
    return claim(with_curves(sweep_inputs(spec, fate=fate), entropy=entropy_with_slope(slope)), BETA1)


def test_a_value_in_the_middle_counts_as_the_ends_do() -> None:
    assert by_beta2({0.5: -1.0, 0.75: -1.0, 1.0: -1.0}).outcome is Holds.HOLDS
    turned = by_beta2({0.5: -1.0, 0.75: 0.5, 1.0: -1.0})
    assert turned.outcome is Holds.DEPENDS
    assert "at β2 = 0.5, by +0." in turned.evidence
    flat = by_beta2({0.5: -1.0, 0.75: 0.0, 1.0: -1.0})
    assert flat.outcome is Holds.UNDECIDED
    assert flat.high is not None
    assert flat.high < 0
    assert "at β2 = 0.75 is not shown, so nothing is decided." in flat.evidence


def test_opposite_signs_depend_on_the_other_beta_whatever_a_third_value_shows() -> None:
    assert by_beta2({0.5: -1.0, 0.75: 0.0, 1.0: 1.0}).outcome is Holds.DEPENDS


def test_each_interval_is_students_with_98_percent() -> None:
    slopes = {0.5: [-0.9, -1.1, -1.3], 1.0: [-0.2, -0.3, -0.1]}
    runs = [
        BetaRun(seed, f"{other}", setting, setting * slope, Stage.TUNE, f"{setting}, {other}", other, steady=True)
        for other, by_seed in slopes.items()
        for seed, slope in enumerate(by_seed)
        for setting in (0.0, 1.0)
    ]
    effect = beta_effect(runs)
    assert effect is not None
    assert effect.confidence == pytest.approx(0.98)
    averages = [statistics.fmean(pair) for pair in zip(*slopes.values(), strict=True)]
    apart = [high - low for low, high in zip(*slopes.values(), strict=True)]
    at = [value.effect for value in effect.values]
    for interval, values in zip(
        [*at, effect.average, effect.interaction], [*slopes.values(), averages, apart], strict=True
    ):
        assert interval is not None
        half = 6.9646 * statistics.stdev(values) / 3**0.5  # Student's 99 % quantile with 2 degrees of freedom
        middle = statistics.fmean(values)
        assert (interval.low, interval.high) == pytest.approx((middle - half, middle + half), abs=1e-4)


def test_a_value_without_enough_seeds_leaves_the_claim_open() -> None:
    """At beta2 = 0.75 two seeds are left, then none."""
    effects = {0.5: -1.0, 0.75: -1.0, 1.0: -1.0}
    two = by_beta2(effects, ending(lambda c, t: beta(c, "beta2") == 0.75 and t.seed > 1, step=80))
    assert two.outcome is Holds.UNDECIDED
    assert "at β2 = 0.75 is not shown" in two.evidence
    apart = ending(lambda c, t: beta(c, "beta2") == 0.75 and (t.seed > 1) == (beta(c, "beta1") > 0), step=80)
    none = by_beta2(effects, apart)
    assert none.outcome is Holds.UNDECIDED
    assert "by what no seed shows at β2 = 0.75" in none.evidence


def test_more_than_five_values_widen_each_interval() -> None:
    """A sign is opposite with 5 % at most, so each bound has 5 % by their number."""
    few, many = ({n / 8: -1.0 for n in range(1, last)} for last in (6, 9))
    assert "(98 % each; " in by_beta2(few).evidence
    assert "(98.8 % each; " in by_beta2(many).evidence


def test_a_claim_at_one_value_has_98_percent() -> None:
    found = claim(sweep_inputs(), BETA1)
    assert found.low is not None
    assert "(98 %; below 0: it falls faster)" in found.evidence


def test_two_seeds_give_no_interval_and_the_design_that_would() -> None:
    found = crossed(-1.0, -1.0, seeds={"tune": [0, 1]})
    assert found.outcome is Holds.UNDECIDED
    assert (found.low, found.num_pairs) == (None, 2)
    assert "(no intervals; below 0: it falls faster)" in found.evidence
    assert "There is no interval: it takes 3 seeds of one stage." in found.evidence
    assert SMALLEST in found.evidence


def test_trials_that_never_differ_in_one_beta_alone_claim_nothing_and_name_a_design_that_can() -> None:
    fate = ending(lambda c, t: beta(c, "beta1") != beta(c, "beta2") / 2, step=80)
    found = claim(sweep_inputs(GRID, fate=fate), BETA1)
    assert (found.outcome, found.estimate, found.num_pairs) == (Holds.UNDECIDED, None, 0)
    assert found.evidence.startswith("No two configs that trained on one seed differ in β1 alone")
    assert SMALLEST in found.evidence


def test_the_confirm_stage_is_asked_where_the_tune_stage_has_too_few_seeds() -> None:
    found = claim(sweep_inputs(), BETA1)
    assert found.num_pairs == 4
    assert "4 confirm seeds, 2 of the confirmed configs; β2 = 1 in all of them." in found.evidence


def test_stages_are_not_joined() -> None:
    inputs = sweep_inputs(GRID)
    assert {trial.stage for trial in inputs.trials} == {Stage.TUNE, Stage.CONFIRM}
    assert "4 tune seeds, 6 configs." in claim(inputs, BETA1).evidence


def test_a_seed_that_lacks_most_of_its_trials_is_left_out_and_said_so() -> None:
    fate = ending(lambda c, t: t.seed == 3 and beta(c, "beta1") > 0.25, step=80)
    slopes = entropy_with_slope(lambda config: -beta(config, "beta1"))
    found = claim(with_curves(sweep_inputs(GRID, fate=fate), entropy=slopes), BETA1)
    assert found.num_pairs == 3
    assert "Left out: 1 seed on which too many trials are missing." in found.evidence
