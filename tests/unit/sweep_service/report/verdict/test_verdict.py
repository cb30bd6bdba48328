import math
from dataclasses import replace

import pytest

from sweep_service.report.build import build
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.model import Holds, Outcome
from sweep_service.report.render.markdown import render_markdown
from sweep_service.report.statistics.differences import Difference
from sweep_service.report.verdict import verdict
from sweep_service.sweep.records import Config, Role, Stage, SweepState, Trial, TrialState
from tests.unit.sweep_service.report.report_sweeps import on_seeds, sweep_inputs
from tests.unit.sweep_service.report.report_worlds import RATES, ending, scored


def test_what_tuning_saw_does_not_move_the_verdicts_figures() -> None:
    assert build(sweep_inputs()).verdict.comparison == build(sweep_inputs(on_seeds(tune=(2, 3, 4)))).verdict.comparison


@pytest.mark.parametrize("tune", [[0], [0, 1], [0, 1, 2, 3, 4]])
def test_without_confirmation_nothing_is_ever_better(tune: list[int]) -> None:
    report = build(sweep_inputs(on_seeds(tune, confirm=()), advantage=0.5))
    assert report.verdict.outcome is Outcome.EXPLORATORY
    assert report.verdict.comparison is None
    assert report.verdict.ties is None
    assert report.best.tune.low is None  # an interval on the seeds that chose it would be too high


def test_policies_that_never_learned_get_neither_power_nor_a_claim_that_holds() -> None:
    report = build(scored(sweep_inputs({"space": {"loss.beta1": [0.25, 0.5], "loss.beta2": 1.0}}), lambda *_: 0.0))
    assert report.verdict.outcome is Outcome.INSUFFICIENT
    assert report.verdict.next.power is None
    (claim,) = [claim for claim in report.claims if claim.code == "NO_WORSE_FINAL"]
    assert claim.outcome is Holds.UNDECIDED
    assert "all of them gave the same, so nothing can be said of their spread" in claim.evidence
    assert "[0.000, 0.000]" not in render_markdown(report).decode()


