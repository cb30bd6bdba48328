"""Names of configs, parameters and values as people read them."""

import pytest

from sweep_service.intake.spec_check import parse_spec
from sweep_service.sweep.labels import (
    Phases,
    behind_text,
    config_label,
    config_labels,
    differing_names,
    equals_text,
    params_text,
    params_texts,
    plain_value,
    short_name,
    short_names,
    telling_params,
    value_text,
)
from sweep_service.sweep.plan import first_records
from sweep_service.sweep.records import Event, Role


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (1.0, "1"), (0.5, "0.5"), (0.28, "0.28"), (2e-4, "2e-4"), (1.5e-5, "1.5e-5"), (480, "480"),
     (100.0, "100"), (-0.25, "-0.25"), (1 / 3, "0.3333"), (1e-3, "0.001"), (True, "true"), ("dapo", "dapo")],
)  # fmt: skip
def test_values_are_short(value: object, text: str) -> None:
    assert value_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(1 / 3, "0.333333"), ("β", "β"), (" β", '" β"'), ("", '""'), (None, "null"), ({"a": [1, 2]}, '{"a":[1,2]}')],
)
def test_a_value_is_written_so_that_it_shows_where_it_begins_and_ends(value: object, text: str) -> None:
    assert plain_value(value) == text


@pytest.mark.parametrize(
    ("params", "text"),
    [
        (
            {"loss.beta1": 0.5, "loss.beta2": 1.0, "loss.name": "dapo", "loss.epsilon": None},
            "beta1=0.5 beta2=1 loss=dapo",
        ),
        ({"optimizer.learning_rate": 1e-6, "steps": 480}, "learning_rate=1e-06 steps=480"),
        # a last part that says nothing comes with its group, and names that end alike are written in full
        ({"task.further_rewards.brief.weight": 0.2, "loss.alpha": 1, "weight": 3}, "brief.weight=0.2 alpha=1 weight=3"),
        ({"rollout.top_p": 1.0, "evaluation.top_p": 0.5}, "rollout.top_p=1 evaluation.top_p=0.5"),
        ({"loss.erc": {"mode": "mask"}}, 'erc={"mode":"mask"}'),
        ({"x": "", "y": " a", "z": True}, 'x="" y=" a" z=true'),
    ],
)
def test_parameters_are_named_by_the_last_part_that_tells_them_apart(params: dict[str, object], text: str) -> None:
    assert params_text(params) == text


def test_every_part_that_says_nothing_comes_with_its_group() -> None:
    names = ["model.lora.alpha", "model.lora.rank", "advantage.entropy_reward.base", "advantage.entropy_reward.share"]
    names += ["advantage.entropy_reward.level", "terms.entropy_bonus.delta", "terms.entropy_bonus.target"]
    names += ["rollout.overlong.factor", "terms.kl.coefficient", "advantage.positive_weight.weight"]
    assert [short_name(name) for name in names] == [".".join(name.split(".")[-2:]) for name in names]
    assert [short_name(name) for name in ("loss.alpha", "weight", "loss.beta1")] == ["alpha", "weight", "β1"]


def test_labels_tell_names_that_end_alike_apart() -> None:
    assert short_names(["rollout.temperature", "evaluation.temperature", "loss.beta1"]) == {
        "rollout.temperature": "rollout.temperature",
        "evaluation.temperature": "evaluation.temperature",
        "loss.beta1": "β1",
    }
    space = {"rollout.temperature": [0.6, 1.0], "evaluation.temperature": [0.7, 1.0], "loss.beta1": 0.5}
    configs, _ = first_records(parse_spec({"name": "a", "space": space, "search": {"strategy": "grid"}}), "swp")
    labels = config_labels(configs, ["rollout.temperature", "evaluation.temperature"]).values()
    assert "rollout.temperature=0.6 evaluation.temperature=0.7" in labels


