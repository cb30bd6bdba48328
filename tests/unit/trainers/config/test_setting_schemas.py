"""The list of settings says of each what the configuration itself says."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from trainers.config import TrainingConfig
from trainers.config.setting_schemas import SettingFacts, setting_facts
from trainers.losses import LOSSES
from trainers.yaml_text import read_yaml

FACTS = setting_facts(TrainingConfig)


def leaves(group: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in group.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def of(name: str, variant: str = "") -> SettingFacts:
    (found,) = [one for one in FACTS if one.name == name and (not variant or variant in one.variants.split(", "))]
    return found


def test_defaults_are_those_of_the_default_run() -> None:
    base = TrainingConfig().model_dump(mode="json")
    variant = {"task": "expressions", "model": "tiny_qwen2", "loss": "ce_gppo"}
    found = dict(leaves(base))
    assert len(found) > 50
    for name, value in found.items():
        alike = [one for one in FACTS if one.name == name]
        (facts,) = alike if len(alike) == 1 else [of(name, variant[name.partition(".")[0]])]
        assert read_yaml(facts.default, name) == (pytest.approx(value) if isinstance(value, float) else value), name


@pytest.mark.parametrize(
    ("name", "variant", "default", "allowed"),
    [
        ("loss.name", "", "ce_gppo", ", ".join(LOSSES)),
        ("loss.epsilon_low", "gspo", "0.0003", "number > 0, < 1"),
        ("loss.epsilon_low", "kl_cov", "0.2", "number > 0, < 1"),
        ("loss.erc.low", "penalty", "0.9", "number >= 0, <= 1"),
        ("loss.dual_clip", "grpo", "null", "number > 1, <= 1e+09 or null"),
        ("model.model", "pretrained", "required", "text"),
        ("rollout.overlong", "", "null", "a group or null"),
        ("compute.sharding", "", "none", "none, fsdp, zero2, zero3"),
        ("task.data.suffix", "", '"\\nPut the final answer in \\\\boxed{}.\\n"', "text"),
        ("keep_best", "", "false", "true, false"),
        ("seed", "", "0", "whole number >= 0, < 4294967296"),
    ],
)
def test_what_is_said_of_a_setting(name: str, variant: str, default: str, allowed: str) -> None:
    facts = of(name, variant)
    assert (facts.default, facts.allowed) == (default, allowed)


def test_what_variants_have_alike_comes_once_and_beside_the_others() -> None:
    kinds = {name: entry.params for name, entry in LOSSES.items()}
    alike = [
        name
        for name, kind in kinds.items()
        if (kind.model_fields["epsilon_low"].default, kind.epsilon_below) == (0.2, 1)
    ]
    assert {"grpo", "bapo"} < {*alike} < {*LOSSES}
    assert of("loss.epsilon_low", "ce_gppo").variants == ", ".join(alike)
    names = [one.name for one in FACTS]
    assert len({*FACTS}) == len(FACTS)
    assert sorted(range(len(names)), key=lambda place: names.index(names[place])) == [*range(len(names))]
