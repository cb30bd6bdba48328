"""Every refusal is a problem with a code, and tells everything that is wrong at once."""

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from sweep_service.settings import Settings
from tests.integration.api.conftest import Served, serving
from tests.integration.api.played_sweep import SPEC

SWEEP = "/v1/sweeps/swp_00000000000000000000000000"


def problem(answer: httpx.Response) -> dict[str, Any]:
    assert answer.headers["Content-Type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == answer.status_code
    assert body["title"]
    assert body["detail"]
    assert re.fullmatch(r"[A-Z_]+", body["code"])
    return body


def test_a_spec_is_refused_with_every_reason_and_its_place(served: Served) -> None:
    wrong = {
        "name": "Not A Name",
        "budget": 3,
        "space": {"loss.beta9": [1], "loss.beta1": [0, -1]},
        "seeds": {"tune": [1, 1]},
    }
    answer = served.http.post("/v1/sweeps", json=wrong)
    body = problem(answer)
    assert (answer.status_code, body["code"]) == (422, "INVALID_SPEC")
    pointers = {error["pointer"] for error in body["errors"]}
    assert pointers >= {"/name", "/budget", "/space/loss.beta9", "/seeds"}
    assert any(pointer.startswith("/space/loss.beta1") for pointer in pointers)
    assert any("did you mean" in error["detail"] for error in body["errors"])
    assert problem(served.http.post("/v1/sweeps?validate_only=true", json=wrong))["errors"] == body["errors"]
    assert served.http.get("/v1/sweeps").json()["items"] == []


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"name": "a", "space": {"loss.beta1": NaN}}', "NaN"),
        (b'{"name": "a", "space": {"loss.beta1": -Infinity}}', "-Infinity"),
        (b'{"name": "a", "name": "b"}', "twice"),
        (b"[" * 40 + b"]" * 40, "nested"),
        (b"[" * 100_000, "nested"),
        (b'{"name": "\\ud800"}', "UTF-8"),
        (b'{"name": "\xff"}', "UTF-8"),
        (b"{", "line 1"),
        (b"", "line 1"),
    ],
)
def test_what_is_not_json_is_400(shared: Served, body: bytes, says: str) -> None:
    answer = shared.http.post("/v1/sweeps", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, problem(answer)["code"]) == (400, "MALFORMED_JSON")
    assert says in answer.json()["detail"]


@pytest.mark.parametrize(
    ("number", "says"), [("1e999", "the largest is 1.8e+308"), ("-8e400", "-8e400"), ("1" * 5000, "1000 digits")]
)
def test_a_number_that_no_computer_holds_is_422(shared: Served, number: str, says: str) -> None:
    body = f'{{"name": "a", "space": {{"loss.beta1": {number}}}}}'
    answer = shared.http.post("/v1/sweeps", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, problem(answer)["code"]) == (422, "INVALID_REQUEST")
    assert says in answer.json()["detail"]


@pytest.mark.parametrize("body", ["[]", "3", "null", '"text"', "{}"])
def test_what_is_not_a_spec_is_422(shared: Served, body: str) -> None:
    answer = shared.http.post("/v1/sweeps", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, problem(answer)["code"]) == (422, "INVALID_SPEC")


def test_a_body_is_limited_and_tells_its_length(shared: Served) -> None:
    big = json.dumps(SPEC | {"labels": {"a": "x" * 300_000}}).encode()
    headers = {"Content-Type": "application/json"}
    answer = shared.http.post("/v1/sweeps", content=big, headers=headers)
    assert (answer.status_code, problem(answer)["code"]) == (413, "BODY_TOO_LARGE")
    answer = shared.http.post("/v1/sweeps", content=(part for part in (big[:1000], big[1000:])), headers=headers)
    assert (answer.status_code, problem(answer)["code"]) == (411, "LENGTH_REQUIRED")


