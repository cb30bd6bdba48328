"""What a sweep may be given more of, and what is refused."""

from typing import Any

import pytest

from sweep_service.errors import InvalidSpec
from sweep_service.intake.extension_check import check_extension
from sweep_service.intake.spec_check import parse_spec
from sweep_service.sweep.spec import SweepSpec

SPEC: dict[str, Any] = {
    "name": "betas",
    "training": {"steps": 16},
    "space": {"loss.beta1": [0.0, 0.5, 1.0], "loss.beta2": 1},
    "seeds": {"tune": [3, 1], "confirm": {"top_k": 1, "seeds": [7]}},
}


def spec_of(**changes: Any) -> SweepSpec:
    return parse_spec(SPEC | changes)


@pytest.mark.parametrize(
    ("request_", "changes"),
    [
        ({}, {}),
        ({"seeds": {"tune": [1, 3]}}, {}),  # the same seeds in another order are no change
        ({"seeds": {"tune": [5, 1, 3]}}, {"seeds": {"tune": [3, 1, 5], "confirm": {"top_k": 1, "seeds": [7]}}}),
        (
            {"seeds": {"confirm": {"seeds": [8, 7], "top_k": 2}}},
            {"seeds": {"tune": [3, 1], "confirm": {"top_k": 2, "seeds": [7, 8]}}},
        ),
        ({"resources": {"max_parallel": 3}}, {"resources": {"max_parallel": 3}}),
        (
            {"retries": {"max_crashes": 0}, "budget": {"max_trial_hours": 2}},
            {"retries": {"max_crashes": 0}, "budget": {"max_trial_hours": 2}},
        ),
    ],
)
def test_an_extension_gives_the_spec_that_one_would_have_submitted(
    request_: dict[str, Any], changes: dict[str, Any]
) -> None:
    assert check_extension(request_, spec_of()) == spec_of(**changes)


def test_null_lifts_a_limit_and_what_is_left_out_stays() -> None:
    limited = spec_of(resources={"max_parallel": 2}, budget={"max_trial_hours": 1, "max_wait_hours": 2})
    given = check_extension({"resources": {"max_parallel": None}, "budget": {"max_wait_hours": None}}, limited)
    assert given == spec_of(budget={"max_trial_hours": 1})


@pytest.mark.parametrize(
    ("request_", "pointers"),
    [
        ({"seeds": {"tune": [3]}}, ["/seeds/tune"]),
        ({"seeds": {"confirm": {"seeds": [8], "top_k": 1}}}, ["/seeds/confirm/seeds"]),
        ({"seeds": {"tune": [3], "confirm": {"seeds": [8]}}}, ["/seeds/confirm/seeds", "/seeds/tune"]),
        ({"seeds": {"tune": [3, 1, 7]}}, ["/seeds"]),  # it is a confirm seed
        ({"seeds": {"tune": [3, 1, 5, 5]}}, ["/seeds"]),
        ({"space": {"loss.beta1": [2]}}, ["/space"]),
        ({"seeds": {"tune": []}}, ["/seeds/tune"]),
        ({"resources": {"max_parallel": 0, "gpus": 2}}, ["/resources/gpus", "/resources/max_parallel"]),
        ([], [""]),
        (7, [""]),
    ],
)
def test_what_takes_away_or_cannot_be_is_refused_with_its_place(request_: Any, pointers: list[str]) -> None:
    with pytest.raises(InvalidSpec) as refused:
        check_extension(request_, spec_of())
    assert sorted(error.pointer for error in refused.value.errors) == pointers
    assert refused.value.what == "the sweep cannot be extended"


def test_less_than_is_confirmed_is_refused() -> None:
    more = spec_of(seeds={"tune": [0], "confirm": {"top_k": 2, "seeds": [7]}})
    with pytest.raises(InvalidSpec, match="1 is less than 2"):
        check_extension({"seeds": {"confirm": {"top_k": 1}}}, more)
