"""Every fitted recipe is a sweep that the service takes, that fits by the model, and that says where it departs."""

import json
import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sweep_service.cli.app import app
from sweep_service.cli.spec_file import read_spec
from sweep_service.intake.spec_check import parse_spec
from sweep_service.recipes import (
    CARDS,
    RECIPES,
    RecipeError,
    Request,
    find_model,
    find_problems,
    parse_machine,
    write_recipe,
)
from sweep_service.recipes.design import Design, designs, difference_shown
from sweep_service.recipes.estimate import (
    UNCERTAINTY,
    USABLE,
    activation_bytes,
    decode_s,
    place,
    state_bytes,
    trial_cost,
)
from sweep_service.recipes.fit import hours_needed
from sweep_service.recipes.fitted_sweep import FittedSweep, fitted_sweep
from sweep_service.recipes.recipe import KNOWN, ModelShape, Problems
from sweep_service.report.statistics.differences import Arm, differences
from sweep_service.sweep.baselines import clip_higher
from sweep_service.sweep.budget import budget_complaints
from sweep_service.sweep.plan import make_plan, stage_counts
from sweep_service.sweep.spec import SweepSpec
from trainers.catalog.entries import DatasetEntry, ModelEntry
from trainers.config import TrainingConfig
from trainers.yaml_text import read_yaml

EXAMPLES = Path(__file__).parents[4] / "examples"
MACHINES = ("1xRTX4090", "1xA100-40GB", "1xH100", "4xL40S", "2xA100-80GB", "3xH100", "8xA100-80GB", "8xH100", "8xH200")
HOURS = (2.5, 12, 30, 40, 100, 400, 3000)
GRID = [(name, machine) for name in RECIPES for machine in MACHINES]
OVER_THE_GRID = pytest.mark.parametrize(("name", "machine"), GRID)
WHOLE = ("model.lora", "rollout.engine")


@cache
def fitted(name: str, machine: str, hours: float) -> FittedSweep | None:
    try:
        return fitted_sweep(Request(name, parse_machine(machine), hours))
    except RecipeError:
        return None


@cache
def parsed(name: str, machine: str, hours: float) -> SweepSpec:
    found = fitted(name, machine, hours)
    assert found is not None
    return parse_spec(found.document)


@cache
def example_of(name: str) -> SweepSpec:
    return parse_spec(read_spec(str(EXAMPLES / f"{RECIPES[name].source}.yaml")))


@cache
def written(name: str, machine: str, hours: float) -> tuple[str, SweepSpec]:
    text = write_recipe(Request(name, parse_machine(machine), hours))
    return text, parse_spec(read_yaml(text, "the recipe"))


def of(name: str, machine: str) -> list[tuple[float, FittedSweep]]:
    return [(hours, found) for hours in HOURS if (found := fitted(name, machine, hours))]


def test_the_grid_has_sweeps_of_every_recipe_and_refusals() -> None:
    found = [(name, machine, bool(of(name, machine))) for name, machine in GRID]
    assert {name for name, _, fits in found if fits} == set(RECIPES)
    assert ("paper_1_5b", "1xRTX4090", False) in found
    assert ("small_lora", "1xRTX4090", True) in found
    assert all(fitted(name, machine, 2.5) is None for name, machine in GRID if machine[0] == "1")


