"""A spec that cannot run is refused with every reason at once, each with its place."""

from typing import Any

import pytest

from search_spaces.presets import PRESETS
from search_spaces.space import SearchSpace
from sweep_service.intake.spec_check import parse_spec
from sweep_service.schemas import sweep_schema
from sweep_service.sweep.plan import first_records
from sweep_service.sweep.points import BoundSpace, setting
from sweep_service.sweep.spec import SweepSpec
from tests.refusals import refusals
from trainers.config import TrainingConfig
from trainers.losses import LOSSES


def spec(**changes: Any) -> dict[str, Any]:
    return {"name": "s", "space": {"loss.beta1": [0, 0.5]}} | changes


def config_id(training: TrainingConfig) -> str:
    return BoundSpace(SearchSpace({}), {}).point(training).id


def test_every_error_is_reported_at_once_with_its_pointer() -> None:
    found = refusals(
        {
            "name": "Not a name",
            "spce": {},
            "training": {"loss": {"name": "ce_gppo", "beta3": 1}, "rollout": {"prompts_per_rollout": 30}, "stepz": 3},
            "space": {"loss.beta1": [0, -1]},
            "seeds": {"tune": [3, 3]},
        }
    )
    assert set(found) == {
        "/name",
        "/spce",
        "/space/loss.beta1",
        "/seeds",
        "/training/loss/beta3",
        "/training/rollout",
        "/training/stepz",
    }
    assert "did you mean 'space'" in found["/spce"]
    assert "did you mean 'steps'" in found["/training/stepz"]
    assert "3, 3" in found["/seeds"]


def test_space_is_bound_to_training_by_its_corner_points() -> None:
    found = refusals(spec(space={"loss.beta1": [0, -1], "loss.epsilom": 0.2, "seed": [1, 2]}))
    assert set(found) == {"/space/seed"}
    found = refusals(spec(space={"loss.beta1": [0, -1], "loss.epsilom": 0.2}))
    assert set(found) == {"/space/loss.beta1", "/space/loss.epsilom"}
    assert found["/space/loss.beta1"].startswith("-1:")
    assert "did you mean 'loss.epsilon'" in found["/space/loss.epsilom"]


def test_a_setting_at_the_wrong_place_is_shown_its_own() -> None:
    found = refusals(spec(space={"beta1": [0, 1]}, top_k=3, loss={}))
    assert "did you mean 'loss.beta1'" in found["/space/beta1"]
    assert "did you mean 'seeds.confirm.top_k'" in found["/top_k"]
    assert "did you mean 'training.loss'" in found["/loss"]
    found = refusals(spec(training={"loss": {"name": "grpo"}}, space={"loss.beta1": [0, 1]}))
    assert found["/space/loss.beta1"].endswith("only ce_gppo has this setting")


