"""Lists in pages: nothing twice, nothing left out, whatever happens meanwhile."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.api.conftest import Served


def walk(served: Served, path: str, **params: Any) -> Iterator[list[dict[str, Any]]]:
    token: str | None = None
    while True:
        asked = {name: value for name, value in {**params, "page_token": token}.items() if value is not None}
        page = served.http.get(path, params=asked).json()
        yield page["items"]
        token = page["next_page_token"]
        if token is None:
            return


def test_a_walk_sees_every_earlier_sweep_once_while_others_come(served: Served) -> None:
    before = [served.submit(name=f"before-{number}") for number in range(10)]
    stop = threading.Event()

    def submit_more() -> None:
        while not stop.is_set():
            served.submit(name="meanwhile")

    thread = threading.Thread(target=submit_more)
    thread.start()
    try:
        seen = [item["id"] for page in walk(served, "/v1/sweeps", page_size=3) for item in page]
    finally:
        stop.set()
        thread.join()
    assert len(seen) == len(set(seen))
    assert [sweep_id for sweep_id in seen if sweep_id in before] == before[::-1]


@pytest.mark.parametrize("size", [3, 7, 500])
@pytest.mark.parametrize(
    ("part", "params"),
    [
        ("trials", {}),
        ("trials", {"state": "SUCCEEDED"}),
        ("configs", {}),
        ("events", {}),
        ("events", {"after": 5}),
        ("metrics", {"keys": "entropy,reward/mean", "last": 1}),
        ("metrics", {"keys": "entropy", "last": 1, "group_by": "config"}),
    ],
)
def test_pages_of_any_size_give_the_same_list(
    shared: Served, played: str, part: str, params: dict[str, Any], size: int
) -> None:
    whole = shared.get(f"{played}/{part}", page_size=500, **params)["items"]
    pages = list(walk(shared, f"/v1{played}/{part}", page_size=size, **params))
    assert [item for page in pages for item in page] == whole
    assert all(len(page) == size for page in pages[:-1])


def test_a_page_never_splits_the_samples_of_an_evaluation(shared: Served, played: str) -> None:
    pages = list(walk(shared, f"/v1{played}/samples", page_size=5))
    assert sum(len(page) for page in pages) == 8 * 3 * 3
    groups = [{(sample["trial_id"], sample["step"]) for sample in page} for page in pages]
    assert sum(len(group) for group in groups) == len(set().union(*groups)) == 24
    assert all(len(page) == 15 for page in pages[:-1])


def test_a_token_is_good_for_its_list_and_filters_only(served: Served) -> None:
    first, second = (served.submit(name=name) for name in ("a", "b"))
    token = served.get(f"/sweeps/{first}/trials", page_size=1)["next_page_token"]
    path = f"/v1/sweeps/{first}/trials"
    assert served.http.get(path, params={"page_token": token, "page_size": 7}).status_code == 200
    wrong = [
        (path, {"page_token": token, "state": "PENDING"}),
        (f"/v1/sweeps/{second}/trials", {"page_token": token}),
        (path, {"page_token": token[:-2] + "AA"}),
        (path, {"page_token": token[1:]}),
        (path, {"page_token": "ä&=!"}),
        (path, {"page_token": ""}),
    ]
    for url, params in wrong:
        answer = served.http.get(url, params=params)
        assert answer.status_code == 400, params
        assert answer.json()["code"] == "PAGE_TOKEN_MISMATCH"


@pytest.mark.parametrize(("asked", "used"), [(1, 1), (500, 500), (501, 500), (10**400, 500), (None, 50)])
def test_a_page_says_its_size_and_a_larger_one_is_cut(
    shared: Served, played: str, asked: int | None, used: int
) -> None:
    page = shared.get(f"{played}/events", **({} if asked is None else {"page_size": asked}))
    assert page["page_size"] == used
    assert len(page["items"]) <= used
