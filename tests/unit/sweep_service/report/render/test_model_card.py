"""The card of an exported model: whose policy it is, what is known of it, and that no text breaks it."""

import re
from typing import Any

import pytest
import yaml

from sweep_service.cli.best_command import choose_trial
from sweep_service.errors import ServiceError
from sweep_service.report import Report
from sweep_service.report.build import build
from sweep_service.report.formatting import NOTHING, estimate
from sweep_service.report.render.model_card import Exported, model_card, trial_yaml
from sweep_service.schemas import TrialView
from sweep_service.sweep.records import Stage, TrialState
from tests.unit.sweep_service.report.report_benchmarks import measured_inputs
from tests.unit.sweep_service.report.report_parts import ALL, check_inert, hostile_report
from tests.unit.sweep_service.report.report_sweeps import on_seeds, sweep_inputs
from trainers.catalog.entries import ModelEntry, Origin
from trainers.config import TrainingConfig

FACTS: dict[str, Any] = {"parameters": 1_543_714_304, "dtype": "float32", "bytes": 6_000_000_000, "merged": False}
BASE = ModelEntry(
    name="qwen", origin=Origin(repository="some/Model-1.5B", revision="0123456789abcdef0123456789abcdef01234567"),
    added_at=0.0, bytes=3_000_000_000, digest="ab" * 32, architecture="Qwen2ForCausalLM", parameters=1_543_714_304,
    weights_dtype="bfloat16", context_length=32768, vocabulary=151_936, hidden_size=1536, num_layers=28, num_heads=12,
    num_kv_heads=2, chat_template=True,
)  # fmt: skip


def trials_of(report: Report) -> list[TrialView]:
    return [
        TrialView(
            **row.model_dump(include={"id", "config_id", "seed", "stage", "number", "state", "step", "total_steps"}),
            sweep_id=report.sweep.id, threads=4, objective=row.objective, mlflow_url=None,
            summary={"tokens/total": 123456.0},
        )
        for row in report.trials
        if row.config_id == report.best.config_id and row.stage is Stage.CONFIRM
    ]  # fmt: skip


def exported(report: Report, **changes: Any) -> Exported:
    trial, why = choose_trial(trials_of(report), None)
    model = {"name": "pretrained", "model": "qwen"}
    training = TrainingConfig.model_validate({"model": model}).model_dump(mode="json", exclude={"seed"})
    return Exported(trial, trial.objective, why, training, 0.4375, FACTS, 2, BASE)._replace(**changes)


def card_of(report: Report, **changes: Any) -> str:
    return model_card(report, report.best, exported(report, **changes))


def head_of(card: str) -> dict[str, Any]:
    assert card.startswith("---\n")
    return yaml.safe_load(card.split("---\n")[1])


def test_the_policy_is_that_of_the_trial_in_the_middle() -> None:
    trials = trials_of(build(sweep_inputs()))
    values = sorted(trial.objective for trial in trials if trial.objective is not None)
    assert len(values) == 4
    chosen, why = choose_trial(trials, None)
    assert chosen.objective == values[1] < values[-1]
    assert f"seed {chosen.seed} is the lower of the two in the middle of 4 confirm seeds, not the luckiest" in why
    best = max(trials, key=lambda trial: trial.objective or 0)
    assert choose_trial(trials, best.seed) == (
        best,
        f"Seed {best.seed} was asked for; by objective it is number 1 of 4 confirm seeds.",
    )
    assert choose_trial(trials[:1], None)[0] is trials[0]
    assert "in the middle of 3 confirm seeds" in choose_trial(trials[:3], None)[1]


def test_only_a_trial_that_trained_to_its_end_is_chosen() -> None:
    trials = trials_of(build(sweep_inputs()))
    diverged = [trial.model_copy(update={"state": TrialState.DIVERGED, "objective": 0.0}) for trial in trials]
    assert choose_trial([*diverged[:3], trials[3]], None)[0] is trials[3]
    with pytest.raises(ServiceError, match="no trial of the best config has trained to its end"):
        choose_trial(diverged, None)
    with pytest.raises(
        ServiceError, match=f"no finished trial of seed {trials[0].seed}; choose one of {trials[3].seed}"
    ):
        choose_trial([*diverged[:3], trials[3]], trials[0].seed)