BETA = "loss.beta1"
ON_POLICY = {"rollout": {"prompts_per_rollout": 4, "prompts_per_minibatch": 4}}
SIZES = {"rollout.prompts_per_minibatch": [4, 8], "device_batch": [64, 128]}
REFUSED: list[tuple[dict[str, Any], dict[str, str]]] = [
    ({"seeds": {"tune": [0, 1], "confirm": {"seeds": [1, 2]}}}, {"/seeds": "both stages"}),
    ({"seeds": {"tune": [0, -1]}}, {"/seeds/tune/1": "greater than or equal to 0"}),
    ({"seeds": {"confirm": {"top_k": 1}}}, {"/seeds/confirm/seeds": "required"}),
    ({"search": {"strategy": "tpe"}}, {"/search": "needs num_configs"}),
    ({"search": {"strategy": "grid", "num_configs": 3}}, {"/search": "leave num_configs out"}),
    ({"space": {BETA: {"type": "float", "low": 0, "high": 1}}}, {f"/space/{BETA}": "needs a step"}),
    ({"space": {BETA: {"type": "int", "low": 0, "high": 20_000}}}, {"/space": "more than 500;", f"/space/{BETA}": ""}),
    ({"space": {BETA: {"type": "float", "low": 2, "high": 1}}}, {f"/space/{BETA}": ""}),
    ({"space": {BETA: {"type": "float", "low": 2}}}, {f"/space/{BETA}/high": "required"}),
    ({"space": {BETA: {"type": "float", "low": "x", "high": 1}}}, {f"/space/{BETA}/low": "number"}),
    ({"space": {BETA: [1, 1]}}, {f"/space/{BETA}": ""}),
    ({"space": {BETA: []}}, {f"/space/{BETA}": ""}),
    ({"space": {"{beta}": [1]}}, {"/space": ""}),
    ({"space": {"preset": "nope"}}, {"/space": "there is no preset 'nope'"}),
    (
        {"space": {"preset": "bapo_bounds"}},
        {"/space/loss.target": "only bapo has", "/space/loss.low_end": "only bapo has"},
    ),
    ({"space": {"optimizer.learning_rate": ["1e-4", 2e-4]}}, {"/space/optimizer.learning_rate": "is read as 0.0001"}),
    (
        {"space": {"loss.erc": {"type": "fixed", "value": {"mode": "mask"}}}},
        {"/space/loss.erc/value": "a number, a text, true, false or null is needed"},
    ),
    ({"space": SIZES}, {"/space": "cannot run"}),  # clash only together
    ({"name": "", "space": {"loss.beta9": [1]}}, {"/name": "", "/space/loss.beta9": ""}),
    (
        {"space": {"loss.betta1": [1], "loss.beta2": [-1, 2]}, "training": {"steps": 7}},
        {"/training": "", "/space/loss.betta1": "", "/space/loss.beta2": ""},
    ),
    ({"resources": {"gpus": 1.5}}, {"/resources": "whole GPUs"}),
    ({"baselines": {"dapo": 0}}, {"/baselines/dapo": "true or false is needed"}),
    ({"baselines": {"dapo": "no"}}, {"/baselines/dapo": "true or false is needed"}),
    ({"objective": {"diverged": -1}}, {"/objective": "diverged -1: the lowest eval/avg_at_k is 0"}),
    ({"training": ON_POLICY}, {"/training": "keeps every ratio at 1"}),
    ({"training": {"loss": {"epsilon": 3}}}, {"/training/loss": ""}),
    ({"training": {"loss": 3}, "space": {"loss.name": ["grpo"]}}, {"/training/loss": "", "/space/loss.name": ""}),
    ({"training": {"loss": {"name": "nope"}}, "space": {"loss.name": ["grpo"]}}, {"/training/loss": ""}),
    (
        {"training": {"optimizer": {"learning_rate": float("nan")}}},
        {"/training/optimizer/learning_rate": "finite"},
    ),
]


@pytest.mark.parametrize(("change", "wanted"), REFUSED)
def test_each_mistake_is_refused_with_its_place_in_the_document(change: dict[str, Any], wanted: dict[str, str]) -> None:
    found = refusals(spec(**change))
    assert found.keys() == wanted.keys()
    assert [words for pointer, words in wanted.items() if words not in found[pointer]] == []


def test_what_is_no_mapping_is_refused() -> None:
    assert "mapping" in refusals([1, 2])[""]


def test_a_point_has_one_name_however_it_is_written() -> None:
    short = TrainingConfig.model_validate({"loss": {"name": "ce_gppo", "epsilon": 0.2}, "seed": 7})
    long = TrainingConfig.model_validate({"loss": {"name": "ce_gppo", "epsilon_low": 0.2, "epsilon_high": 0.2}})
    assert config_id(short) == config_id(long)
    other = TrainingConfig.model_validate({"loss": {"name": "ce_gppo", "epsilon": 0.3}})
    assert config_id(short) != config_id(other)


