import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sweep_service.report.build import build
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.model import Holds, Outcome
from sweep_service.report.parts import verdict
from sweep_service.report.render.markdown import render_markdown
from sweep_service.report.statistics.differences import Difference
from sweep_service.sweep.records import Config, Role, Stage, SweepState, Trial, TrialState
from tests.unit.sweep_service.report.report_sweeps import Fate, succeed, sweep_inputs

PLAN: dict[str, Any] = {"seeds": {"tune": [0, 1], "confirm": {"top_k": 2, "seeds": [10, 11, 12, 13]}}}


def failing(condition: Any, state: TrialState = TrialState.FAILED) -> Fate:
    def fate(config: Config, trial: Trial) -> Trial:
        return trial.model_copy(update={"state": state}) if condition(config, trial) else succeed(config, trial)

    return fate


def test_the_sentence_names_comparator_difference_interval_and_seeds() -> None:
    report = build(sweep_inputs(PLAN, advantage=0.2))
    found = report.verdict.comparison
    assert report.verdict.outcome is Outcome.BETTER
    figures = f"{found.difference:+.3f} [{found.low:+.3f}, {found.high:+.3f}], 4 confirm seeds"
    most = f"unless it collapses or fails in more than {100 * found.tolerated:.0f} % of its runs"
    assert report.verdict.sentence == (
        f"BETTER: β1=0 β2=1 is better than the baseline (β1=0 β2=0): {figures}, {most} "
        "(0 of 4 did, but up to 53 % cannot be excluded)."
    )


def test_what_tuning_saw_does_not_move_the_verdicts_figures() -> None:
    one = build(sweep_inputs(PLAN)).verdict.comparison
    other_tune = {"seeds": {"tune": [2, 3, 4], "confirm": {"top_k": 2, "seeds": [10, 11, 12, 13]}}}
    assert one == build(sweep_inputs(other_tune)).verdict.comparison


@pytest.mark.parametrize("tune", [[0], [0, 1], [0, 1, 2, 3, 4]])
def test_without_confirmation_nothing_is_ever_better(tune: list[int]) -> None:
    report = build(sweep_inputs({"seeds": {"tune": tune}}, advantage=0.5))
    assert report.verdict.outcome is Outcome.EXPLORATORY
    assert report.verdict.comparison is None
    assert report.verdict.ties is None
    assert "from the baseline (β1=0 β2=0), but it was chosen on these seeds" in report.verdict.sentence
    assert "[" not in report.verdict.sentence


def test_configs_that_are_all_equal_are_said_to_be_and_none_leads() -> None:
    def equal(config: Config, trial: Trial) -> Trial:
        return trial.model_copy(update={"state": TrialState.DIVERGED})

    report = build(sweep_inputs({"seeds": {"tune": [0, 1]}}, fate=equal))
    count = len(report.configs)
    words = f"all {count} configs have exactly the same objective, so none is the best"
    assert report.verdict.sentence == (
        f"EXPLORATORY: {words}: 0.000 on the tune seeds (2 seeds); nothing was confirmed on others."
    )
    assert report.best.why == f"On the tune seeds {words}; this is the first of them."
    confirmed = build(sweep_inputs(PLAN, fate=equal))
    assert confirmed.verdict.outcome is Outcome.INSUFFICIENT
    assert "all of them gave the same" in confirmed.verdict.sentence
    assert "it has exactly the same mean as " in confirmed.best.why


def test_a_leader_that_shares_its_mean_is_said_to() -> None:
    inputs = sweep_inputs({"seeds": {"tune": [0, 1]}})
    report = build(inputs)
    best = report.best
    space = [config.id for config in inputs.configs if Role.SPACE in config.roles]
    other = next(id_ for id_ in space if id_ != best.config_id)
    of_best = {trial.seed: inputs.series[trial.id] for trial in inputs.trials if trial.config_id == best.config_id}
    alike = {trial.id: of_best[trial.seed] for trial in inputs.trials if trial.config_id == other}
    told = build(replace(inputs, series={**inputs.series, **alike}))
    assert "(2 seeds; another config has exactly the same objective), " in told.verdict.sentence
    assert told.best.why == (
        "Of the space's configs it has the highest mean on the tune seeds, on which it was chosen; another config has "
        "exactly the same objective, and it is the first of them."
    )


