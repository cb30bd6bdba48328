"""Right samples by problem, as the comparison of confirm trials takes them."""

from dataclasses import replace
from html import unescape

import pytest

from sweep_service.report import Report
from sweep_service.report.build import build
from sweep_service.report.facts.problem_rates import problem_rates
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.model import Outcome
from sweep_service.report.render.html import render_html
from sweep_service.report.render.markdown import render_markdown
from sweep_service.report.statistics.critical_values import lower_critical
from sweep_service.sweep.records import Config, ProblemCounts, Stage, Trial, TrialState
from tests.unit.sweep_service.report.report_sweeps import in_halves, on_seeds, succeed, sweep_inputs
from trainers.evaluation.problem_parts import split_problems

NAMES = tuple(f"{number:016x}" for number in range(20))
HALF = [NAMES[index] for index in split_problems(NAMES)["confirm_part"]]


def counted(inputs: ReportInputs, names: tuple[str, ...] = NAMES) -> ReportInputs:
    """The same sweep with two counted evaluations of each trial: problem n is right 10 + n % 5 times of 20, then once
    more often."""
    counts = [
        ProblemCounts(
            trial_id=trial.id,
            step=200 + again,
            names=names,
            judged=(20,) * len(names),
            right=tuple(10 + (place + trial.number) % 5 + again for place in range(len(names))),
        )
        for trial in inputs.trials
        for again in range(2)
    ]
    return replace(inputs, problem_counts=tuple(counts))


def test_rates_are_means_over_evaluations_of_the_problems_that_measure() -> None:
    inputs = counted(in_halves(sweep_inputs()))
    rates, confirm = problem_rates(inputs), [t for t in inputs.trials if t.stage is Stage.CONFIRM]
    assert set(rates) == {trial.id for trial in confirm}
    first = confirm[0]
    assert rates[first.id] == {
        name: pytest.approx((10.5 + (NAMES.index(name) + first.number) % 5) / 20) for name in HALF
    }
    assert set(problem_rates(counted(sweep_inputs()))[first.id]) == set(NAMES)


def test_a_problem_without_a_judged_sample_is_missing() -> None:
    inputs = counted(sweep_inputs())
    judged = (0, 5, *[20] * 18)
    holed = [
        counts.model_copy(update={"judged": judged, "right": (0, 5, *[10] * 18)}) for counts in inputs.problem_counts
    ]
    rates = problem_rates(replace(inputs, problem_counts=tuple(holed)))
    assert {(NAMES[0] in found, found[NAMES[1]]) for found in rates.values()} == {(False, 1)}


def test_a_diverged_trial_is_wrong_on_every_problem() -> None:
    def fate(config: Config, trial: Trial) -> Trial:
        diverges = trial.stage is Stage.CONFIRM and trial.seed == 10
        return succeed(config, trial).model_copy(update={"state": TrialState.DIVERGED} if diverges else {})

    inputs = counted(sweep_inputs(fate=fate))
    diverged = {trial.id for trial in inputs.trials if trial.state is TrialState.DIVERGED}
    rates = problem_rates(inputs)
    assert diverged
    assert all(rates[id_] == dict.fromkeys(NAMES, 0.0) for id_ in diverged)


def test_other_objectives_and_trainers_that_did_not_count_have_none() -> None:
    assert problem_rates(sweep_inputs()) == {}
    assert problem_rates(counted(sweep_inputs({"objective": {"metric": "eval/pass_at_k"}}))) == {}


TUNING = (
    " In the tune stage 2 of 6 runs of the space collapsed or failed, 0 of 2 of this config's; the verdict's rate "
    "leaves them out, because they chose the config."
)


def ending(report: Report) -> str:
    return (
        " The lower half of the interval is the longer one, because the lower ends hold together for "
        f"{report.verdict.comparison.family} configs, of which the best was chosen.{TUNING}"
    )


def test_the_report_says_why_the_lower_half_of_an_interval_is_longer() -> None:
    two = build(sweep_inputs())
    assert two.verdict.basis.endswith(ending(two))
    one = build(sweep_inputs(on_seeds(top_k=1)))
    assert one.verdict.basis.endswith(f"may look better than it is.{TUNING}")