@pytest.mark.parametrize(
    ("training", "name"),
    [
        ({}, "cfg_954a691d241f"),
        ({"loss": {"name": "grpo"}}, "cfg_3971d7b90208"),
        ({"loss": {"name": "dapo"}}, "cfg_4a1ea41b03d7"),
        ({"loss": {"name": "gppo"}}, "cfg_335e7c0637fc"),
        ({"loss": {"name": "cispo"}}, "cfg_90656ab63811"),
        ({"loss": {"name": "gspo"}}, "cfg_7bc29b492441"),
        ({"loss": {"name": "clip_cov"}}, "cfg_7b79b7f7405c"),
        ({"loss": {"name": "kl_cov"}}, "cfg_4fd631bd7146"),
        ({"terms": {"positive_nll": 0.1, "entropy_bonus": {"coefficient": 0.01}}}, "cfg_06cc1e819a6c"),
        ({"model": {"lora": {"rank": 4}}}, "cfg_dcd84b307b2f"),
        (
            {
                "loss": {
                    "epsilon": 0.3,
                    "beta1": 0.25,
                    "erc": {"mode": "mask"},
                    "schedule": [{"step": 8, "beta1": 1.0}],
                },
                "steps": 16,
            },
            "cfg_560c4181c76b",
        ),
    ],
)
def test_points_keep_the_names_under_which_they_are_stored(training: dict[str, Any], name: str) -> None:
    assert config_id(TrainingConfig.model_validate(training)) == name


@pytest.mark.parametrize(
    ("changes", "digest"),
    [
        ({}, "269667d76033b9db567e494748e6d22ee4bc0027340eded2c626ab39f9c434f7"),
        (
            {
                "name": "a",
                "training": {"loss": {"name": "gspo", "epsilon": 0.1}},
                "space": {"loss.log_ratio_cap": [1, 2]},
            },
            "dfe1d99eb87b92017e51e56f1e71772af7c8d97c126f7f959199ec25a7cff013",
        ),
        (
            {
                "name": "a",
                "training": {"loss": {"name": "dapo"}, "advantage": {"normalize_std": False}},
                "space": {"loss.epsilon_high": [0.2, 0.28]},
            },
            "463bb534df8bc17b0c7366456a59beace4a10422ebf1f0b9bcc2a992e1718cec",
        ),
    ],
)
def test_a_spec_keeps_the_digest_under_which_it_is_stored(changes: dict[str, Any], digest: str) -> None:
    assert SweepSpec.model_validate(spec(**changes)).digest == digest


@pytest.mark.parametrize("loss", ["ce_gppo", "kl_cov"])
def test_an_option_of_advantages_has_a_name_only_where_it_is_on(loss: str) -> None:
    training = TrainingConfig.model_validate({"loss": {"name": loss}, "advantage": {"entropy": None}})
    assert config_id(training) == config_id(TrainingConfig.model_validate({"loss": {"name": loss}}))
    shaped = training.model_dump(mode="json") | {"advantage": {"entropy": {}}}
    assert config_id(TrainingConfig.model_validate(shaped)) != config_id(training)


@pytest.mark.parametrize("preset", sorted(PRESETS.keys() - {"seed_ranges"}))
def test_presets_are_grids_that_training_takes_and_that_are_planned(preset: str) -> None:
    loss = preset.removesuffix("_bounds") if preset.endswith("_bounds") else "ce_gppo"
    made = parse_spec(spec(space={"preset": preset}, training={"loss": {"name": loss}}))
    assert made.space.grid_size() > 1
    configs, trials = first_records(made, "swp")
    assert parse_spec(spec(space={"preset": "seed_ranges"}, search={"strategy": "tpe", "num_configs": 3}))
    assert len(configs) >= made.space.grid_size()
    assert len(trials) >= 2 * len(configs)


def test_a_spec_survives_json() -> None:
    one = parse_spec(spec(space={"preset": "beta_epsilon"}, labels={"team": "rl"}))
    assert SweepSpec.model_validate_json(one.model_dump_json()) == one
    assert SweepSpec.model_validate_json(one.model_dump_json()).digest == one.digest