@OVER_THE_GRID
def test_a_sweep_fits_the_hours_and_the_gpus(name: str, machine: str) -> None:
    for hours, found in of(name, machine):
        spec, gpus = parsed(name, machine, hours), parse_machine(machine).gpus
        counts = stage_counts(spec)
        assert sum(counts) == found.fit.trials
        assert spec.resources.max_parallel == found.fit.parallel
        assert found.fit.parallel * spec.resources.gpus <= gpus
        waves = sum(-(-trials // found.fit.parallel) for trials in counts)
        assert waves == found.fit.waves
        assert spec.budget.max_trial_hours is not None
        assert spec.budget.max_gpu_hours == gpus * hours
        assert waves * spec.budget.max_trial_hours <= hours
        assert sum(counts) * spec.budget.max_trial_hours * spec.resources.gpus < gpus * hours
        assert budget_complaints(spec, counts, 1) == []
        assert UNCERTAINTY * found.fit.expected_hours <= spec.budget.max_trial_hours + 0.01
        assert hours_needed(found.fit) <= hours
        assert make_plan(spec, 1.0).trials == {"tune": counts.tune, "confirm": counts.confirm}


@OVER_THE_GRID
def test_a_sweep_fits_the_memory(name: str, machine: str) -> None:
    card, recipe = parse_machine(machine).card, RECIPES[name]
    for _, found in of(name, machine):
        shape, design, placement = KNOWN[recipe.model], found.fit.design, found.fit.placement
        state = state_bytes(shape, placement.gpus, placement.sharding, lora=recipe.lora)
        vllm = placement.memory_share * card.memory * 1e9
        for turn in (activation_bytes(shape, placement.device_batch, design), vllm - 2e9):
            assert state + 2e9 + turn <= USABLE * card.memory * 1e9 + 1
        assert 2 * shape.parameters < vllm
        assert placement.sequences >= 8


@OVER_THE_GRID
def test_a_sweep_has_what_an_answer_needs(name: str, machine: str) -> None:
    for hours, found in of(name, machine):
        spec = parsed(name, machine, hours)
        assert spec.seeds.confirm is not None
        assert len(spec.seeds.confirm.seeds) >= 4
        assert len(spec.seeds.tune) >= 2
        base = spec.base
        assert base.rollout.updates_per_rollout == 8
        assert base.steps >= 800
        assert base.rollout.max_completion_tokens >= 1024
        assert base.rollout.max_completion_tokens >= 4096 or base.rollout.prompts_per_rollout == 32
        assert base.steps % base.evaluation.every_steps == 0
        assert base.steps // base.evaluation.every_steps >= spec.objective.last
        sequences = base.rollout.prompts_per_minibatch * base.rollout.completions_per_prompt
        assert sequences % (base.device_batch * found.fit.placement.gpus) == 0
        assert clip_higher(base).rollout == base.rollout


@OVER_THE_GRID
def test_more_hours_never_show_less(name: str, machine: str) -> None:
    shown = [found.fit.design for _, found in of(name, machine)]
    for fewer, more in pairwise(shown):
        assert more.smallest_difference <= fewer.smallest_difference
        assert (more.response, more.prompts, more.confirm) >= (fewer.response, fewer.prompts, fewer.confirm)
    if len(shown) > 2:
        assert shown[-1].smallest_difference < shown[0].smallest_difference


def settings(node: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in node.items():
        inner = isinstance(value, dict) and prefix + key not in WHOLE
        found |= settings(value, f"{prefix}{key}.") if inner else {prefix + key: value}
    return found


def shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def listed(text: str) -> dict[str, tuple[str, str]]:
    head = text[: text.index("\nname: ")].replace("\n#       ", " ")
    lines = re.findall(r"^#   ([\w.]+): (.+?) -> (.+?); .+$", head, re.MULTILINE)
    return {name: (before, after) for name, before, after in lines}


@OVER_THE_GRID
def test_exactly_what_departs_from_the_example_is_listed(name: str, machine: str) -> None:
    published = settings(example_of(name).base.model_dump(mode="json"))
    for hours, _ in of(name, machine):
        text, spec = written(name, machine, hours)
        here = settings(spec.base.model_dump(mode="json"))
        differing = {key for key in here if here[key] != published.get(key)}
        added = {"space.loss.beta1", "seeds.tune", "seeds.confirm"}
        if RECIPES[name].benchmarks:
            assert here["task.apart_from"] == list(RECIPES[name].benchmarks)
            added |= {"space.loss.beta2", "benchmarks"}
        assert set(listed(text)) == differing - {"task.apart_from"} | added
        plain = {
            key: values
            for key, values in listed(text).items()
            if key in differing - {*WHOLE, "benchmarks"} and here[key] is not None
        }
        assert plain == {key: (shown(published[key]), shown(here[key])) for key in plain}


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_holds_the_values_of_its_example(name: str) -> None:
    assert TrainingConfig.model_validate(RECIPES[name].training) == example_of(name).base


@OVER_THE_GRID
def test_a_file_says_the_document_that_was_fitted_and_how_to_write_it_again(name: str, machine: str) -> None:
    for hours, found in of(name, machine):
        text, spec = written(name, machine, hours)
        assert spec == parsed(name, machine, hours)
        assert f"#   sweeps recipe {name} --gpus {machine} --hours {hours:g}\n" in text
        assert max(map(len, text.splitlines())) <= 120
        assert f"a true difference of {found.fit.design.smallest_difference:.3f}" in " ".join(text.split("\n# "))


def test_the_lab_s_example_is_what_the_command_writes() -> None:
    lab = (EXAMPLES / "lab_1_5b_8gpu.yaml").read_text()
    assert lab == write_recipe(Request("paper_1_5b", parse_machine("8xH100"), 40.0))
    grid = (EXAMPLES / "lab_1_5b_beta_grid_1gpu.yaml").read_text()
    assert grid == write_recipe(Request("paper_1_5b_beta_grid", parse_machine("1xH100"), 168.0))


def test_the_difference_is_the_one_that_the_report_would_find() -> None:
    # the variance is that of the seeds and of sampling 120 problems 8 times, thrice averaged
    variance, seeds = 0.02**2 + (1 / 6) / (120 * 8 * 3), 5
    scale = (variance * (seeds - 1)) ** 0.5
    residual = {"base": [0, 0, 0, 0, 0], "best": [1, -1, 0, 0, 0], "dapo": [0, 0, 0, 1, -1]}
    arms = [Arm(name, {seed: scale * value for seed, value in enumerate(residual[name])}) for name in residual]
    result = differences(arms, {"best": "base"})["best"]
    assert result.standard_error == pytest.approx((2 * variance / seeds) ** 0.5)
    assert difference_shown(seeds, 8, 0.02) == pytest.approx(result.detectable)


def test_a_context_bounds_the_response() -> None:
    shape = KNOWN["deepseek-r1-distill-qwen-1.5b"]._replace(name="short", context_length=4096, chat_template=False)
    found = fitted_sweep(Request("paper_1_5b", parse_machine("8xH100"), 400.0, shape))
    base = parse_spec(found.document).base
    assert base.rollout.max_completion_tokens == 3584
    names = {departure.name for departure in found.departures}
    assert {"model.model", "task.data.template", "task.data.suffix"} <= names
    assert found.document["training"]["task"]["data"]["template"] == "raw"
    with pytest.raises(RecipeError, match="context of 1024 tokens"):
        fitted_sweep(Request("paper_1_5b", parse_machine("8xH100"), 400.0, shape._replace(context_length=1024)))


def test_designs_grow_in_everything() -> None:
    ladder = designs(1 << 20)
    assert ladder[-1] == Design(16384, 128, 1000, 12, 32)
    for smaller, larger in pairwise(ladder):
        assert all(a <= b for a, b in zip(smaller, larger, strict=True))
        assert larger.smallest_difference <= smaller.smallest_difference


def test_a_refusal_says_what_would_do() -> None:
    machine = parse_machine("8xH100")
    with pytest.raises(RecipeError, match=r"needs --hours (\d+(\.\d)?)") as error:
        fitted_sweep(Request("paper_1_5b", machine, 5.0))
    enough = float(str(error.value).rpartition(" ")[2])
    assert fitted_sweep(Request("paper_1_5b", machine, enough)).fit.design.response == 1024
    with pytest.raises(RecipeError, match="needs --hours"):
        fitted_sweep(Request("paper_1_5b", machine, enough - 0.2))
    with pytest.raises(RecipeError, match="the recipe small_lora"):
        fitted_sweep(Request("paper_1_5b", parse_machine("1xRTX4090"), 400.0))
    for hours in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(RecipeError, match="--hours"):
            fitted_sweep(Request("paper_1_5b", machine, hours))


@pytest.mark.parametrize("text", ["H100", "0xH100", "65xH100", "8xH9", "8xA100", "-1xH100", "8 x", ""])
def test_odd_machines_are_refused(text: str) -> None:
    with pytest.raises(RecipeError, match="--gpus"):
        parse_machine(text)


def test_cards_are_read_in_any_case() -> None:
    assert str(parse_machine(" 4xl40s ")) == "4xL40S"
    assert all(card.memory >= 24 and card.bandwidth < 10 and card.tflops < 3000 for card in CARDS.values())


SHAPE = KNOWN["deepseek-r1-distill-qwen-1.5b"]
DESIGN = Design(response=4096, prompts=32, rollouts=100, confirm=5, samples=8)


def test_memory_and_keys_of_the_recipe_s_model() -> None:
    assert state_bytes(SHAPE, 1, "none", lora=False) == 18 * SHAPE.parameters  # 16 of training, 2 of autocast
    assert SHAPE.kv_bytes == 28_672  # 28 layers, 2 heads of 128, keys and values, 2 bytes
    sharded = state_bytes(SHAPE, 4, "fsdp", lora=False)
    assert 4 * SHAPE.parameters < sharded < 5 * SHAPE.parameters
    assert state_bytes(SHAPE, 1, "none", lora=True) < 3 * SHAPE.parameters


def test_costs_are_those_of_a_calculation_by_hand() -> None:
    card = CARDS["H100"]
    placement = place(SHAPE, card, 1, DESIGN, lora=False)
    assert placement is not None
    cost = trial_cost(SHAPE, card, placement, DESIGN, lora=False)
    # 512 responses, 256 at a time; each step reads 3.55 GB of weights and 256 x 2560 tokens of 28 KiB, at 2.01 TB/s
    step = (2 * 1.777e9 + 256 * 2560 * 28_672) / (0.6 * 3.35e12) + 0.004
    prefill = 512 * 512 * (2 * 1.777e9 + 4 * 28 * 1536 * 512) / (0.35 * 989e12)
    assert cost.sampling == pytest.approx(100 * (2 * 4096 * step + prefill), rel=1e-3)
    # 256 sequences of 4608 tokens, forward twice and backward, and 8 AdamW steps
    forward = 256 * 4608 * (2 * 1.777e9 + 4 * 28 * 1536 * 2304) / (0.35 * 989e12)
    assert cost.updates == pytest.approx(100 * (4 * forward + 8 * 30 * 1.777e9 / (0.6 * 3.35e12)), rel=1e-3)
    assert 0.5 < cost.sampling / cost.total < 0.8  # published: about 0.7 of a step (arXiv:2509.21009)


def test_more_of_anything_takes_longer_and_more_gpus_less() -> None:
    card = CARDS["H100"]
    placement = place(SHAPE, card, 1, DESIGN, lora=False)
    assert placement is not None
    least = trial_cost(SHAPE, card, placement, DESIGN, lora=False).total
    for more in ({"response": 8192}, {"prompts": 64}, {"rollouts": 200}, {"samples": 16}):
        assert trial_cost(SHAPE, card, placement, DESIGN._replace(**more), lora=False).total > least
    two = place(SHAPE, card, 2, DESIGN, lora=False)
    assert two is not None
    assert least / 2 < trial_cost(SHAPE, card, two, DESIGN, lora=False).total < least
    assert trial_cost(SHAPE, card, placement, DESIGN, lora=True).total < least
    assert decode_s(SHAPE, CARDS["A100-80GB"], placement, DESIGN, 512) > decode_s(SHAPE, card, placement, DESIGN, 512)


ENTRY: dict[str, Any] = {"origin": {}, "added_at": 0.0, "bytes": 1, "digest": "0" * 64}
MINE = ModelEntry(
    **ENTRY, name="mine", architecture="Qwen2ForCausalLM", parameters=494_032_768, weights_dtype="bfloat16",
    context_length=32_768, vocabulary=151_936, hidden_size=896, num_layers=24, num_heads=14, num_kv_heads=2,
    chat_template=True,
)  # fmt: skip


def add(cache: Path, record: ModelEntry | DatasetEntry) -> None:
    folder = cache / ("models" if isinstance(record, ModelEntry) else "datasets") / record.name
    folder.mkdir(parents=True)
    (folder / "catalog.json").write_text(record.model_dump_json())


def test_a_catalog_s_model_and_data_are_taken(tmp_path: Path) -> None:
    data = DatasetEntry(**ENTRY, name="sums", splits={"test": 100, "main": 7_000}, columns=("question", "answer"))
    for record in (MINE, data, data.model_copy(update={"name": "other", "columns": ("text", "label")})):
        add(tmp_path, record)
    shape, problems = find_model(tmp_path, "mine"), find_problems(tmp_path, "sums")
    assert shape == ModelShape("mine", 494_032_768, 896, 24, 14, 2, 32_768, chat_template=True)
    assert problems == Problems("sums", 7_000, "main", "question", "answer")
    text = write_recipe(Request("small_lora", parse_machine("1xRTX4090"), 100.0, shape, problems))
    assert "--model mine --data sums\n" in text
    task = parse_spec(read_yaml(text, "the recipe")).base.task
    assert task.name == "word_problems"
    assert (task.data.ref, task.data.split, task.data.prompt, task.validation_every) == ("sums", "main", "question", 58)
    with pytest.raises(RecipeError, match="columns text, label"):
        find_problems(tmp_path, "other")


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["recipe", *arguments], env={"COLUMNS": "1000"})
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


def test_the_command_writes_what_the_library_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWEEPS_HOME", str(tmp_path))
    asked = ("paper_1_5b", "--gpus", "8xh100", "--hours", "40")
    code, text, _ = run(*asked)
    assert (code, text) == (0, (EXAMPLES / "lab_1_5b_8gpu.yaml").read_text())
    code, path, remark = run(*asked, "-o", str(tmp_path / "sweep.yaml"))
    assert (code, (tmp_path / "sweep.yaml").read_text()) == (0, text)
    assert path == f"{tmp_path / 'sweep.yaml'}\n"
    assert remark.startswith(f"next: sweeps plan {tmp_path}")


def test_the_command_takes_a_model_of_the_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWEEPS_HOME", str(tmp_path))
    add(tmp_path / "cache", MINE)
    code, text, _ = run("paper_1_5b", "--gpus", "8xH100", "--hours", "40", "--model", "mine")
    assert code == 0
    assert parse_spec(read_yaml(text, "the recipe")).base.model.model_dump()["model"] == "mine"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("nothing", "the recipe 'nothing' is unknown; choose one of paper_1_5b"),
        ("paper_7b", "sweeps recipe paper_7b --gpus 8xH100 --hours 40"),
        ("paper_7b --gpus 1xL4 --hours 2", "does not fit on 1xL4"),
        ("paper_7b --gpus eight --hours 2", "--gpus 'eight'"),
        ("paper_1_5b --gpus 8xH100 --hours 40 --model mine", "mine is not in the catalog of models"),
        ("paper_1_5b --gpus 8xH100 --hours 40 --data none", "none is not in the catalog of datasets"),
    ],
)
def test_what_cannot_be_written_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, said: str
) -> None:
    monkeypatch.setenv("SWEEPS_HOME", str(tmp_path))
    code, text, error = run(*arguments.split(), "-o", str(tmp_path / "sweep.yaml"))
    assert (code, text) == (2, "")
    assert said in error
    assert not (tmp_path / "sweep.yaml").exists()


def test_the_recipes_are_listed() -> None:
    code, text, error = run()
    assert code == 0
    assert all(name in text for name in RECIPES)
    assert "RTX4090" in error


DOCS = (Path(__file__).parents[4] / "docs" / "recipes.md").read_text()


def test_the_differences_in_the_documentation_are_those_computed() -> None:
    rows = re.findall(r"^\| avg@(\d+), seed sd ([\d.]+) \| (.+) \|$", DOCS, re.MULTILINE)
    assert len(rows) == 6
    for samples, sd, shown in rows:
        found = [difference_shown(seeds, int(samples), float(sd)) for seeds in (4, 5, 6, 8, 10, 12)]
        assert shown.split(" | ") == [f"{difference:.3f}" for difference in found]