def test_the_card_carries_the_evidence() -> None:
    report = build(sweep_inputs())
    card, best = card_of(report), report.best
    head = head_of(card)
    assert (head["base_model"], head["base_model_relation"]) == ("some/Model-1.5B", "finetune")
    assert (head["library_name"], head["pipeline_tag"]) == ("transformers", "text-generation")
    text = card.replace("\\", "")
    assert report.verdict.sentence.partition(": in ")[2] in text
    for sentence in (
        "some/Model-1.5B@0123456789abcdef0123456789abcdef01234567", "sha256:" + "ab" * 32, report.sweep.id,
        "gave an avg@k of 0.4375", "1,543,714,304 parameters", "beta1 0.5, beta2 1", "123,456", report.inputs_digest,
        "OMP_NUM_THREADS=2 python -m trainers best.yaml --evaluate . --cache CACHE --processes 2",
        "Licence: as the base model's",
    ):  # fmt: skip
        assert sentence in text, sentence
    for caution in report.cautions:
        assert caution.text.split()[0] in text
    row = next(row for row in report.configs if row.id == best.config_id)
    for seed in row.confirm.seeds:
        assert re.search(rf"\| {seed.seed}( \(this model\))? \| {seed.value:.3f} \| \d", card)
    assert card.count("(this model)") == 1


def test_the_card_has_the_scores_on_benchmarks_with_intervals() -> None:
    report = build(measured_inputs())
    card, best = card_of(report), report.best
    section = card.partition("## Benchmarks")[2].partition("\n## ")[0].replace("\\", "")
    own = next(row for row in report.trials if row.id == exported(report).trial.id)
    row = next(row for row in report.benchmarks.rows if row.config_id == best.config_id and not row.initial)
    first, last = row.cells[0], row.cells[-1]
    initial, baseline = (one.cells[0] for one in report.benchmarks.rows[:2])
    difference = estimate(first.difference.difference, first.difference.low, first.difference.high, sign=True)
    line = (
        f"| aime24, avg@16 | {own.benchmarks['aime24']:.3f} | {first.mean:.3f} (4 seeds) | {difference} "
        f"| {initial.mean:.3f} | {baseline.mean:.3f} |"
    )
    assert line in section
    mean = (own.benchmarks["aime24"] + own.benchmarks["aime25"]) / 2
    assert f"| mean over benchmarks | {mean:.3f} | {last.mean:.3f} (4 seeds) | +0." in section
    assert report.benchmarks.sentence in section
    assert "and on the benchmarks above" in card


def test_a_model_that_was_not_measured_has_dashes_in_the_card() -> None:
    report = build(measured_inputs(fails=lambda one: one.trial_id is not None))
    section = card_of(report).partition("## Benchmarks")[2].partition("\n## ")[0]
    assert re.search(rf"\| aime24 \| {NOTHING} \| {NOTHING} \| {NOTHING} \| 0\.\d+ \| {NOTHING} \|", section)
    assert "## Benchmarks" not in card_of(build(sweep_inputs()))


def test_adapters_alone_say_so() -> None:
    report = build(sweep_inputs())
    card = card_of(report, facts=FACTS | {"base": "/somewhere/models/qwen"})
    assert head_of(card)["base_model_relation"] == "adapter"
    assert head_of(card)["library_name"] == "peft"
    assert "The LoRA adapters of the confirm trial" in card
    assert "/somewhere" not in card
    merged = card_of(report, facts=FACTS | {"base": "/somewhere/models/qwen", "merged": True})
    assert "adapters are merged into the base model" in merged
    assert head_of(merged)["base_model_relation"] == "finetune"


def test_without_a_confirm_stage_it_is_exploratory() -> None:
    report = build(sweep_inputs(on_seeds((3, 5), confirm=())))
    trial = trials_of(build(sweep_inputs()))[0].model_copy(update={"stage": Stage.TUNE, "seed": 3})
    model = Exported(trial, trial.objective, "", exported(build(sweep_inputs())).training, None, FACTS, 1, None)
    text = model_card(report, report.best, model)
    assert "Exploratory: the configuration was chosen on these very seeds" in text
    assert "base_model" not in head_of(text)


def test_no_text_of_a_user_acts_in_the_card() -> None:
    report = hostile_report()
    hostile = exported(report)
    training = {**hostile.training, "task": {"name": "word_problems", "system": ALL}}
    card = card_of(report, training=training, why=ALL)
    assert set(head_of(card)) == {"library_name", "pipeline_tag", "tags", "base_model", "base_model_relation"}
    body = card.split("---\n", 2)[2]
    assert len(re.findall(r"(?m)^#{1,6} ", body)) == 7
    check_inert(re.sub(r"(?ms)^```sh$.*?^```$", "", body))


def test_the_configuration_beside_the_model_is_the_trials_own() -> None:
    report = hostile_report()
    model = exported(report)
    config = yaml.safe_load(trial_yaml(report, report.best, model))
    assert TrainingConfig.model_validate(config).seed == model.trial.seed
    assert config == {**model.training, "seed": model.trial.seed}