@pytest.mark.parametrize(
    ("training", "pointer", "words"),
    [
        ({"loss": {"name": "ppo"}}, "/training/loss", "there is no loss 'ppo'; there are 'grpo', 'dapo', "),
        ({"loss": {"name": "gspo", "beta1": 1}}, "/training/loss/beta1", "only ce_gppo has this setting"),
        ({"loss": {"name": "grpo", "erc": {}}}, "/training/loss/erc", "only dapo, gppo, ce_gppo have this setting"),
        ({"loss": {"name": "dapo", "erc": {"low": 0.9}}}, "/training/loss/erc", "'mode' is missing"),
        ({"loss": {"name": "dapo", "erc": {"mode": "mask", "low": 2}}}, "/training/loss/erc/low", "less than 1"),
        (
            {"loss": {"name": "dapo", "erc": {"mode": "mask", "coefficient": 1}}},
            "/training/loss/erc/coefficient",
            "only penalty has this setting",
        ),
        ({"loss": {"schedule": [{"step": 0}]}}, "/training/loss/schedule/0/step", "greater than or equal to 1"),
        ({"model": {"name": "pretrained"}}, "/training/model/model", "this is required"),
        ({"model": {"name": "pretrained", "model": "../x"}}, "/training/model/model", "1 to 63 of a-z"),
        ({"model": {"name": "pretrained", "model": "Qwen/Qwen2"}}, "/training/model/model", "`sweeps models add`"),
        ({"model": {"lora": {"rank": 0}}}, "/training/model/lora/rank", "greater than or equal to 1"),
        ({"task": {"name": "word_problems", "numbers": 3}}, "/training/task/numbers", "only countdown has"),
        ({"terms": {"entropy_bonus": {"coeff": 1}}}, "/training/terms/entropy_bonus/coeff", "no such setting"),
        ({"zzzz": 1}, "/training/zzzz", "there are task, model, loss, "),
        ({"positive_nll": 0.1}, "/training/positive_nll", "did you mean 'terms.positive_nll'?"),
    ],
)
def test_errors_within_variants_name_the_place_in_the_document(
    training: dict[str, Any], pointer: str, words: str
) -> None:
    found = refusals(spec(training=training, space={"steps": 480}))
    assert list(found) == [pointer]
    assert words in found[pointer]


def test_several_losses_with_their_own_settings_are_one_space() -> None:
    names = ["ce_gppo", "cispo", "gspo", "clip_cov"]
    losses = [parse_spec(spec(space={"loss.name": names})).bind({"loss.name": name}).loss for name in names]
    assert [loss.name for loss in losses] == names
    assert [setting(TrainingConfig(loss=loss), "loss.epsilon") for loss in losses] == [0.2, 0.2, None, 1.0]
    shared = {"space": {"loss.name": ["grpo", "dapo", "ce_gppo"], "loss.epsilon": [0.1, 0.2]}}
    assert parse_spec(spec(**shared, training={"loss": {"dual_clip": 10}})).space.size == 6


@pytest.mark.parametrize(
    ("training", "space", "words"),
    [
        ({"beta1": 0.3}, {"loss.name": ["ce_gppo", "gspo"]}, "beta1 is not a setting of gspo"),
        ({}, {"loss.name": ["ce_gppo", "grpo"], "loss.beta1": [0, 1]}, "beta1 is not a setting of grpo"),
        ({"name": "dapo"}, {"loss.name": ["grpo"], "loss.erc.mode": ["mask"]}, "erc is not a setting of grpo"),
        ({"epsilon": 0.2}, {"loss.name": ["ce_gppo", "gspo"]}, "epsilon does not mean the same in ce_gppo and gspo"),
        ({}, {"loss.name": ["gspo"], "loss.epsilon_low": [1e-4]}, "epsilon_low does not mean the same"),
    ],
)
def test_settings_that_losses_do_not_share_are_refused(
    training: dict[str, Any], space: dict[str, Any], words: str
) -> None:
    found = refusals(spec(training={"loss": training}, space=space))
    assert set(found) == {"/space/loss.name"}
    assert found["/space/loss.name"].startswith(words)
    assert found["/space/loss.name"].endswith(
        "leave it out, so that each loss has its own, or give each loss a sweep of its own"
    )


@pytest.mark.parametrize("loss", LOSSES)
def test_both_bounds_are_read_back_from_any_loss_that_has_them(loss: str) -> None:
    training = TrainingConfig.model_validate({"loss": {"name": loss}})
    bounds = {setting(training, f"loss.epsilon_{side}") for side in ("low", "high")}
    assert setting(training, "loss.epsilon") == (bounds.pop() if len(bounds) == 1 else None)