def test_null_and_blank_texts_show_in_labels() -> None:
    configs, _ = first_records(parse_spec({"name": "a", "space": {"loss.dual_clip": [None, 10]}}), "swp")
    assert {"dual_clip=null", "dual_clip=10"} <= set(config_labels(configs, ["loss.dual_clip"]).values())
    assert [value_text(value) for value in ("", " ", "a b", "a\nb", None)] == ['""', '" "', "a b", '"a\\nb"', "null"]


def test_a_baseline_of_which_nothing_varies_is_told_by_its_loss() -> None:
    configs, _ = first_records(parse_spec({"name": "a", "space": {"loss.erc": [{"mode": "mask"}, None]}}), "swp")
    assert config_labels(configs, ["loss.erc"])[configs[0].id] == "baseline β1=0 β2=0"
    raw = {"name": "a", "space": {"loss.dual_clip": [3, 10]}, "training": {"loss": {"name": "bapo"}}}
    configs, _ = first_records(parse_spec(raw), "swp")
    assert config_labels(configs, ["loss.target"])[configs[0].id] == "baseline loss=grpo"


@pytest.mark.parametrize(
    ("space", "texts"),
    [
        (
            {"loss.beta1": [0, 0.5], "loss.epsilon": 0.2},
            [
                "beta1=0 epsilon=0.2 beta2=0",
                "loss=dapo epsilon_high=0.28 log_ratio_clamp=20",
                "beta1=0 epsilon=0.2 beta2=1",
                "beta1=0.5 epsilon=0.2 beta2=1",
            ],
        ),
        (
            {"optimizer.learning_rate": [1e-4, 1e-3]},
            [
                "learning_rate=0.0002 beta1=0 beta2=0",
                "loss=dapo learning_rate=0.0002 epsilon_high=0.28 log_ratio_clamp=20",
                "learning_rate=0.0001 beta1=0.5 beta2=1",
                "learning_rate=0.001 beta1=0.5 beta2=1",
            ],
        ),
    ],
)
def test_a_config_is_told_by_all_in_which_it_differs(space: dict[str, object], texts: list[str]) -> None:
    """The first point of the first space and its baseline differ in beta2 alone, which the space does not name."""
    configs, _ = first_records(parse_spec({"name": "a", "space": space}), "swp")
    assert [params_text(params) for params in telling_params(configs).values()] == texts


def test_settings_that_are_left_out_differ_but_between_variants() -> None:
    one, two = {"a": 1, "b": {"c": 1, "d": 2}, "e": None}, {"a": 1, "b": {"c": 2}, "e": {"f": 1}}
    assert differing_names([one, two]) == ["b.c", "b.d", "e"]
    assert differing_names([{"loss": {"name": "x", "a": 1, "b": 1}}, {"loss": {"name": "y", "a": 2}}]) == [
        "loss.name",
        "loss.a",
    ]
    assert differing_names([{"g": {"name": "x", "scale": 2}}, {"g": {"name": "x"}}]) == ["g.scale"]
    assert differing_names([{"g": None}, {}]) == []
    assert differing_names([one]) == differing_names([]) == []


@pytest.mark.parametrize(
    ("equal", "configs", "text"),
    [
        (1, 1, ""),
        (1, 4, ""),
        (2, 4, "another config has exactly the same objective"),
        (3, 4, "2 other configs have exactly the same objective"),
        (4, 4, "all 4 configs have exactly the same objective, so none is the best"),
        (2, 2, "both configs have exactly the same objective, so none is the best"),
    ],
)
def test_equal_configs_are_told(equal: int, configs: int, text: str) -> None:
    assert equals_text(equal, configs) == text
    assert equals_text(equal, configs, diverged=True) == "every trial with a result diverged, so no config is the best"


@pytest.mark.parametrize(
    ("baseline", "text"),
    [
        *((behind, "") for behind in (None, 0.4, 0.5, 0.5 + 1e-13)),
        (0.5123, "but the baseline has 0.5123, which is more"),
    ],
)
def test_a_baseline_is_told_only_where_it_is_ahead(baseline: float | None, text: str) -> None:
    assert behind_text(0.5, baseline) == text


