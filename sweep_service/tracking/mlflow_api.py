"""The tracker that uses a few calls of MLflow's REST API (2.0, stable since 2018).

MLflow's Python client is not used: it would add 130 MB to the worker, retries for minutes when the server is away, and
prints to stdout.
"""
# ruff: noqa: D102  (`Tracker` documents the methods)

import ssl
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import httpx

from sweep_service.processes.port_owners import StrangerListens
from sweep_service.tracking.tracker import MetricPoint, RunStatus, Tracker, TrackerAway, TrackerGone, TrackerRefused

MAX_METRICS: Final = 1000
MAX_ITEMS: Final = 100
"""Largest number of metrics, and of params or tags, that MLflow takes in one call."""


class MlflowApi(Tracker):
    """An MLflow server. Artifacts need one that takes files itself (`--serve-artifacts`, its default)."""

    def __init__(self, url: str, auth: httpx.Auth | None = None, verify: ssl.SSLContext | bool = True) -> None:
        # No proxy from the environment: this is an address inside the installation.
        timeout, base_url = httpx.Timeout(15, connect=3), f"{url.rstrip('/')}/api/2.0/"
        self._http = httpx.Client(base_url=base_url, auth=auth, verify=verify, timeout=timeout, trust_env=False)

    def close(self) -> None:
        self._http.close()

    def experiment(self, name: str) -> str:
        try:
            answer = self._call("GET", "mlflow/experiments/get-by-name", params={"experiment_name": name})
        except TrackerGone:
            return self._call("POST", "mlflow/experiments/create", json={"name": name})["experiment_id"]
        experiment = answer["experiment"]
        if experiment.get("lifecycle_stage") == "deleted":
            raise TrackerRefused(f"the experiment {name!r} was deleted in MLflow; restore it there to see sweeps again")
        return experiment["experiment_id"]

    def set_experiment_tag(self, experiment_id: str, key: str, value: str) -> None:
        tag = {"experiment_id": experiment_id, "key": key, "value": value}
        self._call("POST", "mlflow/experiments/set-experiment-tag", json=tag)

    def find_runs(self, experiment_id: str, tags: Mapping[str, str], *, deleted: bool = True) -> Iterator[str]:
        query: dict[str, Any] = {
            "experiment_ids": [experiment_id],
            "filter": " AND ".join(f"tags.{tag} = '{value}'" for tag, value in tags.items()),
            "run_view_type": "ALL" if deleted else "ACTIVE_ONLY",
            "max_results": 1000,
        }
        while True:
            page = self._call("POST", "mlflow/runs/search", json=query)
            yield from (run["info"]["run_id"] for run in page.get("runs", []))
            if not page.get("next_page_token"):
                return
            query["page_token"] = page["next_page_token"]

    def ensure_run(
        self,
        experiment_id: str,
        name: str,
        start_time: int,
        tags: Mapping[str, str],
        identity: Collection[str],
        *,
        deleted: bool = True,
    ) -> str:
        same = self.find_runs(experiment_id, {key: tags[key] for key in identity}, deleted=deleted)
        if run_id := next(same, None):
            return run_id
        run = {"experiment_id": experiment_id, "run_name": name, "start_time": start_time, "tags": _pairs(tags)}
        return self._call("POST", "mlflow/runs/create", json=run)["run"]["info"]["run_id"]

    def log(
        self,
        run_id: str,
        points: Sequence[MetricPoint] = (),
        params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        metrics = [asdict(point) for point in points]
        for kind, items, most in (
            ("params", _pairs(params or {}), MAX_ITEMS),
            ("tags", _pairs(tags or {}), MAX_ITEMS),
            ("metrics", metrics, MAX_METRICS),
        ):
            for start in range(0, len(items), most):
                batch = {"run_id": run_id, kind: items[start : start + most]}
                self._call("POST", "mlflow/runs/log-batch", json=batch)

    def update_run(self, run_id: str, status: RunStatus, end_time: int | None = None) -> None:
        end = {} if end_time is None else {"end_time": end_time}
        self._call("POST", "mlflow/runs/update", json={"run_id": run_id, "status": status, **end})

    def delete_run(self, run_id: str) -> None:
        self._call("POST", "mlflow/runs/delete", json={"run_id": run_id})

    def put_artifact(self, run_id: str, name: str, content: bytes, media_type: str) -> None:
        root = self._call("GET", "mlflow/runs/get", params={"run_id": run_id})["run"]["info"]["artifact_uri"]
        scheme, _, path = root.partition(":/")
        if scheme != "mlflow-artifacts":
            raise TrackerRefused(
                f"artifacts lie at {root}, out of reach; start the MLflow server with --serve-artifacts"
            )
        headers = {"Content-Type": media_type}
        self._call("PUT", f"mlflow-artifacts/artifacts/{path}/{name}", content=content, headers=headers)

    def _call(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        try:
            response = self._http.request(method, path, **arguments)
        except StrangerListens as error:
            raise TrackerAway(str(error)) from error
        except httpx.TransportError as error:
            raise TrackerAway(f"{self._http.base_url}: {error or type(error).__name__}") from error
        if response.is_success:
            try:
                return response.json() if response.content else {}
            except ValueError as error:
                raise TrackerAway(f"{path}: the answer is no JSON, but {response.text[:100]!r}") from error
        message = f"{path}: {response.status_code} {response.text[:500]}"
        if response.status_code >= 500 or response.status_code in (408, 429):
            raise TrackerAway(message)
        raise (TrackerGone if response.status_code == 404 else TrackerRefused)(message)


def _pairs(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in values.items()]
