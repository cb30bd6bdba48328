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
from sweep_service.worker.reports.contents import gather
from tests.golden import matches_golden
from tests.integration.api.conftest import Served
from tests.integration.api.played_sweep import REPORT, SPEC, VERDICT, claim, finish, play
from tests.stored_sweeps import one_attempt
from trainers.config import TrainingConfig


def test_submitting_answers_201_with_the_stored_sweep_and_the_warnings_of_its_plan(served: Served) -> None:
    answer = served.http.post("/v1/sweeps", json=SPEC)
    body = answer.json()
    assert (answer.status_code, answer.headers["Location"]) == (201, f"/v1/sweeps/{body['id']}")
    assert (body["name"], body["state"], body["trials"]) == ("played", "QUEUED", {"PENDING": 8})
    assert body["spec"]["seeds"]["tune"] == [0, 1]
    assert (body["started_at"], body["started_at_utc"]) == (None, None)
    plan = served.http.post("/v1/sweeps", params={"validate_only": True}, json=SPEC).json()
    assert body.pop("warnings") == plan["warnings"] != []
    assert served.get(f"/sweeps/{body['id']}") == body


def test_validate_only_answers_the_plan_and_stores_nothing(served: Served) -> None:
    answer = served.http.post("/v1/sweeps", params={"validate_only": True}, json=SPEC)
    assert (answer.status_code, answer.json()["configs"], answer.json()["trials"]["tune"]) == (200, 4, 8)
    assert served.get("/sweeps") == {"items": [], "next_page_token": None, "page_size": 50}


