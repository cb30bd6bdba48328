import pytest
from pydantic import ValidationError

from trainers.losses import BetaSwitch, CEGPPOParams, GRPOParams


def betas(params: CEGPPOParams, *steps: int) -> list[tuple[float, float]]:
    found = [params.at(step) for step in steps]
    assert all(not params.schedule for params in found)
    return [(params.beta1, params.beta2) for params in found]


def test_the_papers_switch_at_its_step_585_of_8_updates() -> None:
    params = CEGPPOParams(beta1=0, beta2=1, schedule=(BetaSwitch(step=585 * 8, beta1=0.5),))
    assert betas(params, 1, 4679, 4680, 9999) == [(0, 1), (0, 1), (0.5, 1), (0.5, 1)]


def test_a_ramp_is_linear_and_the_next_switch_starts_where_it_ended() -> None:
    params = CEGPPOParams(
        beta1=0.1,
        beta2=1,
        schedule=(BetaSwitch(step=10, beta1=0.5, ramp=4), BetaSwitch(step=14, beta1=0.3, beta2=0.2, ramp=2)),
    )
    expected = [(0.1, 1), (0.1, 1), (0.2, 1), (0.4, 1), (0.5, 1), (0.4, 0.6), (0.3, 0.2), (0.3, 0.2)]
    assert betas(params, 1, 10, 11, 13, 14, 15, 16, 99) == [pytest.approx(pair) for pair in expected]
    assert betas(params, 16) == [(0.3, 0.2)], "exactly"


def test_without_a_schedule_every_step_has_the_same_parameters() -> None:
    assert CEGPPOParams().at(7) == CEGPPOParams()
    assert GRPOParams().at(7) == GRPOParams()


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ([{"step": 5}], "the switch at step 5 changes nothing; give beta1 or beta2"),
        ([{"step": 0, "beta1": 1}], "greater than or equal to 1"),
        ([{"step": 5, "beta1": 1}, {"step": 5, "beta2": 1}], r"schedule\[1\]\.step 5 must come after"),
        ([{"step": 5, "beta1": 1, "ramp": 4}, {"step": 8, "beta1": 0}], "ends its ramp at step 9, .* to at most 3"),
        ([{"step": 5, "beta1": -1}], "greater than or equal to 0"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(schedule: list[dict[str, float]], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        CEGPPOParams.model_validate({"schedule": schedule})
