"""What the golden file of warnings does not show: figures by formula, limits of rules, and the rules' own words."""

import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sweep_service.report.build import build
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.model import Caution
from sweep_service.sweep.own_trainer import OwnTrainer
from sweep_service.sweep.records import Config, Role, Stage, SweepState, Trial, TrialState
from tests.unit.sweep_service.report.report_claims import with_curves
from tests.unit.sweep_service.report.report_sweeps import on_seeds, sweep_inputs
from tests.unit.sweep_service.report.report_worlds import (
    HEALTHY,
    Where,
    ending,
    every,
    in_part,
    scored,
    warned,
    warning,
)

DOCS = Path(__file__).parents[5] / "docs"
ROOM = {"AT_FLOOR", "AT_CEILING"}


def warnings_of(inputs: ReportInputs) -> dict[str, Caution]:
    return {caution.code: caution for caution in build(inputs).cautions}


def test_the_documents_have_every_rule() -> None:
    page = (DOCS / "report.md").read_text(encoding="utf-8")
    assert runpy.run_path(str(DOCS / "warnings_table.py"))["with_table"](page) == page, "run docs/warnings_table.py"


def test_every_warning_says_its_rule() -> None:
    found = warnings_of(sweep_inputs(on_seeds((0,), confirm=()), state=SweepState.CANCELLED))
    assert len(found) > 3
    assert all(caution.rule and caution.text for caution in found.values())


def test_evaluation_noise_above_the_effect() -> None:
    noisy = with_curves(sweep_inputs(HEALTHY), eval__avg_at_k_se=lambda c, t, values: values + 0.03)
    # 3 evaluations a trial, 4 trials a config, 2 configs
    expected = f"standard error of {0.036 / 3**0.5 / 4**0.5 * 2**0.5:.3f}"
    assert expected in warnings_of(noisy)["EVAL_NOISE"].text
    clear = scored(noisy, lambda c, t, values: values + 0.1 * (c.params["loss.beta1"] == 0 and Role.SPACE in c.roles))
    assert "EVAL_NOISE" not in warnings_of(clear)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.019, {"AT_FLOOR"}), (0.02, set()), (0.98, set()), (0.981, {"AT_CEILING"})],
    ids=str,
)
def test_configs_whose_means_are_all_at_one_end_have_no_room_to_differ(value: float, expected: set[str]) -> None:
    assert warnings_of(scored(sweep_inputs(HEALTHY), lambda *_: value)).keys() & ROOM == expected


@pytest.mark.parametrize(("metric", "warns"), [("eval/pass_at_k", True), ("eval/reward_mean", False)])
def test_a_reward_has_no_floor(metric: str, warns: bool) -> None:
    inputs = sweep_inputs(HEALTHY | {"objective": {"metric": metric}})
    zeros = {id_: one.metrics["eval/avg_at_k"] * 0 for id_, one in inputs.series.items()}
    series = {id_: replace(one, metrics={**one.metrics, metric: zeros[id_]}) for id_, one in inputs.series.items()}
    assert ("AT_FLOOR" in warnings_of(replace(inputs, series=series))) is warns


@pytest.mark.parametrize(
    ("on_floor", "diverges", "warns"),
    [
        (lambda c, t: Role.BASELINE not in c.roles, lambda c, t: False, False),
        (lambda c, t: t.stage is Stage.TUNE, lambda c, t: False, False),
        (lambda c, t: t.stage is Stage.CONFIRM, lambda c, t: False, True),
        (lambda c, t: t.number != 2, lambda c, t: t.number == 2, True),
        (every, every, False),
    ],
    ids=["all but the baseline", "the tune stage", "the confirm stage", "all but a diverged trial", "all diverged"],
)
def test_the_floor_is_that_of_the_confirm_stage_and_of_trained_policies(
    on_floor: Where, diverges: Where, warns: bool
) -> None:
    inputs = sweep_inputs(HEALTHY, fate=ending(diverges, TrialState.DIVERGED))
    found = warnings_of(scored(inputs, lambda c, t, values: values * (not on_floor(c, t))))
    assert ("AT_FLOOR" in found) is warns


def test_what_weakens_the_verdict_most_comes_first_and_symptoms_of_losers_come_last() -> None:
    def drop(config: Config, trial: Trial, values: Any) -> Any:
        return in_part(0.3, 0.5, 0.05)(config, trial, values) if trial.seed == 10 else values

    inputs = with_curves(sweep_inputs(fate=warned(every, warning("ODD", "odd"))), entropy=drop)
    order = list(warnings_of(inputs))
    expected = ["ENTROPY_COLLAPSE", "REWARD_COLLAPSE", "ODD"]  # only a config that lost has the second
    assert [code for code in order if code in expected] == expected


def test_the_rule_of_a_warning_is_that_of_the_trainer_which_gave_it() -> None:
    inputs = sweep_inputs(HEALTHY, fate=warned(every, warning("ODD", "odd")))
    assert "docs/metrics.md has its rule" in warnings_of(inputs)["ODD"].rule
    spec = inputs.sweep.spec.model_copy(update={"trainer": OwnTrainer(command=("/bin/true",), steps=2)})
    own = replace(inputs, sweep=inputs.sweep.model_copy(update={"spec": spec}))
    assert warnings_of(own)["ODD"].rule == "The sweep's own trainer warned of it."


def test_trials_without_curves_have_no_symptoms() -> None:
    inputs = sweep_inputs(HEALTHY)
    bare = {
        trial_id: replace(own, metrics={"eval/avg_at_k": own.metrics["eval/avg_at_k"]})
        for trial_id, own in inputs.series.items()
    }
    assert warnings_of(replace(inputs, series=bare)).keys() <= {"UNDERPOWERED"}
