"""Whoever names the best config says beside it what the report's verdict is, or that it is still to come."""

import pytest

from sweep_service.client import Client
from tests.integration.api.conftest import Served
from tests.integration.api.played_sweep import SPEC, VERDICT, finish, play


@pytest.fixture
def sweep_id(served: Served) -> str:
    """A sweep that has SUCCEEDED, with its report."""
    sweep_id = served.service.submit(SPEC)[0].id
    finish(served.store, play(served.store, sweep_id))
    return sweep_id


def test_the_answer_has_the_verdict_with_its_figures(served: Served, client: Client, sweep_id: str) -> None:
    best = served.http.get(f"/v1/sweeps/{sweep_id}/best").json()
    found = best["verdict"]
    assert {name: found[name] for name in ("outcome", "sentence", "interim")} == {
        "outcome": "UNDECIDED",
        "sentence": VERDICT["sentence"],
        "interim": False,
    }
    assert {name: found[name] for name in VERDICT["comparison"]} == VERDICT["comparison"]
    assert (best["equal"], best["configs"]) == (2, 4), "the baseline has the same"
    assert served.http.get(f"/v1/sweeps/{sweep_id}").json()["verdict"] == found
    assert client.best(sweep_id).verdict == client.get(sweep_id).verdict
    assert client.get(sweep_id).verdict is not None