def test_values_that_round_to_the_same_text_are_written_in_all_digits() -> None:
    space = {"loss.beta1": [0.5, 0.5000001], "loss.beta2": 0}
    configs, _ = first_records(parse_spec({"name": "a", "space": space, "baselines": {"dapo": False}}), "swp")
    assert list(params_texts(configs).values()) == [
        "beta1=0 beta2=0",
        "beta1=0.5 beta2=0 (beta1=0.5)",
        "beta1=0.5 beta2=0 (beta1=0.5000001)",
    ]
    assert list(config_labels(configs, ["loss.beta1"]).values()) == [
        "baseline β1=0",
        "β1=0.5 (beta1=0.5)",
        "β1=0.5 (beta1=0.5000001)",
    ]


def test_comparators_with_other_bounds_have_labels_of_their_own() -> None:
    """Labels name what the space varies; two DAPO configs, one of them with another upper bound, are both DAPO."""
    configs, _ = first_records(parse_spec({"name": "a", "space": {"loss.beta1": [0, 0.5]}}), "swp")
    dapo = configs[1]
    loss = dapo.training["loss"] | {"epsilon_high": 0.3}
    other = dapo.model_copy(update={"id": "cfg_other", "training": dapo.training | {"loss": loss}})
    labels = config_labels([*configs, other], ["loss.beta1"])
    assert labels[dapo.id] == "DAPO (epsilon_high=0.28)"
    assert labels["cfg_other"] == "DAPO (epsilon_high=0.3)"


def test_a_point_that_is_a_matched_baseline_too_is_named_as_a_point() -> None:
    configs, _ = first_records(parse_spec({"name": "a", "space": {"loss.beta1": [0, 0.5]}}), "swp")
    orders = [(Role.SPACE, Role.MATCHED), (Role.MATCHED, Role.SPACE)]
    points = [configs[2].model_copy(update={"roles": roles}) for roles in orders]
    assert [config_label(point, ["loss.beta1"]) for point in points] == ["β1=0"] * 2


def test_what_a_whole_value_holds_is_not_told_again() -> None:
    raw = {"name": "s", "space": {"loss": [{"name": "gspo"}, {"name": "ce_gppo", "beta1": 0.75}]}}
    configs, _ = first_records(parse_spec(raw | {"baselines": {"dapo": False}}), "swp_1")
    assert list(params_texts(configs).values()) == ["beta1=0 beta2=0", "loss=gspo", "loss=ce_gppo beta1=0.75"]
    labels = config_labels(configs, ["loss.beta1", "loss.beta2", "loss"])
    assert list(labels.values()) == ["baseline β1=0 β2=0", "loss=gspo", "loss=ce_gppo beta1=0.75"]


def test_phases_follow_the_events_of_trials_and_probe() -> None:
    phases = Phases()
    told = [
        ("probe.started", {}),
        ("trial.progress", {"trial_id": "one", "phase": "loading", "done": 0, "total": 1}),
        ("trial.progress", {"trial_id": "one", "phase": "warm start", "done": 63, "total": 2400}),
        ("trial.evaluated", {"trial_id": "one", "step": 0}),
        ("probe.progress", {"phase": "sampling"}),
    ]
    for seq, (type_, data) in enumerate(told, 1):
        phases.take(Event(sweep_id="swp_a", seq=seq, time=0.0, type=type_, data=data))
    assert phases == Phases({"one": "warm start 63/2400"}, "sampling")
    phases.take(Event(sweep_id="swp_a", seq=6, time=0.0, type="probe.finished", data={"state": "SUCCEEDED"}))
    assert phases.of_probe is None


def test_the_trial_that_told_its_phase_last_comes_last() -> None:
    phases = Phases()
    for seq, trial in enumerate(("one", "other", "one"), 1):
        data = {"trial_id": trial, "phase": "warm start", "done": seq, "total": 2400}
        phases.take(Event(sweep_id="swp_a", seq=seq, time=0.0, type="trial.progress", data=data))
    assert list(phases.of_trials.items()) == [("other", "warm start 2/2400"), ("one", "warm start 3/2400")]
