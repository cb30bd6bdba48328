"""One key, one sweep."""

from typing import Any

import pytest

from sweep_service.intake.spec_check import parse_spec
from sweep_service.sweep.spec import SweepSpec
from tests.integration.api.conftest import Served
from tests.integration.api.played_sweep import SPEC

KEY = {"Idempotency-Key": "a-key"}
CHANGES: tuple[dict[str, Any], ...] = (
    {"name": "other"},
    {"labels": {"team": "other"}},
    {"training": {"steps": 88}},
    {"space": {"loss.beta1": [0.0, 0.5], "loss.beta2": 1.0}},
    {"search": {"strategy": "random", "num_configs": 3}},
    {"seeds": {"tune": [0, 2]}},
    {"baselines": {"dapo": True}},
    {"objective": {"last": 2}},
    {"budget": {"max_trial_hours": 1}},
    {"resources": {"max_parallel": 1}},
    {"retries": {"max_crashes": 0}},
    {"probe": "first"},
    {"early_stopping": {"rule": "asha"}},
    {"health": {"entropy_collapse": "stop"}},
    {"benchmarks": {"names": ["arithmetic"], "of": "all"}},
)
"""A change in each section of the spec."""


def test_the_same_key_and_spec_give_the_stored_sweep(served: Served) -> None:
    first = served.http.post("/v1/sweeps", json=SPEC, headers=KEY)
    again = served.http.post("/v1/sweeps", json=SPEC | {"seeds": {"tune": [0, 1]}}, headers=KEY)
    assert first.status_code == again.status_code == 201
    assert again.json() == first.json()
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.headers["Location"] == first.headers["Location"]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_a_spec_that_differs_anywhere_is_another_one_for_its_key(change: dict[str, Any]) -> None:
    assert parse_spec(SPEC | change).digest != parse_spec(SPEC).digest


def test_every_section_of_a_spec_is_changed_once() -> None:
    others = {"schema_version", "trainer"}  # which has one value; which leaves no room for our trainer's sections
    assert {name for change in CHANGES for name in change} == SweepSpec.model_fields.keys() - others


def test_a_key_is_used_up_by_its_first_spec_that_is_accepted(served: Served) -> None:
    for change, status in (({"name": "?"}, 422), ({}, 201), ({"name": "other"}, 422)):
        answer = served.http.post("/v1/sweeps", json=SPEC | change, headers=KEY)
        assert answer.status_code == status
    assert answer.json()["code"] == "IDEMPOTENCY_KEY_REUSED"


def test_without_a_key_the_same_spec_is_another_sweep(served: Served) -> None:
    ids = {served.http.post("/v1/sweeps", json=SPEC).json()["id"] for _ in range(2)}
    assert len(ids) == 2
