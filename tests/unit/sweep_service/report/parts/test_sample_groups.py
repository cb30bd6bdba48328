"""What the best, the baseline's and the worst policy wrote, side by side."""

from dataclasses import replace

from sweep_service.report.build import build
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.parts.sample_groups import MOST
from sweep_service.sweep.records import Sample, Stage, Trial
from tests.unit.sweep_service.report.report_sweeps import sweep_inputs


def with_samples(inputs: ReportInputs, prompts: dict[int, list[str]], default: list[str]) -> ReportInputs:
    """Every trial's samples, their prompts by the trial's number."""

    def of(trial: Trial) -> list[Sample]:
        return [
            Sample(trial_id=trial.id, step=240, prompt=prompt, completion=f"<b>{trial.number} & {at}</b>", reward=1.0)
            for at, prompt in enumerate(prompts.get(trial.number, default))
        ]

    return replace(inputs, samples=tuple(sample for trial in inputs.trials for sample in of(trial)))


def test_three_configs_each_by_the_confirm_trial_of_the_lowest_seed() -> None:
    report = build(with_samples(sweep_inputs(), {}, ["1=", "2="]))
    trials = {trial.id: trial for trial in report.trials}
    assert [(group.role, group.label, group.seed) for group in report.samples] == [
        ("best", "β1=0 β2=1", 10),
        ("baseline", "baseline β1=0 β2=0", 10),
        ("worst", "β1=1 β2=1", 0),  # never confirmed
    ]
    assert [trials[group.trial_id].stage for group in report.samples] == [Stage.CONFIRM, Stage.CONFIRM, Stage.TUNE]
    assert {group.step for group in report.samples} == {240}


def test_texts_stay_as_they_were_written() -> None:
    group = build(with_samples(sweep_inputs(), {}, ["<i>1</i>="])).samples[0]
    number = int(group.trial_id.removeprefix("trl_"))
    assert (group.items[0].prompt, group.items[0].completion) == ("<i>1</i>=", f"<b>{number} & 0</b>")


def test_prompts_that_all_have_come_first_in_one_order() -> None:
    inputs = sweep_inputs()
    groups = build(with_samples(inputs, {}, ["1="])).samples
    numbers = [int(group.trial_id.removeprefix("trl_")) for group in groups]
    prompts = {numbers[0]: ["a", "b", "c"], numbers[1]: ["c", "x", "b"], numbers[2]: ["b", "y", "c"]}
    found = build(with_samples(inputs, prompts, ["1="])).samples
    assert [[item.prompt for item in group.items] for group in found] == [
        ["b", "c", "a"],
        ["b", "c", "x"],
        ["b", "c", "y"],
    ]


def test_at_most_six_of_each() -> None:
    found = build(with_samples(sweep_inputs(), {}, [f"{n}=" for n in range(9)])).samples
    assert [len(group.items) for group in found] == [MOST] * 3


def test_a_sweep_without_samples_shows_none() -> None:
    assert build(sweep_inputs()).samples == []


def test_a_config_without_samples_is_left_out() -> None:
    inputs = with_samples(sweep_inputs(), {}, ["1="])
    baseline = {trial.id for trial in inputs.trials if trial.config_id == inputs.configs[0].id}
    fewer = replace(inputs, samples=tuple(sample for sample in inputs.samples if sample.trial_id not in baseline))
    assert [group.role for group in build(fewer).samples] == ["best", "worst"]
