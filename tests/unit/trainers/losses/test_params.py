import subprocess
import sys
from typing import Annotated, Any

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from trainers.losses import (
    LOSSES,
    CEGPPOParams,
    CISPOParams,
    ClipCovParams,
    ClipParams,
    DAPOParams,
    EntropyBonusParams,
    ERCMask,
    GPPOParams,
    GRPOParams,
    GSPOParams,
    KLCovParams,
    LossConfig,
    OverlongParams,
)
from trainers.losses.base import Params


def test_defaults_are_the_published_ones() -> None:
    assert GRPOParams().model_dump() == {
        "name": "grpo",
        "epsilon_low": 0.2,
        "epsilon_high": 0.2,
        "log_ratio_clamp": 20.0,
        "dual_clip": None,
    }
    dapo, ce_gppo = DAPOParams(), CEGPPOParams()
    assert (dapo.epsilon_low, dapo.epsilon_high, dapo.dual_clip) == (0.2, 0.28, 10.0)
    assert (ce_gppo.epsilon_low, ce_gppo.epsilon_high, ce_gppo.dual_clip) == (0.2, 0.2, 10.0)
    assert (ce_gppo.beta1, ce_gppo.beta2, ce_gppo.log_ratio_clamp) == (0.5, 1.0, None)
    cispo, gspo, clip_cov, kl_cov = CISPOParams(), GSPOParams(), ClipCovParams(), KLCovParams()
    assert (cispo.epsilon_low, cispo.epsilon_high) == (0.2, 0.2)
    assert (gspo.epsilon_low, gspo.epsilon_high, gspo.log_ratio_cap) == (3e-4, 4e-4, 10)
    assert (clip_cov.epsilon_low, clip_cov.epsilon_high, clip_cov.selected_share) == (1, 1, 2e-4)
    assert (clip_cov.covariance_low, clip_cov.covariance_high) == (1, 5)
    assert (kl_cov.selected_share, kl_cov.kl_coefficient) == (2e-3, 1)
    assert [name for name, entry in LOSSES.items() if entry.params.fixed_aggregation] == ["gspo"]


def test_epsilon_null_is_told_as_such() -> None:
    with pytest.raises(ValidationError, match="epsilon null bounds nothing; give a number"):
        CEGPPOParams.model_validate({"epsilon": None})


def test_epsilon_sets_both_bounds_and_a_dump_round_trips() -> None:
    params = CEGPPOParams.model_validate({"epsilon": 0.3})
    assert (params.epsilon_low, params.epsilon_high) == (0.3, 0.3)
    assert "epsilon" not in params.model_dump()
    assert CEGPPOParams.model_validate(params.model_dump()) == params


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epsilon": 0.3, "epsilon_low": 0.1}, "epsilon 0.3 sets both bounds, but epsilon_low is given too"),
        ({"epsilon": 1.5}, "epsilon 1.5 must lie between 0 and 1"),
        ({"epsilon": "wide"}, "unable to parse string"),
        ({"epsilon_high": 0.5, "dual_clip": 1.2}, "dual_clip 1.2 must exceed 1 \\+ epsilon_high = 1.5"),
        ({"epsilon_low": 1.0}, "less than 1"),
        ({"epsilon_high": float("nan")}, "finite number"),
        ({"beta1": 0.5}, "Extra inputs are not permitted"),
    ],
)
def test_impossible_parameters_are_refused_with_the_reason(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        GRPOParams.model_validate(values)


class _Numbers(Params):
    """One field for each way to write that a value is a number, and two that may be a truth value."""

    number: float = 1.0
    optional: int | None = None
    bounded: Annotated[float, Field(gt=0)] | None = None
    several: tuple[float, ...] = ()
    flag: bool = False
    either: bool | int = 0


@pytest.mark.parametrize("name", ["number", "optional", "bounded"])
def test_a_truth_value_is_no_number(name: str) -> None:
    with pytest.raises(ValidationError, match=rf"(?s)1 validation error.*{name}\n.*should be a valid"):
        _Numbers.model_validate({name: True})


def test_a_truth_value_is_no_number_in_a_list_either() -> None:
    with pytest.raises(ValidationError, match=r"several\.1\n"):
        _Numbers.model_validate({"several": [0.5, True]})


def test_a_truth_value_stays_one_where_it_may_be() -> None:
    values = _Numbers.model_validate({"flag": True, "either": True, "several": [1, 2], "number": 3})
    assert (values.flag, values.either, values.several, values.number) == (True, True, (1.0, 2.0), 3.0)


@pytest.mark.parametrize("number", [10**400, -(10**400)])
def test_a_number_too_large_to_be_compared_is_outside_every_bound(number: int) -> None:
    with pytest.raises(ValidationError, match="greater than 0" if number < 0 else "less than or equal to 1000000"):
        OverlongParams.model_validate({"cache_tokens": 1, "factor": number})


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (CEGPPOParams, {"beta1": -0.1}, "beta1"),
        (CEGPPOParams, {"log_ratio_clamp": 50}, "less than or equal to 40"),
        (CISPOParams, {"dual_clip": 3}, "Extra inputs are not permitted"),
        (GSPOParams, {"log_ratio_clamp": 20}, "Extra inputs are not permitted"),
        (ClipCovParams, {"covariance_low": 5}, "covariance_high 5.0 must exceed covariance_low 5.0"),
        (KLCovParams, {"selected_share": 0}, "greater than 0"),
        (DAPOParams, {"erc": {"mode": "mask", "low": 1.0}}, "less than 1"),
        (DAPOParams, {"erc": {"mode": "penalty", "high": 0.9}}, "greater than or equal to 1"),
        (DAPOParams, {"erc": {"mode": "mask", "coefficient": 0.1}}, "Extra inputs are not permitted"),
        (DAPOParams, {"erc": {"low": 0.9}}, "Unable to extract tag using discriminator 'mode'"),
        (GRPOParams, {"erc": {"mode": "mask"}}, "Extra inputs are not permitted"),
        (EntropyBonusParams, {"coefficient": 2, "target": 1}, "coefficient 2.0 starts above largest 1.0"),
    ],
)
def test_every_family_refuses_what_it_has_no_use_for(kind: type[Params], values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        kind.model_validate(values)


@pytest.mark.parametrize("kind", [entry.params for entry in LOSSES.values()])
def test_the_schema_offers_epsilon(kind: type[ClipParams]) -> None:
    offered = kind.model_json_schema()["properties"]["epsilon"]
    assert offered.get("exclusiveMaximum") == (1e9 if kind in (CISPOParams, ClipCovParams) else 1)
    assert kind.model_validate({"epsilon": 0.3}).epsilon_high == 0.3


@pytest.mark.parametrize("kind", [CISPOParams, ClipCovParams])
def test_a_bound_below_zero_is_no_bound(kind: type[ClipParams]) -> None:
    assert kind.model_validate({"epsilon": 10}).low == -9


def test_the_union_is_told_apart_by_name() -> None:
    adapter: TypeAdapter[LossConfig] = TypeAdapter(LossConfig)
    assert adapter.validate_python({"name": "dapo", "epsilon": 0.1}) == DAPOParams(epsilon_low=0.1, epsilon_high=0.1)
    for name, entry in LOSSES.items():
        assert adapter.validate_python({"name": name}) == entry.params()
    masked = adapter.validate_python({"name": "gppo", "erc": {"mode": "mask"}})
    assert masked == GPPOParams(erc=ERCMask(low=0.95, high=1.05))
    assert adapter.validate_python(masked.model_dump()) == masked


def test_importing_the_losses_loads_no_torch() -> None:
    code = "import sys, trainers.losses; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