def test_the_report_says_what_its_interval_counts() -> None:
    plain, halves, same = (
        build(inputs) for inputs in (sweep_inputs(), *map(counted, (in_halves(sweep_inputs()), sweep_inputs())))
    )
    few = build(counted(sweep_inputs(), NAMES[:10]))
    asked = build(
        counted(
            in_halves(
                sweep_inputs({"seeds": {"tune": [0, 1], "confirm": {"seeds": [10, 11, 12, 13], "problems": "same"}}})
            )
        )
    )
    chosen = "10 validation problems, on which no config was chosen."
    assert halves.verdict.basis == f"The interval counts 4 confirm seeds and {chosen}{ending(halves)}"
    assert plain.verdict.basis == (
        "The interval counts 4 confirm seeds, but not which validation problems were drawn, because not all of these "
        "trials counted right samples problem by problem. The same problems chose the configs, so a lucky choice may "
        f"look better than it is.{ending(plain)}"
    )
    allows = f"its lower end allows for that.{ending(few)}"
    assert "fewer than 16" not in same.verdict.basis
    assert few.verdict.basis.endswith(f"which also chose the configs, because there are fewer than 16; {allows}")
    assert asked.verdict.basis.endswith(f"which also chose the configs, as the spec asks; {allows}")
    for report in (halves, same, plain):
        assert report.verdict.basis in unescape(render_html(report).decode())
        assert report.verdict.basis in render_markdown(report).decode()
    assert (halves.verdict.comparison.num_problems, same.verdict.comparison.num_problems) == (10, 20)
    assert (halves.verdict.comparison.family, same.verdict.comparison.family) == (2, 3)
    assert any("Differences also count the problems" in line for line in halves.method)
    assert not any("Differences also count the problems" in line for line in plain.method)


def test_problems_that_differ_from_trial_to_trial_are_told_as_the_reason() -> None:
    inputs = counted(sweep_inputs())
    own = [
        one.model_copy(update={"names": tuple(f"{name} {one.trial_id}" for name in one.names)})
        for one in inputs.problem_counts
    ]
    basis = build(replace(inputs, problem_counts=tuple(own))).verdict.basis
    assert "because not all of these trials were evaluated on the same problems" in basis


def lucky(inputs: ReportInputs, names: tuple[str, ...], luck: int) -> ReportInputs:
    """The same sweep in halves, where each config has `luck` more of 20 samples right on a fifth of the problems."""
    numbers = {config.id: config.number for config in inputs.configs}
    counts = [
        ProblemCounts(
            trial_id=trial.id,
            step=240,
            names=names,
            judged=(20,) * len(names),
            right=tuple(
                8 + luck * (place % 5 == numbers[trial.config_id]) + trial.seed % 2 for place in range(len(names))
            ),
        )
        for trial in inputs.trials
    ]
    return replace(in_halves(inputs), problem_counts=tuple(counts))


def test_an_undecided_verdict_says_where_only_more_problems_can_show_equivalence() -> None:
    inputs = sweep_inputs({"objective": {"relevant": 0.015}})
    few, many = lucky(inputs, NAMES, 3), lucky(inputs, tuple(f"{n:04}" for n in range(2000)), 3)
    found = build(few).verdict
    assert found.outcome is Outcome.UNDECIDED
    assert "No number of seeds can show EQUIVALENT within 0.015 on these 10 validation problems" in found.next.text
    needed = int(found.next.text.rsplit("about ", 1)[1].rstrip("."))
    # of 10 differences four are ±0.15: an sd of 0.1; the next look's 97.5 % bound, of two configs at once
    assert found.comparison.problem_error == pytest.approx(0.1 / 10**0.5)
    width = lower_critical(2, 9, confidence=0.975) * found.comparison.problem_error
    assert needed == pytest.approx(10 * (width / 0.015) ** 2, abs=1)
    enough = build(many).verdict
    assert enough.next is None or "No number of seeds" not in enough.next.text
