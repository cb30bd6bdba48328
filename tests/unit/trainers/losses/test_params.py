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
    LossConfig,
    OverlongParams,
)
from trainers.losses.base import Params


def test_epsilon_sets_both_bounds_and_a_dump_round_trips() -> None:
    params = CEGPPOParams.model_validate({"epsilon": 0.3})
    assert (params.epsilon_low, params.epsilon_high) == (0.3, 0.3)
    assert "epsilon" not in params.model_dump()
    assert CEGPPOParams.model_validate(params.model_dump()) == params


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epsilon": None}, "epsilon null bounds nothing; give a number"),
        ({"epsilon": 0.3, "epsilon_low": 0.1}, "epsilon 0.3 sets both bounds, but epsilon_low is given too"),
        ({"epsilon": 1.5}, "epsilon 1.5 must lie between 0 and 1"),
        ({"epsilon": 0}, "epsilon 0 must lie between 0 and 1"),
        ({"epsilon_high": 0.5, "dual_clip": 1.2}, "dual_clip 1.2 must exceed 1 \\+ epsilon_high = 1.5"),
        ({"epsilon_high": float("nan")}, "finite number"),
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


@pytest.mark.parametrize(
    ("values", "place"),
    [*(({name: True}, name) for name in ("number", "optional", "bounded")), ({"several": [0.5, True]}, r"several\.1")],
)
def test_a_truth_value_is_no_number(values: dict[str, Any], place: str) -> None:
    with pytest.raises(ValidationError, match=rf"(?s)1 validation error.*{place}\n.*should be a valid"):
        _Numbers.model_validate(values)


def test_a_truth_value_stays_one_where_it_may_be() -> None:
    values = _Numbers.model_validate({"flag": True, "either": True, "several": [1, 2], "number": 3})
    assert (values.flag, values.either, values.several, values.number) == (True, True, (1.0, 2.0), 3.0)


@pytest.mark.parametrize("number", [10**400, -(10**400)])
def test_a_number_too_large_to_be_compared_is_outside_every_bound(number: int) -> None:
    with pytest.raises(ValidationError, match="greater than 0" if number < 0 else "less than or equal to 1000000"):
        OverlongParams.model_validate({"cache_tokens": 1, "factor": number})


def test_a_band_or_a_start_that_holds_nothing_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"covariance_high 5\.0 must exceed covariance_low 5\.0"):
        ClipCovParams(covariance_low=5)
    with pytest.raises(ValidationError, match=r"coefficient 2\.0 starts above largest 1\.0"):
        EntropyBonusParams(coefficient=2, target=1)


@pytest.mark.parametrize("kind", [entry.params for entry in LOSSES.values()])
def test_the_schema_offers_epsilon(kind: type[ClipParams]) -> None:
    offered = kind.model_json_schema()["properties"]["epsilon"]
    assert offered.get("exclusiveMaximum") == (1e9 if kind in (CISPOParams, ClipCovParams) else 1)
    assert kind.model_validate({"epsilon": 0.3}).epsilon_high == 0.3
    if kind in (CISPOParams, ClipCovParams):
        assert kind.model_validate({"epsilon": 10}).low == -9  # a bound below zero is no bound


def test_the_union_is_told_apart_by_name() -> None:
    adapter: TypeAdapter[LossConfig] = TypeAdapter(LossConfig)
    assert adapter.validate_python({"name": "dapo", "epsilon": 0.1}) == DAPOParams(epsilon_low=0.1, epsilon_high=0.1)
    for name, entry in LOSSES.items():
        assert adapter.validate_python({"name": name}) == entry.params()
    masked = adapter.validate_python({"name": "gppo", "erc": {"mode": "mask"}})
    assert masked == GPPOParams(erc=ERCMask(low=0.95, high=1.05))
    assert adapter.validate_python(masked.model_dump()) == masked
