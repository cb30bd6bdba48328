"""Every route, asked over HTTP."""

import gzip
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from sweep_service.report import REPORT_VERSION
from sweep_service.report.build import build
from sweep_service.runner.stages import next_records
from sweep_service.settings import Settings
from sweep_service.store.database import open_engine
from sweep_service.sweep.endings import Ending, TrialState
from sweep_service.sweep.records import SweepState
from sweep_service.worker.reports import gather
from tests.golden import matches_golden
from tests.integration.api.conftest import Served
from tests.integration.api.played_sweep import REPORT, SPEC, claim, finish, play
from trainers.config import TrainingConfig


def submit(served: Served, **changes: object) -> str:
    answer = served.http.post("/v1/sweeps", json=SPEC | changes)
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def test_submitting_answers_201_with_the_stored_sweep(served: Served) -> None:
    answer = served.http.post("/v1/sweeps", json=SPEC)
    assert answer.status_code == 201
    body = answer.json()
    assert answer.headers["Location"] == f"/v1/sweeps/{body['id']}"
    assert body["state"] == "QUEUED"
    assert body["trials"] == {"PENDING": 8}
    assert body["spec"]["seeds"]["tune"] == [0, 1]
    assert served.http.get(answer.headers["Location"]).json() == body
    assert served.store.get_sweep(body["id"]).name == "played"


def test_validate_only_answers_the_plan_and_stores_nothing(served: Served) -> None:
    answer = served.http.post("/v1/sweeps", params={"validate_only": True}, json=SPEC)
    assert answer.status_code == 200
    assert answer.json()["configs"] == 4
    assert answer.json()["trials"]["tune"] == 8
    assert served.http.get("/v1/sweeps").json() == {"items": [], "next_page_token": None, "page_size": 50}


def test_sweeps_are_listed_newest_first_and_by_state(served: Served) -> None:
    ids = [submit(served, name=name) for name in ("a", "b", "c")]
    finish(served.store, play(served.store, ids[0]))
    listed = served.http.get("/v1/sweeps").json()["items"]
    assert [item["id"] for item in listed] == ids[::-1]
    assert "spec" not in listed[0]
    done = served.http.get("/v1/sweeps", params={"state": ["SUCCEEDED", "FAILED"]}).json()["items"]
    assert [item["id"] for item in done] == ids[:1]


def test_sweeps_are_listed_by_their_labels(served: Served) -> None:
    named = {"a": {"team": "rl"}, "b": {"team": "rl", "note.1": "x=1, \u00e4"}, "c": {}}
    ids = {name: submit(served, name=name, labels=labels) for name, labels in named.items()}
    for label, names in (
        (["team=rl"], ["b", "a"]),
        (["note.1=x=1, \u00e4"], ["b"]),
        (["team=rl", "note.1=x=1, \u00e4"], ["b"]),
        (["team=r"], []),
        (["team="], []),
        (["nix=rl"], []),
        ([], ["c", "b", "a"]),
    ):
        listed = served.http.get("/v1/sweeps", params={"label": label}).json()["items"]
        assert [item["id"] for item in listed] == [ids[name] for name in names], label
    assert [item["labels"] for item in listed] == [named[name] for name in ("c", "b", "a")]


def test_sweeps_are_listed_by_text_and_by_date(served: Served) -> None:
    ids = {name: submit(served, name=name) for name in ("betas-1.5b", "betas_7b", "losses")}
    first_at, second_at, third_at = (served.store.get_sweep(sweep_id).created_at for sweep_id in ids.values())
    second = datetime.fromtimestamp((first_at + second_at) / 2, UTC).isoformat()
    third = datetime.fromtimestamp((second_at + third_at) / 2, UTC).isoformat()
    for filters, names in (
        ({"text": "BETAS"}, ["betas_7b", "betas-1.5b"]),
        ({"text": "_"}, ["losses", "betas_7b", "betas-1.5b"]),  # of all ids
        ({"text": "s_7"}, ["betas_7b"]),
        ({"text": "a%b"}, []),
        ({"text": ids["losses"][-8:].upper()}, ["losses"]),
        ({"created_after": second}, ["losses", "betas_7b"]),
        ({"created_before": second}, ["betas-1.5b"]),
        ({"created_before": second, "text": "losses"}, []),
        ({"created_after": "2020-01-01", "created_before": "2100-01-01T00:00:00+02:00"}, list(ids)[::-1]),
        ({"created_after": third}, ["losses"]),
        ({"created_after": "2100-01-01"}, []),
    ):
        listed = served.http.get("/v1/sweeps", params=filters).json()["items"]
        assert [item["name"] for item in listed] == names, filters
    first = served.http.get("/v1/sweeps", params={"text": "betas", "page_size": 1}).json()
    rest = {"text": "betas", "page_size": 1, "page_token": first["next_page_token"]}
    assert [item["name"] for item in served.http.get("/v1/sweeps", params=rest).json()["items"]] == ["betas-1.5b"]


