"""Right samples by problem, as the comparison of confirm trials takes them."""

from dataclasses import replace
from html import unescape
from statistics import fmean

import pytest

from sweep_service.report.build import build
from sweep_service.report.facts.measured_models import final_models
from sweep_service.report.facts.problem_rates import problem_rates
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.model import Outcome
from sweep_service.report.render.html import render_html
from sweep_service.report.render.markdown import render_markdown
from sweep_service.report.statistics.critical_values import lower_critical
from sweep_service.sweep.records import ProblemCounts, Stage, TrialState
from tests.unit.sweep_service.report.report_benchmarks import measured_inputs
from tests.unit.sweep_service.report.report_sweeps import in_halves, sweep_inputs
from tests.unit.sweep_service.report.report_worlds import NAMES, VERDICTS, counted, ending
from trainers.evaluation.problem_parts import problem_group, split_problems

HALF = [NAMES[index] for index in split_problems(NAMES)["confirm_part"]]


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


def test_each_occurrence_of_a_problem_counts_as_the_objective_weighs_it() -> None:
    names = (*NAMES[:3], NAMES[0], NAMES[0])
    inputs = counted(sweep_inputs(), names)
    rates = problem_rates(inputs)
    keys = [*NAMES[:3], f"{NAMES[0]}#1", f"{NAMES[0]}#2"]
    assert all(list(found) == keys for found in rates.values())
    counts = [one for one in inputs.problem_counts if one.trial_id in rates]
    for trial_id, found in rates.items():
        shares = [fmean(right / 20 for right in one.right) for one in counts if one.trial_id == trial_id]
        assert fmean(found.values()) == pytest.approx(fmean(shares))
    assert problem_group(keys[-1]) == problem_group(NAMES[0])


def test_the_comparison_counts_groups_of_problems() -> None:
    alike = (*NAMES[:-3], *(f"{NAMES[0][:12]}{place:04x}" for place in (1, 2, 3)))
    found = build(counted(sweep_inputs(), alike)).verdict.comparison
    assert (found.num_problems, found.num_groups) == (len(NAMES), len(NAMES) - 3)


def test_problems_of_a_benchmark_are_told_apart_and_have_their_groups() -> None:
    inputs = measured_inputs()
    (plain, *_) = (model.rates["aime24"] for model in final_models(inputs).values())
    assert len({problem_group(name) for name in plain}) == len(plain) > 1
    results = [
        one.model_copy(
            update={"content": one.content | {"problems": [row | {"group": "g"} for row in one.content["problems"]]}}
        )
        for one in inputs.benchmark_results
    ]
    (grouped, *_) = (
        model.rates["aime24"] for model in final_models(replace(inputs, benchmark_results=tuple(results))).values()
    )
    assert list(grouped.values()) == list(plain.values())
    assert len({problem_group(name) for name in grouped}) == 1


def test_a_diverged_trial_is_wrong_on_every_problem() -> None:
    fate = ending(lambda c, t: t.stage is Stage.CONFIRM and t.seed == 10, TrialState.DIVERGED, step=240)
    inputs = counted(sweep_inputs(fate=fate))
    diverged = {trial.id for trial in inputs.trials if trial.state is TrialState.DIVERGED}
    rates = problem_rates(inputs)
    assert diverged
    assert all(rates[id_] == dict.fromkeys(NAMES, 0.0) for id_ in diverged)


def test_other_objectives_and_trainers_that_did_not_count_have_none() -> None:
    assert problem_rates(sweep_inputs()) == {}
    assert problem_rates(counted(sweep_inputs({"objective": {"metric": "eval/pass_at_k"}}))) == {}


def test_the_report_says_what_its_interval_counts() -> None:
    halves, same = (
        build(VERDICTS[f"right samples of {which} problems were counted"]()) for which in ("other", "the same")
    )
    plain = build(sweep_inputs())
    for report in (halves, same, plain):
        assert report.verdict.basis in unescape(render_html(report).decode())
        assert report.verdict.basis in render_markdown(report).decode()
        counts = any("Differences also count the problems" in line for line in report.method)
        assert counts is (report is not plain)
    assert (halves.verdict.comparison.num_problems, same.verdict.comparison.num_problems) == (10, 20)
    assert (halves.verdict.comparison.family, same.verdict.comparison.family) == (2, 3)


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
    text = "No number of seeds can show that the two are alike within 0.015 on these 10 validation problems"
    assert text in found.next.text
    needed = int(found.next.text.rsplit("about ", 1)[1].rstrip("."))
    # of 10 differences four are ±0.15: an sd of 0.1; the next look's 97.5 % bound, of two configs at once
    assert found.comparison.problem_error == pytest.approx(0.1 / 10**0.5)
    widths = [lower_critical(2, int(0.9 * n), confidence=0.975) * 0.1 / n**0.5 for n in (needed - 1, needed)]
    assert widths[0] > 0.015 >= widths[1]
    enough = build(many).verdict
    assert enough.next is None or "No number of seeds" not in enough.next.text
