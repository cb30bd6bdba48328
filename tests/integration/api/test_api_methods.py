"""HEAD is answered wherever GET is, and OPTIONS and every 405 name exactly the methods that a path takes."""

import pytest

from tests.integration.api.conftest import Served

METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE")
PAGES = {
    "/": {"GET"},
    "/login": {"GET", "POST"},
    "/logout": {"POST"},
    "/session": {"GET"},
    "/static/page.css": {"GET"},
    "/sweeps/{sweep_id}": {"GET"},
    "/sweeps/{sweep_id}/cancel": {"POST"},
    "/openapi.json": {"GET"},
}


def paths(shared: Served) -> dict[str, set[str]]:
    """Return the methods of every path, with the shared sweep in it."""
    described = shared.http.get("/openapi.json").json()["paths"]
    taken = {path: {method.upper() for method in operations} for path, operations in described.items()} | PAGES
    sweep_id = shared.get("/sweeps")["items"][0]["id"]
    return {path.replace("{sweep_id}", sweep_id).replace("{name}", "shop-sums"): taken[path] for path in taken}


def test_options_and_405_name_the_methods_of_the_path(shared: Served) -> None:
    for path, taken in paths(shared).items():
        whole = {*taken, "OPTIONS"} | ({"HEAD"} if "GET" in taken else set())
        answer = shared.http.options(path)
        assert (answer.status_code, answer.content) == (204, b""), path
        assert set(answer.headers["Allow"].split(", ")) == whole, path
        for method in set(METHODS) - whole:
            refused = shared.http.request(method, path)
            assert (refused.status_code, refused.headers["Allow"]) == (405, answer.headers["Allow"]), (method, path)


def test_head_is_get_without_the_body(shared: Served) -> None:
    for path, taken in paths(shared).items():
        if "GET" in taken:
            params = {"keys": "entropy"} if path.endswith("/metrics") else {}
            got, asked = shared.http.get(path, params=params), shared.http.head(path, params=params)
            assert (asked.status_code, asked.content) == (got.status_code, b""), path
            assert {**asked.headers, "date": ""} == {**got.headers, "date": ""}, path
    assert shared.http.head("/v1/nix").status_code == 404
    assert shared.http.head("/v1/sweeps", headers={"Authorization": ""}).status_code == 401


@pytest.mark.parametrize("path", ["/nix", "/v1/nix"])
def test_options_of_no_route_is_404(shared: Served, path: str) -> None:
    assert shared.http.options(path).status_code == 404


def test_head_of_a_stream_does_not_wait_for_its_events(served: Served) -> None:
    sweep_id = served.submit()
    answer = served.http.head(f"/v1/sweeps/{sweep_id}/events", headers={"Accept": "text/event-stream"})
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/event-stream")
