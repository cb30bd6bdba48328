"""Each warning fires where its rule is met, and nowhere on a healthy sweep."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sweep_service.report.build import build
from sweep_service.report.facts.report_inputs import CURVE_KEYS, ReportInputs
from sweep_service.report.model import Caution, Outcome, Report
from sweep_service.sweep.own_trainer import OwnTrainer
from sweep_service.sweep.records import (
    Config,
    ProblemCounts,
    Role,
    Stage,
    SweepState,
    Trial,
    TrialState,
    TrialWarning,
)
from sweep_service.sweep.series import Values
from tests.unit.sweep_service.report.report_sweeps import succeed, sweep_inputs

HEALTHY: dict[str, Any] = {"space": {"loss.beta1": [0.0, 0.25], "loss.beta2": 1.0}}
Change = Callable[[Values], Values]


def found(report: Report, code: str) -> Caution:
    (caution,) = [caution for caution in report.cautions if caution.code == code]
    return caution


def codes(report: Report) -> list[str]:
    return [caution.code for caution in report.cautions]


def changed(
    inputs: ReportInputs, changes: Mapping[str, Change], *, where: Callable[[Config, Trial], bool]
) -> ReportInputs:
    """The same sweep with other curves in some trials."""
    configs = {config.id: config for config in inputs.configs}
    series = dict(inputs.series)
    for trial in inputs.trials:
        if where(configs[trial.config_id], trial):
            own = series[trial.id]
            other = {key: change(own.metrics[key]) for key, change in changes.items()}
            series[trial.id] = replace(own, metrics={**own.metrics, **other})
    return replace(inputs, series=series)


def is_first(config: Config, trial: Trial) -> bool:
    return trial.number == 3


def in_part(low: float, high: float, factor: float) -> Change:
    """Multiply a stretch of the curve."""

    def change(values: Values) -> Values:
        share = np.arange(len(values)) / len(values)
        return np.where((share >= low) & (share < high), values * factor, values)

    return change


def rising(start: float, end: float) -> Change:
    return lambda values: np.linspace(start, end, len(values))


@pytest.mark.parametrize("advantage", [0.0, 0.08, -0.08])
def test_a_healthy_sweep_has_no_warning_but_of_its_power(advantage: float) -> None:
    assert set(codes(build(sweep_inputs(HEALTHY, advantage=advantage)))) <= {"UNDERPOWERED"}


def test_every_warning_says_its_rule() -> None:
    report = build(sweep_inputs({"seeds": {"tune": [0]}}, state=SweepState.CANCELLED))
    assert len(report.cautions) > 3
    assert all(caution.rule and caution.text for caution in report.cautions)


@pytest.mark.parametrize(
    ("code", "changes", "words"),
    [
        ("ENTROPY_COLLAPSE", {"entropy": in_part(0.4, 0.5, 0.1)}, "entropy fell from 1.0"),
        ("ENTROPY_EXPLOSION", {"entropy": in_part(0.4, 0.5, 6.0)}, "entropy rose from 1.0"),
        ("ENTROPY_EXPLOSION", {"entropy": rising(1.0, 2.9), "reward/mean": in_part(0.5, 1, 0.6)}, "while reward fell"),
        ("REWARD_COLLAPSE", {"reward/mean": in_part(0.8, 0.9, 0.3)}, "reward fell from 0.8"),
        ("LENGTH_HACKING", {"completion/truncated_share": rising(0.0, 0.5)}, "cut at the limit went from 0.01 to 0.49"),
        (
            "LENGTH_HACKING",
            {"completion/length_ended": rising(6.0, 12.0), "eval/avg_at_k": rising(0.4, 0.41)},
            "from 6.1 to 11.9 tokens without a gain",
        ),
        (
            "REWARD_HACKING_SUSPECT",
            {"reward/mean": rising(0.4, 0.9), "eval/avg_at_k": rising(0.5, 0.3)},
            "while training reward rose by",
        ),
        ("DEAD_GROUPS", {"group/zero_spread_share": in_part(0.5, 0.6, 3.0)}, "of the groups had equal rewards"),
        ("CLIP_DOMINATED", {"clip_fraction/high": rising(0.3, 0.4)}, "35% above"),
    ],
)
def test_a_symptom_of_one_trial_is_named_with_its_figures(code: str, changes: dict[str, Change], words: str) -> None:
    report = build(changed(sweep_inputs(HEALTHY), changes, where=is_first))
    caution = found(report, code)
    trial = next(trial for trial in report.trials if trial.number == 3)
    assert caution.trials == [trial.id]
    assert (
        f"{trial.label}: 1 of {len([t for t in report.trials if t.config_id == trial.config_id])} trials"
        in caution.text
    )
    assert f"Trial 3 ({trial.label}, tune seed {trial.seed}: " in caution.text
    assert words in caution.text


@pytest.mark.parametrize(
    "changes",
    [
        {"entropy": in_part(0.4, 0.42, 0.01)},  # shorter than a window
        {"entropy": rising(1.0, 2.9)},  # entropy rises, and so does reward
        {"reward/mean": lambda values: in_part(0.1, 0.2, 0.1)(rising(0.0, 0.9)(values))},  # falls before it has risen
        {"completion/length_ended": rising(6.0, 12.0)},  # longer, and better on held-out problems
        {"completion/truncated_share": rising(0.6, 0.1)},  # cut less and less
        {"group/zero_spread_share": in_part(0.5, 0.51, 3.0)},
        {"clip_fraction/low": in_part(0.5, 0.6, 20.0)},
    ],
)
def test_what_looks_alike_is_no_symptom(changes: dict[str, Change]) -> None:
    assert set(codes(build(changed(sweep_inputs(HEALTHY), changes, where=is_first)))) <= {"UNDERPOWERED"}


def test_the_worst_trial_is_the_example_and_the_verdicts_own_configs_come_first() -> None:
    inputs = changed(sweep_inputs(), {"entropy": in_part(0.4, 0.6, 0.1)}, where=lambda c, t: t.seed == 10)
    worst = changed(inputs, {"entropy": in_part(0.4, 0.6, 0.5)}, where=lambda c, t: t.number == 10)
    report = build(worst)
    assert f"Worst: trial {10} (" in found(report, "ENTROPY_COLLAPSE").text
    order = codes(report)
    assert order.index("ENTROPY_COLLAPSE") < order.index("REWARD_COLLAPSE")  # which only a config that lost has


def test_a_diverged_trial_is_the_worst_of_collapses() -> None:
    def fate(config: Config, trial: Trial) -> Trial:
        if trial.number == 3:
            return trial.model_copy(update={"state": TrialState.DIVERGED, "step": 40})
        return succeed(config, trial)

    report = build(sweep_inputs(fate=fate))
    assert ": it diverged)" in found(report, "REWARD_COLLAPSE").text


def test_a_seed_that_stands_apart_is_named() -> None:
    inputs = sweep_inputs(HEALTHY, advantage=0.08)
    drop = changed(inputs, {"eval/avg_at_k": lambda values: values - 0.1}, where=lambda c, t: t.seed == 12 and wins(c))
    report = build(drop)
    caution = found(report, "SEED_DISAGREEMENT")
    assert "but seed 12: -0." in caution.text
    seeds = {trial.seed for trial in report.trials if trial.id in caution.trials}
    assert seeds == {12}


def wins(config: Config) -> bool:
    return config.params.get("loss.beta1") == 0 and config.params.get("loss.beta2") == 1


def test_a_better_config_with_a_seed_that_is_worse() -> None:
    seeds = {"tune": [0, 1], "confirm": {"top_k": 1, "seeds": [*range(10, 20)]}}
    inputs = sweep_inputs({**HEALTHY, "seeds": seeds}, advantage=0.08)
    lower = changed(inputs, {"eval/avg_at_k": lambda values: values - 0.1}, where=lambda c, t: wins(c) and t.seed == 11)
    report = build(lower)
    assert report.verdict.outcome is Outcome.BETTER
    assert "of 10 pairs of seeds point the other way (seed 11: -0." in found(report, "SEED_DISAGREEMENT").text


def test_evaluation_noise_above_the_effect() -> None:
    inputs = sweep_inputs(HEALTHY)
    noisy = changed(inputs, {"eval/avg_at_k_se": lambda values: values + 0.03}, where=lambda c, t: True)
    caution = found(build(noisy), "EVAL_NOISE")
    # 3 evaluations a trial, 4 trials a config, 2 configs
    assert f"standard error of {0.036 / 3**0.5 / 4**0.5 * 2**0.5:.3f}" in caution.text
    assert "EVAL_NOISE" not in codes(
        build(changed(noisy, {"eval/avg_at_k": lambda v: v + 0.1}, where=lambda c, t: wins(c)))
    )


def test_configs_that_have_no_room_to_differ() -> None:
    def all_of_them(value: float, objective: str = "eval/avg_at_k") -> list[str]:
        inputs = sweep_inputs(HEALTHY | {"objective": {"metric": objective}})
        series = {
            id_: replace(own, metrics={**own.metrics, objective: own.metrics["eval/avg_at_k"] * 0 + value})
            for id_, own in inputs.series.items()
        }
        return codes(build(replace(inputs, series=series)))

    assert {"AT_FLOOR", "AT_CEILING"} & {*all_of_them(0.019)} == {"AT_FLOOR"}
    assert {"AT_FLOOR", "AT_CEILING"} & {*all_of_them(0.981)} == {"AT_CEILING"}
    assert {"AT_FLOOR", "AT_CEILING"}.isdisjoint([*all_of_them(0.02), *all_of_them(0.98)])
    assert "AT_FLOOR" in all_of_them(0.0, "eval/pass_at_k")
    assert "AT_FLOOR" not in all_of_them(0.0, "eval/reward_mean")
    one_higher = changed(
        sweep_inputs(HEALTHY),
        {"eval/avg_at_k": lambda values: values * 0},
        where=lambda c, t: Role.BASELINE not in c.roles,
    )
    assert "AT_FLOOR" not in codes(build(one_higher))
    on_floor = {"eval/avg_at_k": lambda values: values * 0}
    tuned = sweep_inputs(HEALTHY)
    assert "AT_FLOOR" not in codes(build(changed(tuned, on_floor, where=lambda c, t: t.stage is Stage.TUNE)))
    assert "AT_FLOOR" in codes(build(changed(tuned, on_floor, where=lambda c, t: t.stage is Stage.CONFIRM)))

    def one_diverged(config: Config, trial: Trial) -> Trial:
        return trial.model_copy(update={"state": TrialState.DIVERGED}) if trial.number == 2 else succeed(config, trial)

    mostly = changed(sweep_inputs(HEALTHY, fate=one_diverged), on_floor, where=lambda c, t: t.number != 2)
    assert "AT_FLOOR" in codes(build(mostly))
    diverged = sweep_inputs(HEALTHY, fate=lambda c, t: t.model_copy(update={"state": TrialState.DIVERGED}))
    assert "AT_FLOOR" not in codes(build(diverged))


def test_tokens_that_differ_by_more_than_a_fifth_are_an_unequal_budget() -> None:
    inputs = sweep_inputs(HEALTHY)
    longer = changed(inputs, {"tokens/total": lambda values: values * 1.3}, where=lambda c, t: Role.BASELINE in c.roles)
    assert "completion tokens a trial and baseline" in found(build(longer), "UNEQUAL_BUDGET").text
    a_bit = changed(inputs, {"tokens/total": lambda values: values * 1.15}, where=lambda c, t: Role.BASELINE in c.roles)
    assert "UNEQUAL_BUDGET" not in codes(build(a_bit))


def test_other_numbers_of_steps_are_an_unequal_budget() -> None:
    spec = {"space": {"loss.beta1": 0.0, "loss.beta2": 1.0, "steps": 320}, "baselines": {"matched": False}}
    assert "trained for 320 steps and baseline" in found(build(sweep_inputs(spec)), "UNEQUAL_BUDGET").text


@pytest.mark.parametrize(
    ("space", "words"),
    [
        ({"loss.beta1": [0.0, 0.5, 1.0], "loss.beta2": 1.0}, None),  # 0 is where betas end
        (
            {"loss.beta1": 0.0, "loss.beta2": [0.5, 0.75, 1.0]},
            "β2=1 is at the upper end of 0.5 to 1: extend it upwards",
        ),
        ({"loss.beta1": 0.0, "loss.beta2": [1.0, 1.5, 2.0]}, "β2=1 is at the lower end of 1 to 2: extend it downwards"),
        ({"loss.beta1": 0.0, "loss.beta2": [0.5, 1.0, 1.5]}, None),
        ({"loss.beta1": 0.0, "loss.beta2": [0.5, 1.0]}, None),  # of two values one is always at an end
        (
            {"loss.beta1": 0.0, "loss.beta2": {"type": "float", "low": 0.2, "high": 1.0, "step": 0.4}},
            "extend it upwards",
        ),
    ],
)
def test_the_edge_of_the_space(space: dict[str, Any], words: str | None) -> None:
    inputs = sweep_inputs({"space": space}, advantage=0.1)
    if words is None:
        assert "EDGE_OF_SPACE" not in codes(build(inputs))
    else:
        assert words in found(build(inputs), "EDGE_OF_SPACE").text


def test_what_weakens_the_verdict_most_comes_first() -> None:
    def fate(config: Config, trial: Trial) -> Trial:
        if trial.stage is Stage.CONFIRM and trial.seed == 13 and Role.BASELINE in config.roles:
            return trial.model_copy(update={"state": TrialState.FAILED, "step": 40, "message": "out of memory"})
        warning = TrialWarning(code="BETAS_NEARLY_INERT", message="0.01 %", evidence={}, step=12)
        return succeed(config, trial.model_copy(update={"warnings": (warning,)}))

    order = codes(build(sweep_inputs({"objective": {"relevant": 0.01}}, fate=fate)))
    expected = ["FEW_SEEDS", "FAILED_TRIALS", "UNDERPOWERED", "REWARD_COLLAPSE", "BETAS_NEARLY_INERT"]
    assert [code for code in order if code in expected] == expected


def test_trials_that_were_stopped_by_hand_are_counted_by_config() -> None:
    def fate(config: Config, trial: Trial) -> Trial:
        if trial.stage is Stage.TUNE and config.params["loss.beta1"] == 1.0:
            state = TrialState.STOPPED if trial.seed == 0 else TrialState.DISCARDED
            return trial.model_copy(update={"state": state, "step": 120})
        return succeed(config, trial)

    report = build(sweep_inputs(fate=fate))
    caution = found(report, "STOPPED_TRIALS")
    stopped = [trial for trial in report.trials if trial.id in caution.trials]
    assert [trial.objective is None for trial in stopped] == [False, True]
    assert f"2 of {len(report.trials)} trials were stopped by hand; 1 of them counts" in caution.text
    assert f" {stopped[0].label}: 2 of 2 trials." in caution.text
    (row,) = [row for row in report.configs if row.id == stopped[0].config_id]
    assert (row.tune.n if row.tune else 0, row.states) == (1, {TrialState.STOPPED: 1, TrialState.DISCARDED: 1})


def test_trials_that_trained_with_different_versions_are_named() -> None:
    inputs = sweep_inputs()
    usual = {"python": "3.11.9", "torch": "2.13.0"}
    noted = {trial.id: [usual] for trial in inputs.trials}
    assert "MIXED_VERSIONS" not in codes(build(replace(inputs, trained_with=noted)))
    first, second, *_ = noted
    noted[first] = [usual, usual | {"torch": "2.14.0"}]  # upgraded between two of its attempts
    noted[second] = [{"python": "3.11.9"}]
    caution = found(build(replace(inputs, trained_with=noted)), "MIXED_VERSIONS")
    assert set(caution.trials) == {first, second}
    number = len(inputs.trials) - 1
    assert f"torch 2.13.0 ({number} trials) and 2.14.0 (1 trial) and unknown (1 trial)" in caution.text
    assert "python" not in caution.text


def test_trials_that_were_evaluated_on_other_problems_are_named() -> None:
    inputs = sweep_inputs()

    def counts(trial_id: str, *names: str) -> ProblemCounts:
        return ProblemCounts(trial_id=trial_id, step=1, names=names, judged=(2,) * len(names), right=(1,) * len(names))

    same = [counts(trial.id, "a", "b") for trial in inputs.trials]
    assert "OTHER_PROBLEMS" not in codes(build(replace(inputs, problem_counts=tuple(same))))
    turned = counts(inputs.trials[0].id, "b", "a")
    assert "OTHER_PROBLEMS" not in codes(build(replace(inputs, problem_counts=(turned, *same[1:]))))
    other = counts(inputs.trials[0].id, "a", "c")
    caution = found(build(replace(inputs, problem_counts=(other, *same[1:]))), "OTHER_PROBLEMS")
    assert caution.trials == [inputs.trials[0].id]
    assert f"the commonest has {len(inputs.trials) - 1} trials, and 1 had another" in caution.text


def test_trials_that_trained_with_different_code_of_a_losss_package_are_named() -> None:
    inputs = sweep_inputs()
    usual = {"python": "3.11.9", "torch": "2.13.0", "transformers": "5.23.0", "trl": "1.16.0"}
    noted = {trial.id: [usual] for trial in inputs.trials}
    first, second, third, *_ = noted  # the baselines' trials note no package
    noted |= {id_: [usual | {"tempered-loss": "1 (00aa)"}] for id_ in (first, second, third)}
    assert "MIXED_VERSIONS" not in codes(build(replace(inputs, trained_with=noted)))
    noted[third] = [usual | {"tempered-loss": "1 (00bb)"}]
    caution = found(build(replace(inputs, trained_with=noted)), "MIXED_VERSIONS")
    assert caution.trials == [third]
    assert "versions: tempered-loss 1 (00aa) (2 trials) and 1 (00bb) (1 trial). They may" in caution.text


def test_a_confirm_trial_that_was_stopped_by_hand_is_an_unequal_budget() -> None:
    def fate(config: Config, trial: Trial) -> Trial:
        if trial.stage is Stage.CONFIRM and Role.BASELINE in config.roles and trial.seed == 10:
            return trial.model_copy(update={"state": TrialState.STOPPED, "step": 120})
        return succeed(config, trial)

    report = build(sweep_inputs(HEALTHY, fate=fate))
    assert "β1=0 β2=0 for 210." in found(report, "UNEQUAL_BUDGET").text


def test_a_trial_that_was_warned_twice_counts_once() -> None:
    def fate(config: Config, trial: Trial) -> Trial:
        warned = [TrialWarning(code="ODD", message=f"at {step}", evidence={}, step=step) for step in (12, 24)]
        return succeed(config, trial.model_copy(update={"warnings": tuple(warned)} if trial.number == 3 else {}))

    caution = found(build(sweep_inputs(HEALTHY, fate=fate)), "ODD")
    assert len(caution.trials) == 1
    assert caution.text.startswith("1 of ")
    assert caution.text.endswith(": at 12")


def test_the_rule_of_a_warning_is_that_of_the_trainer_which_gave_it() -> None:
    def fate(config: Config, trial: Trial) -> Trial:
        warning = TrialWarning(code="ODD", message="odd", evidence={}, step=12)
        return succeed(config, trial.model_copy(update={"warnings": (warning,)}))

    inputs = sweep_inputs(HEALTHY, fate=fate)
    assert "docs/metrics.md has its rule" in found(build(inputs), "ODD").rule
    spec = inputs.sweep.spec.model_copy(update={"trainer": OwnTrainer(command=("/bin/true",), steps=2)})
    own = replace(inputs, sweep=inputs.sweep.model_copy(update={"spec": spec}))
    assert found(build(own), "ODD").rule == "The sweep's own trainer warned of it."


@pytest.mark.parametrize(
    ("confirm", "words"),
    [({"top_k": 2, "seeds": [10, 11, 12]}, "which configs were confirmed"), (None, "which config leads")],
)
def test_a_single_tune_seed_is_doubted_in_the_words_of_its_stage(confirm: dict[str, Any] | None, words: str) -> None:
    seeds = {"tune": [0]} | ({"confirm": confirm} if confirm else {"confirm": None})
    caution = found(build(sweep_inputs({**HEALTHY, "seeds": seeds})), "FEW_SEEDS")
    assert caution.text == f"1 tune seed: {words} may well be chance."


def test_trials_without_curves_have_no_symptoms() -> None:
    inputs = sweep_inputs(HEALTHY)
    bare = {
        trial_id: replace(own, metrics={"eval/avg_at_k": own.metrics["eval/avg_at_k"]})
        for trial_id, own in inputs.series.items()
    }
    assert "eval/avg_at_k" in CURVE_KEYS
    assert set(codes(build(replace(inputs, series=bare)))) <= {"UNDERPOWERED"}