def test_sweeps_are_listed_newest_first_by_state_label_text_and_date(served: Served) -> None:
    labels = {"betas-1.5b": {"team": "rl"}, "betas_7b": {"team": "rl", "note.1": "x=1, \u00e4"}, "losses": {}}
    ids = {name: served.submit(name=name, labels=labels[name]) for name in labels}
    finish(served.store, play(served.store, ids["betas-1.5b"]))
    first_at, second_at, third_at = (served.store.get_sweep(sweep_id).created_at for sweep_id in ids.values())
    second = datetime.fromtimestamp((first_at + second_at) / 2, UTC).isoformat()
    third = datetime.fromtimestamp((second_at + third_at) / 2, UTC).isoformat()
    for filters, names in (
        ({}, ["losses", "betas_7b", "betas-1.5b"]),
        ({"state": ["SUCCEEDED", "FAILED"]}, ["betas-1.5b"]),
        ({"label": ["team=rl"]}, ["betas_7b", "betas-1.5b"]),
        ({"label": ["note.1=x=1, \u00e4"]}, ["betas_7b"]),
        ({"label": ["team=rl", "note.1=x=1, \u00e4"]}, ["betas_7b"]),
        ({"label": ["team=r"]}, []),
        ({"label": ["team="]}, []),
        ({"label": ["nix=rl"]}, []),
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
        listed = served.get("/sweeps", **filters)["items"]
        assert [item["name"] for item in listed] == names, filters
        assert [item["labels"] for item in listed] == [labels[name] for name in names]
        assert not any("spec" in item for item in listed)
    first = served.get("/sweeps", text="betas", page_size=1)
    rest = served.get("/sweeps", text="betas", page_size=1, page_token=first["next_page_token"])
    assert [item["name"] for item in rest["items"]] == ["betas-1.5b"]


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
    sweep = served.store.get_sweep(served.submit())
    created = datetime.fromtimestamp(sweep.created_at, UTC).replace(tzinfo=None)
    for hours, is_after in ((-1, True), (1, False)):
        moment = (created + timedelta(hours=hours)).isoformat()
        for name, listed in (("created_after", is_after), ("created_before", not is_after)):
            assert bool(served.get("/sweeps", **{name: moment})["items"]) is listed, (name, moment)


def test_configs_with_the_same_parameters_have_labels_of_their_own(served: Served) -> None:
    sweep_id = served.submit(space={"loss.beta1": [0, 0.5], "loss.epsilon": 0.2})
    play(served.store, sweep_id, level=0.5)
    configs = served.get(f"/sweeps/{sweep_id}/configs")["items"]
    assert configs[0]["params"] == configs[1]["params"] == {"loss.beta1": 0, "loss.epsilon": 0.2}
    labels = {config["id"]: config["label"] for config in configs}
    assert [*labels.values()][:2] == ["beta1=0 epsilon=0.2 beta2=0", "beta1=0 epsilon=0.2 beta2=1"]
    best = served.get(f"/sweeps/{sweep_id}/best")
    assert best["label"] == labels[best["config_id"]]
    answer = served.http.get(f"/v1/sweeps/{sweep_id}/best", params={"format": "yaml"})
    assert answer.headers["Content-Type"] == "application/yaml"
    assert answer.text.startswith(f"# {best['config_id']}: {best['label']}\n")
    assert TrainingConfig.model_validate(yaml.safe_load(answer.text)).loss.model_dump()["beta1"] == 0


def test_the_metrics_of_a_sweep_are_listed_and_others_refused(served: Served) -> None:
    sweep_id = served.submit()
    url = f"/sweeps/{sweep_id}/metrics"
    assert served.get(f"{url}/keys")["items"] == []
    play(served.store, sweep_id)
    first = served.get(f"{url}/keys", page_size=2)
    rest = served.get(f"{url}/keys", page_size=9, page_token=first["next_page_token"])
    listed = {item["key"]: item for item in first["items"] + rest["items"]}
    assert list(listed) == ["entropy", "entropy/na_lp", "eval/avg_at_k", "eval/pass_at_k", "loss", "reward/mean"]
    assert listed["entropy"]["unit"] == "nats"
    assert "mean over problems" in listed["eval/avg_at_k"]["meaning"]
    assert len(served.get(url, keys=",".join(listed))["items"]) == 8 * len(listed)
    assert served.get(url, keys="grad_norm")["items"] == []  # known, but not recorded
    refused = served.get(url, keys="entorpy,loss,zzz")
    assert (refused["status"], refused["code"]) == (422, "INVALID_REQUEST")
    details = [error["detail"] for error in refused["errors"]]
    assert [detail.split(";")[0] for detail in details] == ["there is no metric 'entorpy'", "there is no metric 'zzz'"]
    assert "did you mean 'entropy'" in details[0]
    assert "did you mean" not in details[1]
    assert "/metrics/keys" in details[1]
    assert served.get("/sweeps/swp_none/metrics", keys="entorpy")["status"] == 404


def test_every_time_is_there_as_a_number_and_as_text(shared: Served, played: str) -> None:
    sweep = shared.get(played)
    trial, event = (shared.get(f"{played}/{part}")["items"][0] for part in ("trials", "events"))
    stream = shared.http.get(f"/v1{played}/events", headers={"Accept": "text/event-stream"}).text
    assert event["time_utc"] in stream
    for answer in (sweep, shared.get("/sweeps")["items"][0], sweep["verdict"], trial, event):
        times = [name for name in answer if name.endswith("_at") or name == "time"]
        assert times
        for name in times:
            text = answer[f"{name}_utc"]
            assert text.endswith("Z")
            assert datetime.fromisoformat(text).timestamp() == pytest.approx(answer[name], abs=1e-3)


def test_a_config_has_one_label_on_each_page(served: Served) -> None:
    sweep_id = served.submit(baselines={"dapo": True})
    configs = served.get(f"/sweeps/{sweep_id}/configs")["items"]
    token = None
    for config in configs:
        page = served.get(f"/sweeps/{sweep_id}/configs", page_size=1, **({"page_token": token} if token else {}))
        assert page["items"] == [config]
        token = page["next_page_token"]
    assert token is None


def test_a_finished_sweep_answers_on_every_route(shared: Served, played: str) -> None:
    sweep = shared.get(played)
    assert (sweep["state"], sweep["trials"]) == ("SUCCEEDED", {"SUCCEEDED": 7, "DIVERGED": 1})

    trials = shared.get(f"{played}/trials")["items"]
    assert [trial["number"] for trial in trials] == list(range(8))
    assert (trials[-1]["objective"], trials[-1]["message"]) == (0, "the loss is NaN at step 80")
    assert [trial["ending"] for trial in trials] == ["SUCCEEDED"] * 7 + ["DIVERGED"]
    assert shared.get(f"/trials/{trials[3]['id']}") == trials[3]
    assert shared.get("/trials/trl_0")["status"] == 404
    assert shared.get(f"{played}/trials", state="DIVERGED")["items"] == trials[-1:]

    configs = shared.get(f"{played}/configs")["items"]
    assert configs[0]["roles"] == ["baseline"]
    assert [config["tune_trials"] for config in configs] == [2] * 4
    of_seeds = [trial["objective"] for trial in trials if trial["config_id"] == configs[1]["id"]]
    assert configs[1]["tune_objective"] == pytest.approx(sum(of_seeds) / 2)

    curves = shared.get(f"{played}/metrics", keys="entropy,reward/mean")["items"]
    assert len(curves) == 16
    assert curves[0]["steps"] == list(range(1, 81))
    assert len(curves[0]["values"]) == len(curves[0]["times"]) == 80

    events = shared.get(f"{played}/events", page_size=500)["items"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert events[-1]["data"]["state"] == "SUCCEEDED"

    samples = shared.get(f"{played}/samples", page_size=2)["items"]
    assert [sample["step"] for sample in samples] == [0] * 3 + [40] * 3

    best = shared.get(f"{played}/best")
    assert (best["params"], best["stage"]) == ({"loss.beta1": 0.0, "loss.beta2": 1.0}, "tune")
    assert (best["equal"], best["configs"]) == (2, 4), "the baseline has the same"
    told = {name: VERDICT[name] for name in ("outcome", "sentence")} | VERDICT["comparison"] | {"interim": False}
    assert {name: best["verdict"][name] for name in told} == told
    assert sweep["verdict"] == best["verdict"]


def test_metrics_by_config_give_mean_and_range_over_seeds(shared: Served, played: str) -> None:
    trials = shared.get(f"{played}/metrics", keys="entropy")["items"]
    first, *_ = shared.get(f"{played}/metrics", keys="entropy", group_by="config")["items"]
    low, high = sorted(curve["values"][9] for curve in trials if curve["config_id"] == first["config_id"])
    assert [first[name][9] for name in ("steps", "n", "low", "high")] == [10, 2, low, high]
    assert first["mean"][9] == pytest.approx((low + high) / 2)


def test_metrics_can_be_cut_to_some_trials_and_the_last_points(shared: Served, played: str) -> None:
    trial = shared.get(f"{played}/trials")["items"][2]
    keys = ["entropy", "eval/avg_at_k", "entropy/na_lp", "grad_norm"]
    curves = shared.get(f"{played}/metrics", keys=keys, trial=trial["id"], last=1)["items"]
    assert [(curve["key"], curve["steps"]) for curve in curves] == [(key, [80]) for key in keys[:3]]
    assert curves[2]["values"] == [None]
    assert shared.get(f"{played}/metrics", keys="entropy", trial="\0")["status"] == 422


def test_the_report_is_202_until_it_is_built(served: Served) -> None:
    sweep_id = served.submit()
    url = f"/v1/sweeps/{sweep_id}/report"
    waiting = served.http.get(url)
    assert waiting.status_code == 202
    assert int(waiting.headers["Retry-After"]) > 0
    finish(served.store, play(served.store, sweep_id))
    for format_ in ("html", "json", "md"):
        built = served.http.get(url, params={"format": format_})
        assert (built.status_code, built.content) == (200, REPORT[format_])
        policy = built.headers["Content-Security-Policy"]
        assert "sandbox allow-scripts" in policy
        assert "default-src 'none'" in policy
        assert "allow-same-origin" not in policy
        assert built.headers["X-Content-Type-Options"] == "nosniff"
        assert {"Report-Interim", "Age"}.isdisjoint(built.headers)


def test_asking_for_the_report_of_a_running_sweep_has_interim_ones_built(served: Served) -> None:
    sweep_id = served.submit()
    url, store = f"/v1/sweeps/{sweep_id}/report", served.store
    claim(store, sweep_id)
    assert served.http.get(url, params={"interim": False}).status_code == 202
    assert store.take_wanted_report([]) is None
    assert served.http.get(url).status_code == 202
    assert store.take_wanted_report([]) == sweep_id
    store.put_interim_report(sweep_id, "one", {"html": b"<p>so far</p>"})
    kept = served.http.get(url)
    assert (kept.status_code, kept.content, kept.headers["Report-Interim"]) == (200, b"<p>so far</p>", "true")
    assert 0 <= int(kept.headers["Age"]) < 60
    assert "sandbox" in kept.headers["Content-Security-Policy"]
    assert store.take_wanted_report([]) == sweep_id
    assert served.http.get(url, params={"interim": False}).status_code == 202


def test_best_is_the_config_that_the_report_picks(served: Served, home: Path) -> None:
    """By all trials of a confirmed config, so that a few lucky confirm seeds do not turn it over."""
    space = {"loss.beta1": [0.25, 0.5], "loss.beta2": 0.0}
    sweep_id = served.submit(space=space, seeds={"tune": [0, 1], "confirm": {"top_k": 2, "seeds": [5, 6]}})
    store, fence = served.store, claim(served.store, sweep_id)
    for values in ({0.25: 0.9, 0.5: 0.4}, {0.25: 0.5, 0.5: 0.6}):  # tune, confirm
        params = {config.id: config.params["loss.beta1"] for config in store.list_configs(sweep_id)}
        for trial in store.list_trials(sweep_id, states=[TrialState.PENDING]):
            value = values.get(params[trial.config_id] or 0, 0.1)
            event = {"type": "evaluation", "time": 1.0, "step": 80, "metrics": {"eval/avg_at_k": value}}
            one_attempt(store, fence, trial.id, Ending.SUCCEEDED, [event])
        curves = store.curves(sweep_id, ["eval/avg_at_k"])
        rows = store.list_configs(sweep_id), store.list_trials(sweep_id)
        if (more := next_records(store.get_sweep(sweep_id), *rows, curves)) is not None:
            store.add_configs(fence, *more)
    best = served.get(f"/sweeps/{sweep_id}/best")
    assert (best["params"]["loss.beta1"], best["stage"], best["objective"]) == (0.25, "confirm", 0.5)
    report = build(gather(store, sweep_id, Settings(home=home)))
    assert report.best is not None
    assert report.best.config_id == best["config_id"]


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
    sweep_id, script = served.submit(), b"let x = 1;" * 1000
    page = b"<script>" + script + b"</script>" + b"<p>best</p>" * 100
    served.store.put_report(sweep_id, "one", {"html": page}, script)
    headers = {"Accept-Encoding": accepted}
    with served.http.stream("GET", f"/v1/sweeps/{sweep_id}/report", headers=headers) as answer:
        raw = b"".join(answer.iter_raw())
    assert answer.headers.get("Content-Encoding") == ("gzip" if compressed else None)
    assert (gzip.decompress(raw) if compressed else raw) == page
    assert int(answer.headers["Content-Length"]) == len(raw)
    assert (answer.headers["Vary"], answer.headers["Content-Type"]) == ("Accept-Encoding", "text/html; charset=utf-8")


def test_the_schema_describes_spec_and_training(shared: Served) -> None:
    schema = shared.get("/schemas/sweep")
    assert schema["required"] == ["name", "space"]
    assert "rollout" in schema["properties"]["training"]["properties"]
    references = {text.split('"')[0] for text in str(schema).replace("'", '"').split("#/$defs/")[1:]}
    assert references <= schema["$defs"].keys()


def test_the_schema_of_reports_is_served(shared: Served) -> None:
    answer = shared.http.get("/v1/schemas/report")
    assert answer.headers["Content-Type"] == "application/schema+json"
    assert answer.json()["properties"]["report_version"]["const"] == REPORT_VERSION


def test_the_probes_need_no_token_and_tell_a_missing_schema(served: Served) -> None:
    plain = {"Authorization": ""}
    for path in ("/livez", "/readyz"):
        assert served.http.get(path, headers=plain).json() == {"status": "ok"}
    served.store.close()
    served.store.engine = open_engine(f"sqlite:///{served.service.settings.home / 'new.db'}")  # that nobody migrated
    refused = served.http.get("/readyz", headers=plain)
    assert (refused.status_code, refused.json()["code"]) == (503, "NOT_READY")
    assert "sweeps db upgrade" in refused.json()["detail"]


def test_mlflow_runs_are_linked_where_they_are_known(served: Served) -> None:
    settings = served.service.settings
    served.service.settings = type(settings).model_validate({"home": settings.home, "mlflow_url": "http://mlflow:5000"})
    path = f"/sweeps/{served.submit()}"
    assert served.get(path)["mlflow_url"] is None
    trial = served.get(f"{path}/trials")["items"][0]
    served.store.set_sweep_run(trial["sweep_id"], "experiment1", "parent1")
    served.store.set_trial_run(trial["id"], "child1")
    assert "experiment1" in served.get(path)["mlflow_url"]
    assert "child1" in served.get(f"{path}/trials")["items"][0]["mlflow_url"]


def test_the_description_names_every_route_with_its_parameters_and_statuses_and_resolves(shared: Served) -> None:
    text, described = shared.http.get("/openapi.json").text, list[str]()
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
    ids = [served.succeeded(name=name) for name in ("a", "b")]
    found = served.get("/compare", sweeps=",".join(ids))
    assert [sweep["name"] for sweep in found["sweeps"]] == ["a", "b"]
    assert [row["differences"][0]["repeated"] for row in found["shared"]] == [2] * 4
    assert served.get("/compare", sweeps=ids) == found


def test_an_extension_is_kept_as_it_was_asked(served: Served) -> None:
    sweep_id = served.submit()
    wanted = {"space": {"loss.beta1": [0, 0.5, 0.75, 1.0], "loss.beta2": [1, 0.5]}}
    answer = served.http.post(f"/v1/sweeps/{sweep_id}/extend", json=wanted)
    assert answer.json()["spec"]["space"]["loss.beta2"] == {"type": "categorical", "choices": [1, 0.5]}
    assert served.store.list_events(sweep_id)[-1].data["changes"] == wanted
