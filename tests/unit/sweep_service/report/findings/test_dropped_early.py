"""A report of a sweep whose rule dropped configs: what it says of them, and what it leaves out for them."""

from dataclasses import replace

import pytest

from sweep_service.report.build import build
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.model import Report
from sweep_service.report.render.html import render_html
from sweep_service.sweep.early_stopping import Paired
from sweep_service.sweep.endings import Ending, TrialState
from sweep_service.sweep.records import Judgement, Stage
from tests.unit.sweep_service.report.report_sweeps import on_seeds, sweep_inputs

SEEDS = on_seeds(tune=range(6), confirm=range(10, 14))


def dropping(seed: int | None, mark: int) -> tuple[ReportInputs, str]:
    """Return a sweep of which the last point of the space was dropped, on the seeds from `mark` on, and its id."""
    inputs = sweep_inputs(SEEDS, advantage=0.12)
    chosen = {trial.config_id for trial in inputs.trials if trial.stage is Stage.CONFIRM}
    worst = next(config for config in inputs.configs[::-1] if config.is_contender and config.id not in chosen)
    said = Judgement(
        config_id=worst.id, dropped=True, seed=seed, mark=mark, value=-0.2, bound=-0.1, message="it is the worst"
    )
    after = mark if seed is None else 0
    trials, series = list(inputs.trials), dict(inputs.series)
    for place, trial in enumerate(trials):
        if trial.config_id == worst.id and trial.stage is Stage.TUNE and trial.seed >= after:
            trials[place] = trial.model_copy(update={"state": TrialState.EARLY_STOPPED, "ending": Ending.EARLY_STOPPED})
            series.pop(trial.id, None)
    spec = inputs.sweep.spec.model_copy(update={"early_stopping": Paired()})
    rows = tuple(one.model_copy(update={"dropped": said}) if one.id == worst.id else one for one in inputs.configs)
    sweep = inputs.sweep.model_copy(update={"spec": spec})
    return replace(inputs, sweep=sweep, configs=rows, trials=tuple(trials), series=series), worst.id


def warning(report: Report) -> str:
    return next(caution.text for caution in report.cautions if caution.code == "DROPPED_EARLY")


def test_a_report_names_what_was_dropped_and_why() -> None:
    inputs, worst = dropping(None, 3)
    report = build(inputs)
    label = next(row.label for row in report.configs if row.id == worst)
    assert warning(report).startswith(
        "early_stopping paired dropped 1 of 3 configs: from then on nothing compares them with the others. "
        f"{label}: it is the worst."
    )
    assert "What is said of parameters rests on the first 3 tune seeds, which all of them have" in warning(report)
    (stopped,) = [caution.trials for caution in report.cautions if caution.code == "DROPPED_EARLY"]
    assert {trial.config_id for trial in report.trials if trial.id in stopped} == {worst}
    assert len(stopped) == 3
    assert not any(caution.code == "DROPPED_EARLY" for caution in build(sweep_inputs(SEEDS)).cautions)


def test_what_is_said_of_parameters_is_that_of_a_sweep_that_ended_before_the_first_drop() -> None:
    inputs, _ = dropping(None, 3)
    first = tuple(trial for trial in inputs.trials if trial.stage is Stage.CONFIRM or trial.seed < 3)
    undropped = tuple(config.model_copy(update={"dropped": None}) for config in inputs.configs)
    before = build(replace(inputs, trials=first, configs=undropped))
    found = build(inputs)
    assert found.exploration is not None
    for part in ("claims", "exploration", "grid", "importance", "descriptive"):
        assert getattr(found, part) == getattr(before, part), part
    assert found.verdict.comparison == before.verdict.comparison, "the verdict rests on the confirm stage"


def test_where_single_runs_were_judged_nothing_is_said_of_parameters() -> None:
    report = build(dropping(0, 120)[0])
    assert (report.exploration, report.importance) == (None, None)
    assert "What is said of parameters is left out" in warning(report)


@pytest.mark.parametrize(("seed", "mark"), [(None, 3), (0, 120)])
def test_a_dropped_config_comes_after_all_that_went_on(seed: int | None, mark: int) -> None:
    inputs, worst = dropping(seed, mark)
    assert build(inputs).configs[-1].id == worst
    assert worst not in build(inputs).best.config_id


def test_a_drop_is_part_of_what_names_a_report() -> None:
    inputs, _ = dropping(None, 3)
    undropped = tuple(config.model_copy(update={"dropped": None}) for config in inputs.configs)
    assert inputs.digest != replace(inputs, configs=undropped).digest


def test_the_table_of_configs_says_which_one_was_dropped_in_place_of_its_difference() -> None:
    page = render_html(build(dropping(None, 3)[0])).decode()
    assert page.count(">DROPPED EARLY<") == 1
    assert "early stopped</span>" not in page.partition("<tbody>")[2].partition("</tbody>")[0]
    assert ">DROPPED EARLY<" not in render_html(build(sweep_inputs(SEEDS))).decode()