@pytest.mark.parametrize(
    ("low", "high", "relevant", "outcome", "clause"),
    [
        (
            0.021,
            0.05,
            0.02,
            Outcome.AHEAD,
            "Over all runs that is open. Neither was ruined in 4 runs, but up to 60 % of each one's runs may be.",
        ),
        (0.001, 0.05, 0.02, Outcome.AHEAD, "(β1=0 β2=0), and whether by the 0.02 that matters here is open: "),
        (0.001, 0.019, 0.02, Outcome.AHEAD, "(β1=0 β2=0), but by less than the 0.02 that matters here: "),
        (-0.019, -0.001, 0.02, Outcome.BEHIND, "(β1=0 β2=0), but by less than the 0.02 that matters here: "),
        (-0.05, -0.001, 0.02, Outcome.BEHIND, "(β1=0 β2=0), and whether by the 0.02 that matters here is open: "),
        (
            -0.05,
            -0.02,
            0.02,
            Outcome.BEHIND,
            "Choosing the baseline is a bet that at most 2.5 % of its runs are ruined.",
        ),
        (
            -0.019,
            0.019,
            0.02,
            Outcome.ALIKE,
            "Taking them as alike over all runs is a bet that at most 0.1 % of the runs of each are ruined.",
        ),
        (-0.019, 0.02, 0.02, Outcome.UNDECIDED, "UNDECIDED: in sound runs "),
        (-0.02, 0.001, 0.02, Outcome.UNDECIDED, "seeds. Over all runs that is open. Neither was ruined in 4 runs"),
        (0.0, 0.001, 0.02, Outcome.ALIKE, "seeds. Over all runs that is open. Neither was ruined in 4 runs"),
        (-0.019, 0.019, 0.01, Outcome.UNDECIDED, "seeds. Over all runs that is open. Neither was ruined in 4 runs"),
    ],
)
def test_the_word_says_what_the_interval_contains(
    low: float, high: float, relevant: float, outcome: Outcome, clause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixed = Difference(
        4, (low + high) / 2, 0.01, 0.01, 6, num_problems=20, variance="pooled", low=low, high=high, detectable=0.03
    )
    monkeypatch.setattr(
        verdict, "sound_differences", lambda _sound, _all, pairs, _chose, **_: dict.fromkeys(pairs, fixed)
    )
    report = build(sweep_inputs({"objective": {"relevant": relevant}}))
    assert report.verdict.outcome is outcome
    assert report.verdict.sentence.startswith(f"{outcome}: ")
    assert clause in report.verdict.sentence


@pytest.mark.parametrize(("state", "buys"), [(SweepState.FINALIZING, True), (SweepState.RUNNING, False)])
def test_an_interim_report_buys_nothing(state: SweepState, buys: bool) -> None:
    undecided = build(sweep_inputs({"objective": {"relevant": 0.01}}, state=state)).verdict
    assert (undecided.next is not None) is buys


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

    def level(config: Config, trial: Trial) -> float | None:
        of = (0.3, 0.3) if Role.SPACE not in config.roles else (first, second)[config.params["loss.beta1"] == 0.5]
        return of[trial.stage is Stage.CONFIRM]

    spec = {"space": {"loss.beta1": [0.0, 0.5], "loss.beta2": 1.0}}
    inputs = sweep_inputs(spec, fate=ending(lambda c, t: level(c, t) is None))
    report = build(scored(inputs, lambda c, t, _: level(c, t) or 0.0))
    assert report.best.params["loss.beta1"] == (0.0, 0.5)[best]


FATES = {
    "a seed of the baseline missing": ending(lambda config, trial: config.number == 0 and trial.seed == 12),
    "every config misses another seed": ending(lambda config, trial: trial.seed == 10 + config.number % 4),
    "one seed left": ending(lambda config, trial: trial.stage is Stage.CONFIRM and trial.seed > 10),
    "two seeds left": ending(lambda config, trial: trial.stage is Stage.CONFIRM and trial.seed > 11),
    "no pair left": ending(lambda c, t: t.stage is Stage.CONFIRM and (t.seed > 11) == (Role.BASELINE in c.roles)),
    "every trial diverged": ending(lambda config, trial: True, TrialState.DIVERGED),
    "the confirm stage failed": ending(lambda config, trial: trial.stage is Stage.CONFIRM),
    "the baseline diverged": ending(lambda config, trial: Role.BASELINE in config.roles, TrialState.DIVERGED),
    "half of all diverged": ending(lambda config, trial: (trial.seed + config.number) % 2, TrialState.DIVERGED),
}


@pytest.mark.parametrize("name", FATES)
@pytest.mark.parametrize("tune", [[0], [0, 1]])
@pytest.mark.parametrize("confirm", [[], [10], [10, 11], [10, 11, 12, 13]])
def test_whatever_happened_numbers_are_finite(name: str, tune: list[int], confirm: list[int]) -> None:
    report = build(sweep_inputs(on_seeds(tune, confirm), fate=FATES[name]))
    verdict = report.verdict
    assert verdict.sentence.startswith(f"{verdict.outcome}: ")
    numbers = [value for found in report.comparisons for value in found.model_dump().values()]
    numbers += [value for one in (verdict.ties.members if verdict.ties else []) for value in one.model_dump().values()]
    numbers += verdict.next.model_dump().values() if verdict.next else []
    assert all(math.isfinite(value) for value in numbers if isinstance(value, float))
    if not confirm:
        assert verdict.outcome in (Outcome.EXPLORATORY, Outcome.INSUFFICIENT)
    elif len(confirm) < 3:
        assert verdict.outcome is Outcome.INSUFFICIENT


def test_of_several_matched_baselines_that_of_the_best_config_is_compared() -> None:
    """A sweep that was given more after its confirm stage may have another best config, with another baseline."""
    space = {"loss.beta1": [0.5], "loss.beta2": 1.0, "loss.epsilon": [0.25, 0.3]}
    inputs = sweep_inputs({"space": space} | on_seeds(confirm=(10, 11), top_k=1))
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
    assert any("for each of the best its own matched baseline" in line for line in report.method)


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
