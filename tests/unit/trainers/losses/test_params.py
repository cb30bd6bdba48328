import subprocess
import sys

import pytest
from pydantic import TypeAdapter, ValidationError

from trainers.losses import CEGPPOParams, ClipParams, DAPOParams, GRPOParams, LossConfig


def test_defaults_are_the_published_ones() -> None:
    assert GRPOParams().model_dump() == {
        "name": "grpo",
        "epsilon_low": 0.2,
        "epsilon_high": 0.2,
        "dual_clip": None,
        "log_ratio_clamp": 20.0,
    }
    dapo, ce_gppo = DAPOParams(), CEGPPOParams()
    assert (dapo.epsilon_low, dapo.epsilon_high, dapo.dual_clip) == (0.2, 0.28, 10.0)
    assert (ce_gppo.epsilon_low, ce_gppo.epsilon_high, ce_gppo.dual_clip) == (0.2, 0.2, 10.0)
    assert (ce_gppo.beta1, ce_gppo.beta2) == (0.5, 1.0)


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


def test_negative_beta_is_refused() -> None:
    with pytest.raises(ValidationError, match="beta1"):
        CEGPPOParams(beta1=-0.1)


@pytest.mark.parametrize("kind", [GRPOParams, DAPOParams, CEGPPOParams])
def test_the_schema_offers_epsilon(kind: type[ClipParams]) -> None:
    assert kind.model_json_schema()["properties"]["epsilon"]["exclusiveMaximum"] == 1


def test_the_union_is_told_apart_by_name() -> None:
    adapter: TypeAdapter[LossConfig] = TypeAdapter(LossConfig)
    assert adapter.validate_python({"name": "dapo", "epsilon": 0.1}) == DAPOParams(epsilon_low=0.1, epsilon_high=0.1)


def test_importing_the_losses_loads_no_torch() -> None:
    code = "import sys, trainers.losses; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