@pytest.mark.parametrize("token", ["", "Bearer nobody's"])
def test_a_body_that_nobody_reads_ends_the_connection(shared: Served, token: str) -> None:
    headers = {b"Authorization": token.encode(), b"Content-Type": b"application/json"}
    answer = shared.http.post("/v1/sweeps", content=(b"x" for _ in range(3)), headers=headers)
    assert (answer.status_code, answer.headers.get("Connection")) == (401, "close")
    assert "Connection" not in shared.http.post("/v1/sweeps", json={}).headers
    assert "Connection" not in shared.http.get("/v1/sweeps").headers


def test_another_media_type_is_415(shared: Served) -> None:
    for kind in ("text/yaml", "application/x-www-form-urlencoded", None):
        headers = {"Content-Type": kind} if kind else {}
        answer = shared.http.post("/v1/sweeps", content=b"name: a", headers=headers)
        assert (answer.status_code, problem(answer)["code"]) == (415, "UNSUPPORTED_MEDIA_TYPE")


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("/v1/sweeps?page_size=many&state=DONE&label=team", {"page_size", "state", "label"}),
        ("/v1/sweeps?page_size=0", {"page_size"}),
        (f"{SWEEP}/metrics", {"keys"}),
        (f"{SWEEP}/metrics?keys=a&group_by=seed&last=0", {"group_by", "last"}),
        (f"{SWEEP}/metrics?keys={','.join(map(str, range(51)))}", {"keys"}),
        (f"{SWEEP}/events?after={2**63}", {"after"}),
        (f"{SWEEP}/events?after=-1", {"after"}),
        (f"{SWEEP}/report?format=pdf", {"format"}),
        (f"{SWEEP}/best?format=xml", {"format"}),
    ],
)
def test_wrong_parameters_are_all_named(shared: Served, path: str, parameters: set[str]) -> None:
    answer = shared.http.get(path)
    assert answer.status_code == 422
    assert problem(answer)["code"] == "INVALID_REQUEST"
    assert {error["parameter"] for error in answer.json()["errors"]} == parameters


def test_a_misspelt_parameter_is_refused_and_nothing_is_done(served: Served) -> None:
    answer = served.http.post("/v1/sweeps?validate_onyl=true&foo=1", json=SPEC)
    body = problem(answer)
    assert (answer.status_code, body["code"]) == (422, "INVALID_REQUEST")
    assert {error["parameter"] for error in body["errors"]} == {"validate_onyl", "foo"}
    assert "validate_only" in body["detail"]
    assert served.http.get("/v1/sweeps").json()["items"] == []


def test_a_parameter_that_takes_one_value_is_given_once(served: Served) -> None:
    body = problem(served.http.post("/v1/sweeps?validate_only=true&validate_only=false&foo=1", json=SPEC))
    told = {error["parameter"]: error["detail"] for error in body["errors"]}
    assert told.keys() == {"validate_only", "foo"}
    assert told["validate_only"] == "it is given more than once; give it once"
    assert served.http.get("/v1/sweeps").json()["items"] == []
    assert served.http.get("/v1/sweeps?label=team=a&label=goal=b").status_code == 200


@pytest.mark.parametrize("key", ["", "a b", "ä", "x" * 256])
def test_an_idempotency_key_is_printable_and_short(shared: Served, key: str) -> None:
    answer = shared.http.post("/v1/sweeps", json=SPEC, headers={b"Idempotency-Key": key.encode()})
    assert (answer.status_code, problem(answer)["code"]) == (422, "INVALID_REQUEST")


@pytest.mark.parametrize(
    "path", ["/nix", "/v1", "/v1/sweeps/", "/v1/nix", "/docs", "/v1/sweeps/x/y", "/%00", "/v1/%ff"]
)
def test_unknown_routes_are_404(shared: Served, path: str) -> None:
    assert problem(shared.http.get(path))["code"] == "NO_SUCH_ROUTE"