def test_the_schema_takes_the_short_forms_that_a_spec_may_have() -> None:
    definitions = sweep_schema()["$defs"]
    data, filtered = definitions["WordProblemsTask"]["properties"]["data"], definitions["DataConfig"]["properties"]
    assert [form.get("type") for form in data["anyOf"]] == ["string", None]
    values = filtered["filter"]["additionalProperties"]
    bounds, allowed = values["oneOf"]
    assert bounds["$ref"].endswith("/Range")
    assert [form["type"] for form in allowed["anyOf"]] == ["boolean", "integer", "number", "string", "array"]


@pytest.mark.parametrize("name", ["task.reward", "task.name"])
def test_mean_rewards_are_not_compared_across_rewards(name: str) -> None:
    values = {"task.reward": ["math", "number"], "task.name": ["expressions", "countdown"]}[name]
    training = {"task": {"name": "word_problems"}} if name == "task.reward" else {}
    varied = spec(training=training, space={name: values, "loss.beta1": [0, 1]})
    assert parse_spec(varied).objective.metric == "eval/avg_at_k"
    found = refusals(varied | {"objective": {"metric": "eval/reward_mean"}})
    assert list(found) == ["/objective/metric"]
    assert f"eval/reward_mean cannot compare different rewards ({name})" in found["/objective/metric"]
    assert parse_spec(spec(objective={"metric": "eval/reward_mean", "diverged": -1})).objective.diverged == -1


@pytest.mark.parametrize(
    ("training", "device_batch", "pass_k"),
    [
        ({}, 64, 8),
        ({"evaluation": {"samples_per_problem": 1}}, 64, 1),
        ({"evaluation": {"samples_per_problem": 16}}, 64, 8),
        ({"rollout": {"prompts_per_minibatch": 1}}, 16, 8),
        ({"rollout": {"completions_per_prompt": 6}}, 24, 8),
        ({"rollout": {"prompts_per_rollout": 10, "prompts_per_minibatch": 5, "completions_per_prompt": 13}}, 13, 8),
        ({"rollout": {"prompts_per_minibatch": 16}}, 64, 8),
    ],
)
def test_defaults_follow_the_settings_that_bound_them(training: dict[str, Any], device_batch: int, pass_k: int) -> None:
    base = parse_spec(spec(training=training)).base
    assert (base.device_batch, base.evaluation.pass_k) == (device_batch, pass_k)
    assert config_id(TrainingConfig.model_validate(base.model_dump())) == config_id(base)


def test_what_somebody_sets_stays_and_is_refused_where_it_cannot_be() -> None:
    small: dict[str, Any] = {"rollout": {"prompts_per_minibatch": 1}, "evaluation": {"samples_per_problem": 1}}
    assert "device_batch 64 does not divide" in refusals(spec(training=small | {"device_batch": 64}))["/training"]
    small["evaluation"] |= {"pass_k": 8}
    assert "evaluation.pass_k 8 exceeds" in refusals(spec(training=small))["/training/evaluation"]


def test_a_wrong_setting_is_told_alone_where_a_default_would_follow_it() -> None:
    wrong = {"rollout": {"completions_per_prompt": "x"}, "evaluation": {"samples_per_problem": 0}}
    assert refusals(spec(training=wrong)).keys() == {
        "/training/rollout/completions_per_prompt",
        "/training/evaluation/samples_per_problem",
    }


def test_pass_at_k_is_not_compared_across_different_k() -> None:
    space, metric = {"evaluation.samples_per_problem": [4, 32]}, {"metric": "eval/pass_at_k"}
    assert parse_spec(spec(space=space)).objective.metric == "eval/avg_at_k"
    told = refusals(spec(space=space, objective=metric))
    remedy = "set training.evaluation.pass_k to 4 for all"
    assert told == {"/objective/metric": f"eval/pass_at_k cannot compare pass@k of [4, 8]; {remedy}"}
    assert parse_spec(spec(space=space, objective=metric, training={"evaluation": {"pass_k": 4}}))
