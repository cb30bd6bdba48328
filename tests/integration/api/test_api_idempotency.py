"""One key, one sweep."""

import threading

import httpx
import pytest

from tests.integration.api.conftest import Served
from tests.integration.api.played_sweep import SPEC

KEY = {"Idempotency-Key": "a-key"}


def test_the_same_key_and_spec_give_the_stored_sweep(served: Served) -> None:
    first = served.http.post("/v1/sweeps", json=SPEC, headers=KEY)
    again = served.http.post("/v1/sweeps", json=SPEC | {"seeds": {"tune": [0, 1]}}, headers=KEY)
    assert first.status_code == again.status_code == 201
    assert again.json() == first.json()
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.headers["Location"] == first.headers["Location"]


def test_the_same_key_with_another_spec_is_422(served: Served) -> None:
    served.http.post("/v1/sweeps", json=SPEC, headers=KEY)
    answer = served.http.post("/v1/sweeps", json=SPEC | {"name": "other"}, headers=KEY)
    assert answer.status_code == 422
    assert answer.json()["code"] == "IDEMPOTENCY_KEY_REUSED"


def test_a_refused_spec_does_not_use_up_its_key(served: Served) -> None:
    assert served.http.post("/v1/sweeps", json=SPEC | {"name": "?"}, headers=KEY).status_code == 422
    assert served.http.post("/v1/sweeps", json=SPEC, headers=KEY).status_code == 201


def test_without_a_key_the_same_spec_is_another_sweep(served: Served) -> None:
    ids = {served.http.post("/v1/sweeps", json=SPEC).json()["id"] for _ in range(2)}
    assert len(ids) == 2


@pytest.mark.long
def test_a_race_of_the_same_submission_stores_one_sweep(served: Served) -> None:
    answers: list[httpx.Response] = []
    barrier = threading.Barrier(12)

    def submit() -> None:
        barrier.wait()
        answers.append(served.http.post("/v1/sweeps", json=SPEC, headers=KEY))

    threads = [threading.Thread(target=submit) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert sum("Idempotency-Replayed" not in answer.headers for answer in answers) == 1
    assert len(served.store.list_sweeps(100)) == 1
    assert len(served.store.list_trials(answers[0].json()["id"])) == 8
