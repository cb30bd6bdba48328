"""Whoever names the best config says beside it what the report's verdict is, or that it is still to come."""

from collections.abc import Callable

import pytest

from sweep_service.client import Client
from tests.integration.api.conftest import Served
from tests.integration.api.played_sweep import SPEC, VERDICT, finish, play

COMING = "there is no report yet to say how sure this is"
EQUAL = "all 4 configs have exactly the same objective, so none is the best"


@pytest.fixture
def played(served: Served) -> Callable[..., str]:
    """Play a sweep to its last trial, and with `ended` to its end."""

    def run(*, ended: bool = True, level: float | None = None) -> str:
        sweep_id = served.service.submit(SPEC)[0].id
        fence = play(served.store, sweep_id, level)
        if ended:
            finish(served.store, fence)
        return sweep_id

    return run


def test_the_answer_has_the_verdict_with_its_figures(
    served: Served, client: Client, played: Callable[..., str]
) -> None:
    sweep_id = played()
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