def test_a_leader_below_the_baseline_is_said_to_be() -> None:
    told = build(sweep_inputs({"seeds": {"tune": [0, 1]}, "baselines": {"dapo": False}}, advantage=-0.4))
    assert re.search(r"\(2 seeds\), yet 0\.\d{3} below the baseline \(β1=0 β2=0\), but it was", told.verdict.sentence)


def test_a_leader_is_compared_with_every_higher_comparator_on_the_seeds_that_both_have() -> None:
    inputs = sweep_inputs({"seeds": {"tune": [0, 1, 2]}})
    roles = {config.id: config.roles for config in inputs.configs}
    values = {Role.BASELINE: {0: 0.1, 1: 0.3, 2: 0.9}, Role.DAPO: {0: 0.9, 1: 0.9, 2: 0.9}}

    def series(trial: Trial) -> Any:
        own = inputs.series[trial.id]
        role = roles[trial.config_id][0]
        level = values[role][trial.seed] if role in values else 0.4 + (trial.config_id == leader) / 10
        return replace(own, metrics={**own.metrics, "eval/avg_at_k": own.metrics["eval/avg_at_k"] * 0 + level})

    leader = next(id_ for id_, role in roles.items() if role == [Role.SPACE] or role == (Role.SPACE,))
    kept = tuple(t for t in inputs.trials if not (roles[t.config_id][0] is Role.BASELINE and t.seed == 2))
    sweep = replace(inputs, trials=kept, series={trial.id: series(trial) for trial in kept})
    sentence = build(sweep).verdict.sentence
    assert "leads on the tune seeds with 0.500 (3 seeds), +0.300 from the baseline (β1=0 β2=0)" in sentence
    assert "on 2 common seeds, yet below DAPO (0.900), but it was chosen" in sentence


def test_one_tune_seed_with_a_confirm_stage_gives_a_verdict() -> None:
    spec = {"seeds": {"tune": [0], "confirm": {"top_k": 2, "seeds": [10, 11, 12]}}}
    assert build(sweep_inputs(spec, advantage=0.3)).verdict.outcome is Outcome.BETTER


def test_the_tie_set_holds_comparators_too() -> None:
    report = build(sweep_inputs(PLAN))
    confirmed = {row.id for row in report.configs if row.confirm}
    assert {member.config_id for member in report.verdict.ties.members} == confirmed
    baseline = next(row for row in report.configs if Role.BASELINE in row.roles)
    assert next(member for member in report.verdict.ties.members if member.config_id == baseline.id).in_set
    assert "confirmed configs may be the best" in report.verdict.ties.text


def test_a_decided_question_needs_no_purchase() -> None:
    assert build(sweep_inputs(PLAN, advantage=0.2)).verdict.next is None
    worse = build(sweep_inputs(PLAN, advantage=-0.4))
    assert worse.verdict.outcome is Outcome.WORSE
    assert worse.verdict.next is None


def never_learned(inputs: ReportInputs) -> ReportInputs:
    series = {
        id_: replace(own, metrics={**own.metrics, "eval/avg_at_k": own.metrics["eval/avg_at_k"] * 0})
        for id_, own in inputs.series.items()
    }
    return replace(inputs, series=series)


def test_policies_that_never_learned_get_neither_power_nor_a_claim_that_holds() -> None:
    report = build(never_learned(sweep_inputs({"space": {"loss.beta1": [0.25, 0.5], "loss.beta2": 1.0}})))
    said = "all of them gave the same, so nothing can be said of their spread"
    assert report.verdict.outcome is Outcome.INSUFFICIENT
    assert f"is 0.000 on 4 confirm seeds; {said}." in report.verdict.sentence
    assert report.verdict.next.power is None
    assert said in report.verdict.next.text
    (claim,) = [claim for claim in report.claims if claim.code == "NO_WORSE_FINAL"]
    assert claim.outcome is Holds.UNDECIDED
    assert said in claim.evidence
    assert "[0.000, 0.000]" not in render_markdown(report).decode()


def test_equal_results_of_tuning_buy_no_power() -> None:
    inputs = sweep_inputs({"seeds": {"tune": [0, 1, 2]}}, confirmed=False)
    bought = build(never_learned(inputs)).verdict.next
    assert bought.power is None
    assert "cannot be estimated from results so few or so equal" in bought.text