@pytest.mark.parametrize("sweep_id", [SWEEP[-30:], "nix", "swp_%00", "swp_'; drop table sweeps", "..%2f", "swp_" * 99])
def test_unknown_sweeps_are_404(shared: Served, sweep_id: str) -> None:
    for part in ("", "/trials", "/configs", "/metrics?keys=a", "/events", "/samples", "/report", "/best"):
        answer = shared.http.get(f"/v1/sweeps/{sweep_id}{part}")
        assert answer.status_code == 404
        assert problem(answer)["code"] in ("NOT_FOUND", "NO_SUCH_ROUTE")
    assert problem(shared.http.post(f"/v1/sweeps/{sweep_id}/cancel"))["status"] == 404


def test_a_stream_of_an_unknown_sweep_is_404(shared: Served) -> None:
    answer = shared.http.get(f"{SWEEP}/events", headers={"Accept": "text/event-stream"})
    assert problem(answer)["code"] == "NOT_FOUND"


def test_other_methods_are_405_and_say_which_ones_are_allowed(shared: Served) -> None:
    answer = shared.http.delete("/v1/sweeps")
    assert (answer.status_code, problem(answer)["code"]) == (405, "METHOD_NOT_ALLOWED")
    assert answer.headers["Allow"]


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer wrong", "Basic c3dlZXBz", "Bearer \xfc"])
def test_every_route_but_the_probes_demands_the_token(shared: Served, header: str) -> None:
    paths: dict[str, dict[str, Any]] = shared.http.get("/openapi.json").json()["paths"]
    for path, operations in paths.items():
        for method in operations:
            url = path.replace("{sweep_id}", SWEEP.rpartition("/")[2])
            headers = {b"Authorization": header.encode()}
            answer = shared.http.request(method, url, headers=headers, content=b"not json")
            if path in ("/livez", "/readyz"):
                assert answer.status_code == 200
            else:
                assert (answer.status_code, problem(answer)["code"]) == (401, "UNAUTHENTICATED")
                assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "169.254.169.254:80", "[::1"])
def test_only_known_hosts_are_answered_but_probes_under_any_name(shared: Served, host: str) -> None:
    for path in ("/", "/login", "/openapi.json", "/v1/sweeps", "/livez/", "/livez/x"):
        answer = shared.http.get(path, headers={"Host": host})
        assert (answer.status_code, problem(answer)["code"]) == (400, "UNKNOWN_HOST"), path
    for path in ("/livez", "/readyz"):  # a kubelet asks a pod by its address
        answer = shared.http.get(path, headers={"Host": host})
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_several_public_names_are_answered(home: Path) -> None:
    with serving(home, public_hosts="sweeps.lab,sweeps.example.org") as served:
        for host, known in (("sweeps.lab", True), ("SWEEPS.example.org:443", True), ("other.lab", False)):
            asked = served.http.get("/v1/sweeps", headers={"Host": host})
            assert asked.status_code == (200 if known else 400)
            from_page = served.http.get("/v1/sweeps", headers={"Host": "sweeps.lab", "Origin": f"https://{host}"})
            assert from_page.status_code == (200 if known else 403)


@pytest.mark.parametrize("names", ["https://sweeps.lab", "sweeps.lab:443", "a b", "sweeps.lab,/"])
def test_what_is_no_host_name_is_refused(names: str) -> None:
    with pytest.raises(ValidationError, match="is no host name; give names alone, with commas between"):
        Settings(public_hosts=names)


def test_web_pages_from_elsewhere_are_not_answered(shared: Served) -> None:
    answer = shared.http.get("/v1/sweeps", headers={"Origin": "https://evil.example"})
    assert (answer.status_code, problem(answer)["code"]) == (403, "FOREIGN_ORIGIN")
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert shared.http.get("/v1/sweeps", headers={"Origin": shared.url}).status_code == 200


def test_a_database_that_is_away_is_503_and_worth_another_try(served: Served) -> None:
    path = served.service.settings.home / "sweeps.db"
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE sweeps RENAME TO gone")
    answer = served.http.get("/v1/sweeps")
    assert (answer.status_code, problem(answer)["code"]) == (503, "DATABASE_UNAVAILABLE")
    assert int(answer.headers["Retry-After"]) > 0
    connection.close()
