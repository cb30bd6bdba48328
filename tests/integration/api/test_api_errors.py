"""Every refusal is a problem with a code, and tells everything that is wrong at once."""

import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from sweep_service.settings import Settings
from tests.golden import matches_golden
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


WRONG_SPEC = {
    "name": "Not A Name",
    "budget": 3,
    "space": {"loss.beta9": [1], "loss.beta1": [0, -1]},
    "seeds": {"tune": [1, 1]},
}
BODIES: dict[str, bytes] = {
    "a wrong spec": json.dumps(WRONG_SPEC).encode(),
    "NaN": b'{"name": "a", "space": {"loss.beta1": NaN}}',
    "minus infinity": b'{"name": "a", "space": {"loss.beta1": -Infinity}}',
    "a key twice": b'{"name": "a", "name": "b"}',
    "40 lists in each other": b"[" * 40 + b"]" * 40,
    "100,000 lists in each other": b"[" * 100_000,
    "half a character": b'{"name": "\\ud800"}',
    "not UTF-8": b'{"name": "\xff"}',
    "an open brace": b"{",
    "no body": b"",
    "a number above all": b'{"name": "a", "space": {"loss.beta1": 1e999}}',
    "a number below all": b'{"name": "a", "space": {"loss.beta1": -8e400}}',
    "5000 digits": b'{"name": "a", "space": {"loss.beta1": ' + b"1" * 5000 + b"}}",
    "a list": b"[]",
    "a number": b"3",
    "null": b"null",
    "a text": b'"text"',
    "an empty object": b"{}",
    "too large": json.dumps(SPEC | {"labels": {"a": "x" * 300_000}}).encode(),
}
PATHS = (
    "/v1/sweeps?page_size=many&state=DONE&label=team",
    "/v1/sweeps?page_size=0",
    "/v1/sweeps?created_after=yesterday&created_before=1764000000",
    "/v1/sweeps?created_before=2026-13-01&text=%00",
    f"/v1/sweeps?text={'x' * 65}",
    "/v1/sweeps?label==rl&label=Team=rl&label=team=%00",
    f"{SWEEP}/metrics",
    f"{SWEEP}/metrics?keys=a&group_by=seed&last=0",
    f"{SWEEP}/metrics?keys={','.join(map(str, range(51)))}",
    f"{SWEEP}/events?after={2**63}",
    f"{SWEEP}/events?after=-1",
    f"{SWEEP}/report?format=pdf",
    f"{SWEEP}/best?format=xml",
    f"/v1/compare?sweeps={SWEEP[-30:]}",
    f"/v1/compare?sweeps={SWEEP[-30:]},{SWEEP[-30:]}",
    f"/v1/compare?sweeps={SWEEP[-30:]},swp_%00",
    f"/v1/compare?sweeps={SWEEP[-30:]},swp_no",
    *("/nix", "/v1", "/v1/sweeps/", "/v1/nix", "/docs", "/v1/sweeps/x/y", "/%00", "/v1/%ff"),
)
JSON = {"Content-Type": "application/json"}


def test_refusals_are_those_of_the_golden_file_and_nothing_is_stored(shared: Served) -> None:
    told, before = list[str](), shared.http.get("/v1/sweeps").json()

    def note(title: str, answer: httpx.Response) -> None:
        body = problem(answer)
        errors = [
            f"  {error.get('pointer', error.get('parameter'))}: {error['detail']}" for error in body.get("errors", ())
        ]
        told.extend([f"# {title}", f"{answer.status_code} {body['code']}: {body['detail']}", *errors, ""])

    for title, body in BODIES.items():
        note(title, shared.http.post("/v1/sweeps", content=body, headers=JSON))
    parts = (part for part in (b"{", b"}"))
    note("a body of unknown length", shared.http.post("/v1/sweeps", content=parts, headers=JSON))
    note("a wrong spec to plan", shared.http.post("/v1/sweeps?validate_only=true", json=WRONG_SPEC))
    for kind in ("text/yaml", "application/x-www-form-urlencoded"):
        note(kind, shared.http.post("/v1/sweeps", content=b"name: a", headers={"Content-Type": kind}))
    note("no media type", shared.http.post("/v1/sweeps", content=b"name: a"))
    for query in ("validate_onyl=true&foo=1", "validate_only=true&validate_only=false&foo=1"):
        note(query, shared.http.post(f"/v1/sweeps?{query}", json=SPEC))
    for key in ("", "a b", "\u00e4", "x" * 256):
        headers = {b"Idempotency-Key": key.encode()}
        note(f"Idempotency-Key: {key}", shared.http.post("/v1/sweeps", json=SPEC, headers=headers))
    for path in PATHS:
        note(path, shared.http.get(path))
    note("another method", shared.http.delete("/v1/sweeps"))
    note("a stream of nothing", shared.http.get(f"{SWEEP}/events", headers={"Accept": "text/event-stream"}))
    assert shared.http.get("/v1/sweeps").json() == before
    matches_golden(Path(__file__).parent / "golden" / "refusals_of_the_api.txt", "\n".join(told).replace("\0", "\\0"))


@pytest.mark.parametrize("token", ["", "Bearer nobody's"])
def test_a_body_that_nobody_reads_ends_the_connection(shared: Served, token: str) -> None:
    headers = {b"Authorization": token.encode(), b"Content-Type": b"application/json"}
    answer = shared.http.post("/v1/sweeps", content=(b"x" for _ in range(3)), headers=headers)
    assert (answer.status_code, answer.headers.get("Connection")) == (401, "close")
    assert "Connection" not in shared.http.post("/v1/sweeps", json={}).headers
    assert "Connection" not in shared.http.get("/v1/sweeps").headers


@pytest.mark.parametrize("sweep_id", [SWEEP[-30:], "nix", "swp_%00", "swp_'; drop table sweeps", "..%2f", "swp_" * 99])
def test_unknown_sweeps_are_404(shared: Served, sweep_id: str) -> None:
    parts = ("trials", "configs", "metrics?keys=a", "events", "samples", "report", "best", "evaluations", "benchmarks")
    for part in ("", *(f"/{part}" for part in parts)):
        answer = shared.http.get(f"/v1/sweeps/{sweep_id}{part}")
        assert answer.status_code == 404
        assert problem(answer)["code"] in ("NOT_FOUND", "NO_SUCH_ROUTE")
    assert problem(shared.http.post(f"/v1/sweeps/{sweep_id}/cancel"))["status"] == 404


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