@pytest.mark.parametrize(
    ("low", "high", "relevant", "outcome", "clause"),
    [
        (0.021, 0.05, 0.02, Outcome.BETTER, "seeds, unless it collapses"),
        (0.001, 0.05, 0.02, Outcome.BETTER, "(β1=0 β2=0), and whether by the 0.02 that matters here is open: "),
        (0.001, 0.019, 0.02, Outcome.BETTER, "(β1=0 β2=0), but by less than the 0.02 that matters here: "),
        (-0.019, -0.001, 0.02, Outcome.WORSE, "(β1=0 β2=0), but by less than the 0.02 that matters here: "),
        (-0.05, -0.001, 0.02, Outcome.WORSE, "(β1=0 β2=0), and whether by the 0.02 that matters here is open: "),
        (-0.05, -0.02, 0.02, Outcome.WORSE, "seeds, unless baseline β1=0 β2=0 collapses"),
        (-0.019, 0.019, 0.02, Outcome.EQUIVALENT, "seeds. 0 of 4 runs of β1=0 β2=1 collapsed"),
        (-0.019, 0.02, 0.02, Outcome.UNDECIDED, "seeds. 0 of 4 runs"),
        (-0.02, 0.001, 0.02, Outcome.UNDECIDED, "seeds. 0 of 4 runs"),
        (0.0, 0.001, 0.02, Outcome.EQUIVALENT, "seeds. 0 of 4 runs"),
        (-0.019, 0.019, 0.01, Outcome.UNDECIDED, "seeds. 0 of 4 runs"),
    ],
)
def test_the_word_says_what_the_interval_contains(
    low: float, high: float, relevant: float, outcome: Outcome, clause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixed = Difference(4, (low + high) / 2, 0.01, 0.01, 6, variance="pooled", low=low, high=high, detectable=0.03)
    monkeypatch.setattr(verdict, "differences", lambda _arms, pairs, _chose, **_: dict.fromkeys(pairs, fixed))
    report = build(sweep_inputs({"objective": {"relevant": relevant}}))
    assert report.verdict.outcome is outcome
    assert report.verdict.sentence.startswith(f"{outcome}: ")
    assert clause in report.verdict.sentence


def test_enough_seeds_for_a_relevant_difference_say_so() -> None:
    seeds = {"tune": [0, 1], "confirm": {"top_k": 2, "seeds": list(range(10, 40))}}
    report = build(sweep_inputs({"seeds": seeds, "objective": {"relevant": 0.0125}}, advantage=0.008))
    assert report.verdict.outcome is Outcome.UNDECIDED
    assert report.verdict.next.more_seeds == 0
    assert "30 confirm seeds would have shown" in report.verdict.next.text


def test_too_few_pairs_buy_at_least_three() -> None:
    spec = {"seeds": {"tune": [0, 1], "confirm": {"top_k": 2, "seeds": [10, 11]}}}
    report = build(sweep_inputs(spec, advantage=0.3))
    assert report.verdict.outcome is Outcome.INSUFFICIENT
    assert report.verdict.next.more_seeds >= 1
    assert report.verdict.next.power is not None


def test_an_exploratory_sweep_is_advised_to_confirm() -> None:
    purchase = build(sweep_inputs({"seeds": {"tune": [0, 1, 2]}})).verdict.next
    assert purchase.more_seeds >= 3
    assert purchase.power >= 0.8
    command = f"sweeps extend swp_test --confirm-seeds {purchase.more_seeds}"
    assert purchase.text.startswith(f"Confirm the best 2 on {purchase.more_seeds} fresh seeds ({command})")
    assert len(purchase.config_ids) == 4


def test_one_tune_seed_gives_no_estimate_of_power() -> None:
    purchase = build(sweep_inputs({"seeds": {"tune": [0]}})).verdict.next
    assert purchase.power is None
    assert "cannot be estimated from a single tune seed" in purchase.text


def test_an_interim_report_buys_nothing() -> None:
    assert build(sweep_inputs(PLAN, state=SweepState.RUNNING)).verdict.next is None


@pytest.mark.parametrize(
    ("first", "second", "best"),
    [
        ((0.9, 0.50), (0.6, 0.55), 0),  # a small lead on the confirm seeds does not outweigh a large one in tuning
        ((0.9, 0.50), (0.6, 0.66), 1),  # 0.633 and 0.640 over six trials each; by the stages' means it were the first
        ((0.9, 0.50), (0.6, None), 0),
        ((0.9, None), (0.6, 0.10), 1),  # unconfirmed
    ],
)
def test_the_best_has_the_highest_mean_over_all_its_trials(
    first: tuple[float, float | None], second: tuple[float, float | None], best: int
) -> None:
    """Each config has the first value on 2 tune seeds, and the second on 4 confirm seeds."""
    inputs = sweep_inputs(PLAN | {"space": {"loss.beta1": [0.0, 0.5], "loss.beta2": 1.0}})
    ids = [config.id for config in inputs.configs if Role.SPACE in config.roles]
    levels = dict(zip(ids, (first, second), strict=True))
    trials, series = list(inputs.trials), dict(inputs.series)
    for place, trial in enumerate(trials):
        level = levels.get(trial.config_id, (0.3, 0.3))[trial.stage is Stage.CONFIRM]
        own = series[trial.id]
        if level is None:
            trials[place] = trial.model_copy(update={"state": TrialState.FAILED})
        else:
            flat = np.full(len(own.eval_steps), level)
            series[trial.id] = replace(own, metrics={**own.metrics, "eval/avg_at_k": flat})
    report = build(replace(inputs, trials=tuple(trials), series=series))
    assert report.best.config_id == ids[best]


FATES = {
    "a seed of the baseline missing": failing(lambda config, trial: config.number == 0 and trial.seed == 12),
    "every config misses another seed": failing(lambda config, trial: trial.seed == 10 + config.number % 4),
    "one seed left": failing(lambda config, trial: trial.stage is Stage.CONFIRM and trial.seed > 10),
    "two seeds left": failing(lambda config, trial: trial.stage is Stage.CONFIRM and trial.seed > 11),
    "no pair left": failing(lambda c, t: t.stage is Stage.CONFIRM and (t.seed > 11) == (Role.BASELINE in c.roles)),
    "every trial diverged": failing(lambda config, trial: True, TrialState.DIVERGED),
    "the confirm stage failed": failing(lambda config, trial: trial.stage is Stage.CONFIRM),
    "the baseline diverged": failing(lambda config, trial: Role.BASELINE in config.roles, TrialState.DIVERGED),
    "half of all diverged": failing(lambda config, trial: (trial.seed + config.number) % 2, TrialState.DIVERGED),
}


@pytest.mark.parametrize("name", FATES)
@pytest.mark.parametrize("tune", [[0], [0, 1]])
@pytest.mark.parametrize("confirm", [None, [10], [10, 11], [10, 11, 12, 13]])
def test_whatever_happened_numbers_are_finite(name: str, tune: list[int], confirm: list[int] | None) -> None:
    spec = {"seeds": {"tune": tune, "confirm": confirm and {"top_k": 2, "seeds": confirm}}}
    report = build(sweep_inputs(spec, fate=FATES[name]))
    verdict = report.verdict
    assert verdict.sentence.startswith(f"{verdict.outcome}: ")
    numbers = [value for found in report.comparisons for value in found.model_dump().values()]
    numbers += (
        [value for member in verdict.ties.members for value in member.model_dump().values()] if verdict.ties else []
    )
    numbers += list(verdict.next.model_dump().values()) if verdict.next else []
    assert all(math.isfinite(value) for value in numbers if isinstance(value, float))
    if confirm is None:
        assert verdict.outcome in (Outcome.EXPLORATORY, Outcome.INSUFFICIENT)
    elif len(confirm) < 3:
        assert verdict.outcome is Outcome.INSUFFICIENT


def test_of_several_matched_baselines_that_of_the_best_config_is_compared() -> None:
    """A sweep that was given more after its confirm stage may have another best config, with another baseline."""
    space = {"loss.beta1": [0.5], "loss.beta2": 1.0, "loss.epsilon": [0.25, 0.3]}
    inputs = sweep_inputs({"space": space, "seeds": {"tune": [0, 1], "confirm": {"top_k": 1, "seeds": [10, 11]}}})
    (matched,) = [config for config in inputs.configs if Role.MATCHED in config.roles]
    epsilon = 0.3 if matched.params["loss.epsilon"] == 0.25 else 0.25
    loss = matched.training["loss"] | {"epsilon_low": epsilon, "epsilon_high": epsilon}
    stale = matched.model_copy(update={"id": "cfg_stale", "training": matched.training | {"loss": loss}})
    trials = [trial for trial in inputs.trials if trial.config_id == matched.id]
    copies = [trial.model_copy(update={"id": f"{trial.id}x", "config_id": stale.id}) for trial in trials]
    series = {copy.id: inputs.series[trial.id] for copy, trial in zip(copies, trials, strict=True)}
    configs = [stale if config is matched else config for config in inputs.configs]
    configs.append(matched.model_copy(update={"number": len(configs)}))
    more = replace(inputs, configs=tuple(configs), trials=(*inputs.trials, *copies), series={**inputs.series, **series})
    compared = [c.comparator_id for c in build(more).comparisons if c.comparator_role is Role.MATCHED]
    assert compared == [matched.id]


RATES: dict[str, Any] = {
    "space": {"loss.beta1": [0.0, 0.25], "loss.beta2": 1.0, "optimizer.learning_rate": [3e-4, 1e-3]},
    "seeds": {"tune": [0, 1], "confirm": {"top_k": 3, "seeds": [10, 11, 12, 13]}},
}


def besides_the_loss(inputs: ReportInputs, config_id: str, comparator_id: str) -> list[str]:
    """The parts of training in which two configs differ, but for the loss."""
    one, other = ({c.id: c for c in inputs.configs}[id_].training for id_ in (config_id, comparator_id))
    return [name for name in one if name != "loss" and one[name] != other[name]]


def test_where_more_than_the_loss_varies_each_config_is_compared_with_its_own_matched_baseline_first() -> None:
    report = build(inputs := sweep_inputs(RATES))
    own = [c for c in report.comparisons if c.comparator_role is Role.MATCHED]
    assert len({c.config_id for c in own}) == 3
    assert report.comparisons[:3] == own
    for found in report.comparisons:
        assert bool(besides_the_loss(inputs, found.config_id, found.comparator_id)) == (found.differs_in != ["loss"])
    assert all(c.differs_in == ["loss"] and c.family == 3 for c in own)
    baseline = [c for c in report.comparisons if c.comparator_role is Role.BASELINE]
    assert [c.differs_in for c in baseline] == [["loss", "optimizer.learning_rate"]] * 3
    assert report.verdict.comparison in own
    assert "its matched baseline (β1=0 β2=0 lr=" in report.verdict.sentence
    assert "differ in" not in report.verdict.sentence
    assert any("for each of the best its own matched baseline" in line for line in report.method)


def test_a_verdict_without_a_matched_baseline_names_what_else_differs() -> None:
    report = build(sweep_inputs(RATES | {"baselines": {"matched": False}}))
    assert report.verdict.comparison.comparator_role is Role.BASELINE
    assert report.verdict.sentence.endswith(" The two differ in optimizer.learning_rate as well as in the loss.")
    untested = build(sweep_inputs(RATES | {"seeds": {"tune": [0, 1]}})).verdict.sentence
    assert "), which differs in optimizer.learning_rate as well as in the loss, but it was chosen on" in untested


def test_a_best_config_that_is_ppo_clip_itself_differs_from_the_baseline_not_in_the_loss() -> None:
    space = {"loss.beta1": 0.0, "loss.beta2": 0.0, "optimizer.learning_rate": [3e-4, 1e-3]}
    report = build(sweep_inputs(RATES | {"space": space}))
    assert {c.comparator_role for c in report.comparisons} == {Role.BASELINE, Role.DAPO}
    assert report.verdict.sentence.endswith(" The two differ in optimizer.learning_rate, not in the loss.")


def test_a_point_that_is_ppo_clip_is_the_matched_baseline_of_those_with_its_learning_rate() -> None:
    space = {"loss.beta1": [0.0, 0.25], "loss.beta2": 0.0, "optimizer.learning_rate": [3e-4, 1e-3]}
    report = build(inputs := sweep_inputs(RATES | {"space": space}))
    rows = {row.id: row for row in report.configs}
    own = [c for c in report.comparisons if c.comparator_role is Role.MATCHED]
    assert own
    for found in own:
        assert Role.SPACE in rows[found.comparator_id].roles
        assert besides_the_loss(inputs, found.config_id, found.comparator_id) == []


def test_configs_of_another_version_have_no_matched_baseline_and_a_report_all_the_same() -> None:
    inputs = sweep_inputs(RATES)
    strange = [c.model_copy(update={"training": c.training | {"loss": {"name": "unknown"}}}) for c in inputs.configs]
    report = build(replace(inputs, configs=tuple(strange)))
    assert {c.comparator_role for c in report.comparisons} == {Role.BASELINE, Role.DAPO}