@pytest.fixture(params=["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The server's machine has this time zone; the extremes are 14 hours before UTC and 11 after it."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("zone")
def test_a_date_without_a_zone_is_utc_wherever_the_server_is(served: Served) -> None:
    sweep_id = submit(served)
    created = datetime.fromtimestamp(served.store.get_sweep(sweep_id).created_at, UTC).replace(tzinfo=None)
    for hours, is_after in ((-1, True), (1, False)):
        moment = (created + timedelta(hours=hours)).isoformat()
        for name, listed in (("created_after", is_after), ("created_before", not is_after)):
            items = served.http.get("/v1/sweeps", params={name: moment}).json()["items"]
            assert bool(items) is listed, (name, moment)


def test_configs_with_the_same_parameters_have_labels_of_their_own(served: Served) -> None:
    sweep_id = submit(served, space={"loss.beta1": [0, 0.5], "loss.epsilon": 0.2})
    finish(served.store, play(served.store, sweep_id, level=0.5))
    configs = served.http.get(f"/v1/sweeps/{sweep_id}/configs").json()["items"]
    assert configs[0]["params"] == configs[1]["params"] == {"loss.beta1": 0, "loss.epsilon": 0.2}
    assert [config["label"] for config in configs[:2]] == [
        "beta1=0 epsilon=0.2 beta2=0",
        "beta1=0 epsilon=0.2 beta2=1",
    ]
    best = served.http.get(f"/v1/sweeps/{sweep_id}/best").json()
    assert best["label"] == next(config["label"] for config in configs if config["id"] == best["config_id"])
    yaml_text = served.http.get(f"/v1/sweeps/{sweep_id}/best", params={"format": "yaml"}).text
    assert yaml_text.startswith(f"# {best['config_id']}: {best['label']}\n")


def test_the_metrics_of_a_sweep_are_listed_and_others_refused(served: Served) -> None:
    sweep_id = submit(served)
    url = f"/v1/sweeps/{sweep_id}/metrics"
    assert served.http.get(f"{url}/keys").json()["items"] == []
    finish(served.store, play(served.store, sweep_id))
    first = served.http.get(f"{url}/keys", params={"page_size": 2}).json()
    rest = served.http.get(f"{url}/keys", params={"page_size": 9, "page_token": first["next_page_token"]}).json()
    listed = {item["key"]: item for item in first["items"] + rest["items"]}
    assert list(listed) == ["entropy", "entropy/na_lp", "eval/avg_at_k", "eval/pass_at_k", "loss", "reward/mean"]
    assert listed["entropy"]["unit"] == "nats"
    assert "mean over problems" in listed["eval/avg_at_k"]["meaning"]
    assert len(served.http.get(url, params={"keys": ",".join(listed)}).json()["items"]) == 8 * len(listed)
    assert served.http.get(url, params={"keys": "grad_norm"}).json()["items"] == []  # known, but not recorded
    refused = served.http.get(url, params={"keys": "entorpy,loss,zzz"})
    assert (refused.status_code, refused.json()["code"]) == (422, "INVALID_REQUEST")
    details = [error["detail"] for error in refused.json()["errors"]]
    assert [detail.split(";")[0] for detail in details] == ["there is no metric 'entorpy'", "there is no metric 'zzz'"]
    assert "did you mean 'entropy'" in details[0]
    assert "did you mean" not in details[1]
    assert "/metrics/keys" in details[1]
    assert served.http.get("/v1/sweeps/swp_none/metrics", params={"keys": "entorpy"}).status_code == 404


def test_every_time_is_there_as_a_number_and_as_text(served: Served) -> None:
    sweep_id = submit(served)
    finish(served.store, play(served.store, sweep_id))
    base = f"/v1/sweeps/{sweep_id}"
    sweep = served.http.get(base).json()
    trial = served.http.get(f"{base}/trials").json()["items"][0]
    event = served.http.get(f"{base}/events").json()["items"][0]
    stream = served.http.get(f"{base}/events", headers={"Accept": "text/event-stream"}).text
    assert event["time_utc"] in stream
    for answer in (sweep, served.http.get("/v1/sweeps").json()["items"][0], sweep["verdict"], trial, event):
        times = [name for name in answer if name.endswith("_at") or name == "time"]
        assert times
        for name in times:
            text = answer[f"{name}_utc"]
            assert text.endswith("Z")
            assert datetime.fromisoformat(text).timestamp() == pytest.approx(answer[name], abs=1e-3)
    waiting = served.http.get(f"/v1/sweeps/{submit(served)}").json()
    assert (waiting["started_at"], waiting["started_at_utc"]) == (None, None)


def test_a_finished_sweep_answers_on_every_route(served: Served) -> None:
    sweep_id = submit(served)
    finish(served.store, play(served.store, sweep_id))
    base = f"/v1/sweeps/{sweep_id}"

    sweep = served.http.get(base).json()
    assert sweep["state"] == "SUCCEEDED"
    assert sweep["trials"] == {"SUCCEEDED": 7, "DIVERGED": 1}

    trials = served.http.get(f"{base}/trials").json()["items"]
    assert [trial["number"] for trial in trials] == list(range(8))
    assert trials[-1]["objective"] == 0
    assert trials[-1]["message"] == "the loss is NaN at step 80"
    assert [trial["ending"] for trial in trials] == ["SUCCEEDED"] * 7 + ["DIVERGED"]
    assert served.http.get(f"/v1/trials/{trials[3]['id']}").json() == trials[3]
    assert served.http.get("/v1/trials/trl_0").status_code == 404
    diverged = served.http.get(f"{base}/trials", params={"state": "DIVERGED"}).json()["items"]
    assert diverged == trials[-1:]

    configs = served.http.get(f"{base}/configs").json()["items"]
    assert configs[0]["roles"] == ["baseline"]
    assert [config["tune_trials"] for config in configs] == [2] * 4
    seconds = [trial["objective"] for trial in trials if trial["config_id"] == configs[1]["id"]]
    assert configs[1]["tune_objective"] == pytest.approx(sum(seconds) / 2)

    curves = served.http.get(f"{base}/metrics", params={"keys": "entropy,reward/mean"}).json()["items"]
    assert len(curves) == 16
    assert curves[0]["steps"] == list(range(1, 81))
    assert len(curves[0]["values"]) == len(curves[0]["times"]) == 80

    events = served.http.get(f"{base}/events", params={"page_size": 500}).json()["items"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[-1]["data"]["state"] == "SUCCEEDED"

    samples = served.http.get(f"{base}/samples", params={"page_size": 2}).json()["items"]
    assert {sample["step"] for sample in samples} == {0, 40}
    assert len(samples) == 6

    best = served.http.get(f"{base}/best").json()
    assert best["params"] == {"loss.beta1": 0.0, "loss.beta2": 1.0}
    assert best["stage"] == "tune"


def test_metrics_by_config_give_mean_and_range_over_seeds(served: Served) -> None:
    sweep_id = submit(served)
    play(served.store, sweep_id)
    url = f"/v1/sweeps/{sweep_id}/metrics"
    trials = served.http.get(url, params={"keys": "entropy"}).json()["items"]
    first = served.http.get(url, params={"keys": "entropy", "group_by": "config"}).json()["items"][0]
    seeds = [curve["values"][9] for curve in trials if curve["config_id"] == first["config_id"]]
    assert len(seeds) == 2
    assert first["steps"][9] == 10
    assert first["n"][9] == 2
    assert first["mean"][9] == pytest.approx(sum(seeds) / 2)
    assert (first["low"][9], first["high"][9]) == (min(seeds), max(seeds))


def test_metrics_can_be_cut_to_some_trials_and_the_last_points(served: Served) -> None:
    sweep_id = submit(served)
    play(served.store, sweep_id)
    trial = served.http.get(f"/v1/sweeps/{sweep_id}/trials").json()["items"][2]
    params = {"keys": ["entropy", "eval/avg_at_k", "entropy/na_lp", "grad_norm"], "trial": trial["id"], "last": 1}
    curves = served.http.get(f"/v1/sweeps/{sweep_id}/metrics", params=params).json()["items"]
    assert [(curve["key"], curve["steps"]) for curve in curves] == [
        ("entropy", [80]),
        ("eval/avg_at_k", [80]),
        ("entropy/na_lp", [80]),
    ]
    assert curves[2]["values"] == [None]
    assert (
        served.http.get(f"/v1/sweeps/{sweep_id}/metrics", params={"keys": "entropy", "trial": "\0"}).status_code == 422
    )


@pytest.mark.parametrize("format_", ["html", "json", "md"])
def test_the_report_is_202_until_it_is_built(served: Served, format_: str) -> None:
    sweep_id = submit(served)
    url = f"/v1/sweeps/{sweep_id}/report"
    waiting = served.http.get(url, params={"format": format_})
    assert waiting.status_code == 202
    assert int(waiting.headers["Retry-After"]) > 0
    finish(served.store, play(served.store, sweep_id))
    built = served.http.get(url, params={"format": format_})
    assert built.status_code == 200
    assert built.content == REPORT[format_]
    policy = built.headers["Content-Security-Policy"]
    assert "sandbox allow-scripts" in policy
    assert "default-src 'none'" in policy
    assert "allow-same-origin" not in policy
    assert built.headers["X-Content-Type-Options"] == "nosniff"


def test_asking_for_the_report_of_a_running_sweep_has_interim_ones_built(served: Served) -> None:
    sweep_id = submit(served)
    url, store = f"/v1/sweeps/{sweep_id}/report", served.store
    fence = claim(store, sweep_id)
    assert served.http.get(url, params={"interim": False}).status_code == 202
    assert store.take_wanted_report([]) is None
    assert served.http.get(url).status_code == 202
    assert store.take_wanted_report([]) == sweep_id
    store.put_interim_report(sweep_id, "one", {"html": b"<p>so far</p>"})
    kept = served.http.get(url)
    assert (kept.status_code, kept.content) == (200, b"<p>so far</p>")
    assert kept.headers["Report-Interim"] == "true"
    assert 0 <= int(kept.headers["Age"]) < 60
    assert "sandbox" in kept.headers["Content-Security-Policy"]
    assert store.take_wanted_report([]) == sweep_id
    assert served.http.get(url, params={"interim": False}).status_code == 202
    store.set_sweep_state(fence, SweepState.FINALIZING)
    assert served.http.get(url).status_code == 202
    store.put_report(sweep_id, "two", REPORT)
    final = served.http.get(url)
    assert final.content == REPORT["html"]
    assert {"Report-Interim", "Age"}.isdisjoint(final.headers)


def test_best_is_the_config_that_the_report_picks(served: Served, home: Path) -> None:
    """By all trials of a confirmed config, so that a few lucky confirm seeds do not turn it over."""
    space = {"loss.beta1": [0.25, 0.5], "loss.beta2": 0.0}
    seeds = {"tune": [0, 1], "confirm": {"top_k": 2, "seeds": [5, 6]}}
    sweep_id = submit(served, space=space, seeds=seeds)
    store, fence = served.store, claim(served.store, sweep_id)
    for values in ({0.25: 0.9, 0.5: 0.4}, {0.25: 0.5, 0.5: 0.6}):  # tune, confirm
        params = {config.id: config.params["loss.beta1"] for config in store.list_configs(sweep_id)}
        for trial in store.list_trials(sweep_id, states=[TrialState.PENDING]):
            attempt = store.start_attempt(fence, trial.id, f"/nowhere/{trial.id}")
            value = values.get(params[trial.config_id] or 0, 0.1)
            event = {"type": "evaluation", "time": 1.0, "step": 80, "metrics": {"eval/avg_at_k": value}}
            store.ingest(fence, attempt, 0, 1, [event])
            store.finish_attempt(fence, attempt, Ending.SUCCEEDED, None, 3)
        curves = store.curves(sweep_id, ["eval/avg_at_k"])
        rows = store.list_configs(sweep_id), store.list_trials(sweep_id)
        if (more := next_records(store.get_sweep(sweep_id), *rows, curves)) is not None:
            store.add_configs(fence, *more)
    best = served.http.get(f"/v1/sweeps/{sweep_id}/best").json()
    assert (best["params"]["loss.beta1"], best["stage"], best["objective"]) == (0.25, "confirm", 0.5)
    report = build(gather(store, sweep_id, Settings(home=home)))
    assert report.best is not None
    assert report.best.config_id == best["config_id"]


def test_best_is_409_without_evidence_then_a_file_that_trains(served: Served) -> None:
    sweep_id = submit(served)
    url = f"/v1/sweeps/{sweep_id}/best"
    assert served.http.get(url).json()["code"] == "NOT_READY"
    assert served.http.get(url).status_code == 409
    play(served.store, sweep_id)
    answer = served.http.get(url, params={"format": "yaml"})
    assert answer.headers["Content-Type"] == "application/yaml"
    training = TrainingConfig.model_validate(yaml.safe_load(answer.text))
    assert training.loss.model_dump()["beta1"] == 0


@pytest.mark.parametrize(
    ("accepted", "compressed"),
    [
        ("gzip", True),
        ("br, GZIP;q=0.5", True),
        ("*", True),
        ("deflate, *;q=0.1", True),
        ("", False),
        ("identity", False),
        ("gzip;q=0, *", False),
        ("gzip; q=0.000", False),
        ("gzipped", False),
    ],
)
def test_a_report_comes_compressed_to_whom_takes_that(served: Served, accepted: str, compressed: bool) -> None:
    sweep_id, script = submit(served), b"let x = 1;" * 1000
    page = b"<script>" + script + b"</script>" + b"<p>best</p>" * 100
    served.store.put_report(sweep_id, "one", {"html": page}, script)
    headers = {"Accept-Encoding": accepted}
    with served.http.stream("GET", f"/v1/sweeps/{sweep_id}/report", headers=headers) as answer:
        raw = b"".join(answer.iter_raw())
    assert answer.headers.get("Content-Encoding") == ("gzip" if compressed else None)
    assert (gzip.decompress(raw) if compressed else raw) == page
    assert int(answer.headers["Content-Length"]) == len(raw)
    assert (answer.headers["Vary"], answer.headers["Content-Type"]) == ("Accept-Encoding", "text/html; charset=utf-8")


def test_a_report_that_could_not_be_built_says_why(served: Served) -> None:
    sweep_id = submit(served)
    served.store.set_report_failure(sweep_id, "KeyError: 'loss'")
    answer = served.http.get(f"/v1/sweeps/{sweep_id}/report")
    assert (answer.status_code, answer.json()["code"]) == (409, "REPORT_FAILED")
    assert "could not be built: KeyError: 'loss'; the worker's log" in answer.json()["detail"]
    served.store.put_report(sweep_id, "one", REPORT)
    assert served.http.get(f"/v1/sweeps/{sweep_id}/report").status_code == 200


def test_the_schema_describes_spec_and_training(served: Served) -> None:
    schema = served.http.get("/v1/schemas/sweep").json()
    assert schema["required"] == ["name", "space"]
    assert "rollout" in schema["properties"]["training"]["properties"]
    references = {text.split('"')[0] for text in str(schema).replace("'", '"').split("#/$defs/")[1:]}
    assert references <= schema["$defs"].keys()


def test_the_schema_of_reports_is_served(served: Served) -> None:
    answer = served.http.get("/v1/schemas/report")
    assert answer.headers["Content-Type"] == "application/schema+json"
    assert answer.json()["properties"]["report_version"]["const"] == REPORT_VERSION


def test_the_probes_need_no_token_and_tell_a_missing_schema(served: Served) -> None:
    plain = {"Authorization": ""}
    assert served.http.get("/livez", headers=plain).json() == {"status": "ok"}
    assert served.http.get("/readyz", headers=plain).json() == {"status": "ok"}
    served.store.close()
    served.store.engine = open_engine(f"sqlite:///{served.service.settings.home / 'new.db'}")  # that nobody migrated
    refused = served.http.get("/readyz", headers=plain)
    assert refused.status_code == 503
    assert refused.json()["code"] == "NOT_READY"
    assert "sweeps db upgrade" in refused.json()["detail"]


def test_mlflow_runs_are_linked_where_they_are_known(served: Served) -> None:
    settings = served.service.settings
    served.service.settings = type(settings).model_validate({"home": settings.home, "mlflow_url": "http://mlflow:5000"})
    sweep_id = submit(served)
    assert served.http.get(f"/v1/sweeps/{sweep_id}").json()["mlflow_url"] is None
    play(served.store, sweep_id)
    trial = served.store.list_trials(sweep_id)[0]
    served.store.set_sweep_run(sweep_id, "experiment1", "parent1")
    served.store.set_trial_run(trial.id, "child1")
    assert "experiment1" in served.http.get(f"/v1/sweeps/{sweep_id}").json()["mlflow_url"]
    assert "child1" in served.http.get(f"/v1/sweeps/{sweep_id}/trials").json()["items"][0]["mlflow_url"]


def test_the_description_names_every_route_with_its_parameters_and_statuses_and_resolves(served: Served) -> None:
    text, described = served.http.get("/openapi.json").text, list[str]()
    api = json.loads(text)
    names = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert names <= api["components"]["schemas"].keys()
    assert "HTTPValidationError" not in text
    for path, operations in sorted(api["paths"].items()):
        for method, operation in sorted(operations.items()):
            parameters = operation.get("parameters", [])
            assert '"null"' not in json.dumps(parameters), "an address has no null"
            for status, answer in operation["responses"].items():
                assert status.startswith("2") or list(answer["content"]) == ["application/problem+json"]
            given = ", ".join(one["name"] for one in parameters if one["in"] != "path")
            described.append(f"{method.upper()} {path} ({given}): {' '.join(sorted(operation['responses']))}\n")
    matches_golden(Path(__file__).parent / "golden" / "routes.txt", "".join(described))


def test_sweeps_are_compared_by_config(served: Served) -> None:
    ids = [submit(served, name=name) for name in ("a", "b", "c")]
    for sweep_id in ids[:2]:
        finish(served.store, play(served.store, sweep_id))
    found = served.http.get("/v1/compare", params={"sweeps": ",".join(ids[:2])}).json()
    assert [sweep["name"] for sweep in found["sweeps"]] == ["a", "b"]
    assert [row["differences"][0]["repeated"] for row in found["shared"]] == [2] * 4
    three = served.http.get("/v1/compare", params={"sweeps": ids}).json()
    assert [len(row["differences"]) for row in three["shared"]] == [2] * 4
    assert any("is queued" in note for note in three["notes"])


def test_an_extension_is_kept_as_it_was_asked_or_refused_with_every_place(served: Served) -> None:
    sweep_id = submit(served)
    wanted = {"space": {"loss.beta1": [0, 0.5, 0.75, 1.0], "loss.beta2": [1, 0.5]}}
    answer = served.http.post(f"/v1/sweeps/{sweep_id}/extend", json=wanted)
    assert answer.json()["spec"]["space"]["loss.beta2"] == {"type": "categorical", "choices": [1, 0.5]}
    assert served.store.list_events(sweep_id)[-1].data["changes"] == wanted
    lacking = {"space": {"loss.beta1": [0.75], "loss.epsilon": [0.1]}, "search": {"num_configs": 9}}
    refused = served.http.post(f"/v1/sweeps/{sweep_id}/extend", json=lacking)
    assert (refused.status_code, refused.json()["detail"]) == (422, "the sweep cannot be extended, for 3 reasons")
    pointers = sorted(error["pointer"] for error in refused.json()["errors"])
    assert pointers == ["/search/num_configs", "/space/loss.beta1", "/space/loss.epsilon"]


def test_a_report_that_was_built_anew_stands_and_the_earlier_one_is_found_by_its_digest(served: Served) -> None:
    sweep_id, store = submit(served), served.store
    url = f"/v1/sweeps/{sweep_id}"
    finish(store, play(store, sweep_id))
    store.request_report(sweep_id)
    assert served.http.get(f"{url}/report").content == REPORT["html"]
    store.put_report(sweep_id, "newer", REPORT | {"html": b"<p>newer</p>", "json": b'{"report_version":10}'})
    kept = served.http.get(f"{url}/reports").json()
    assert (kept["building"], kept["failure"]) == (False, None)
    newer, earlier = kept["reports"]
    assert [newer["digest"], newer["report_version"], newer["superseded_at_utc"]] == ["newer", 10, None]
    assert [earlier["digest"], earlier["report_version"]] == ["digest", None]  # JSON that no version of the code wrote
    assert earlier["superseded_at_utc"].startswith("20")
    assert served.http.get(f"{url}/report").content == b"<p>newer</p>"
    again = served.http.get(f"{url}/report", params={"digest": "digest"})
    assert (again.status_code, again.content) == (200, REPORT["html"])
    assert "sandbox" in again.headers["Content-Security-Policy"]
    missing = served.http.get(f"{url}/report", params={"digest": "other"})
    assert (missing.status_code, missing.json()["code"]) == (404, "NOT_FOUND")
