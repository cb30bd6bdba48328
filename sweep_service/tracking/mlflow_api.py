"""The few calls of MLflow's REST API (2.0, stable since 2018) that the projection makes.

Its Python client is not used: it would add 130 MB to the worker, retries for minutes when the server is away, and
prints to stdout.

    MlflowError
    ├── Away       no answer, or the server is in trouble: try again later
    └── Refused    the server says no, and would again
        └── Gone   the run or experiment does not exist
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import httpx

T = TypeVar("T")

MAX_METRICS, MAX_ITEMS = 1000, 100
"""Most metrics, and most params or tags, of one call."""


class MlflowError(Exception):
    """A call to MLflow failed."""


class MlflowAway(MlflowError):
    """No answer, or the server is in trouble: try again later."""


class MlflowRefused(MlflowError):
    """The server says no, and would say so again."""


class MlflowGone(MlflowRefused):
    """There is no such run or experiment."""


@dataclass(frozen=True)
class MetricPoint:
    """One value of one metric. The server keeps equal points once, so sending them again changes nothing."""

    key: str
    value: float
    timestamp: int
    """Milliseconds since the Unix epoch."""
    step: int


class MlflowApi:
    """An MLflow server."""

    def __init__(self, url: str) -> None:
        # No proxy from the environment: this is an address inside the installation.
        timeout = httpx.Timeout(15, connect=3)
        self._http = httpx.Client(base_url=f"{url.rstrip('/')}/api/2.0/", timeout=timeout, trust_env=False)

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def experiment(self, name: str) -> str:
        """Return the id of an experiment, made if it does not exist.

        Raises: Refused, if it has been deleted.
        """
        try:
            found = self._call("GET", "mlflow/experiments/get-by-name", params={"experiment_name": name})
        except MlflowGone:
            return self._call("POST", "mlflow/experiments/create", json={"name": name})["experiment_id"]
        if found["experiment"].get("lifecycle_stage") == "deleted":
            raise MlflowRefused(f"the experiment {name!r} was deleted in MLflow; restore it there to see sweeps again")
        return found["experiment"]["experiment_id"]

    def set_experiment_tag(self, experiment_id: str, key: str, value: str) -> None:
        """Set a tag of an experiment."""
        tag = {"experiment_id": experiment_id, "key": key, "value": value}
        self._call("POST", "mlflow/experiments/set-experiment-tag", json=tag)

    def find_runs(self, experiment_id: str, tags: Mapping[str, str], *, deleted: bool = True) -> Iterator[str]:
        """Yield the ids of runs with these tags, deleted ones too if wanted."""
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

    def create_run(self, experiment_id: str, name: str, start_time: int, tags: Mapping[str, str]) -> str:
        """Make a run with its tags, in one transaction, and return its id. Time: ms since the Unix epoch."""
        run = {"experiment_id": experiment_id, "run_name": name, "start_time": start_time, "tags": _pairs(tags)}
        return self._call("POST", "mlflow/runs/create", json=run)["run"]["info"]["run_id"]

    def log(
        self,
        run_id: str,
        points: Sequence[MetricPoint] = (),
        params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Add metrics and params to a run and set its tags, in as many calls as the limits ask for."""
        for part in _slices(_pairs(params or {}), MAX_ITEMS):
            self._log_batch(run_id, params=part)
        for part in _slices(_pairs(tags or {}), MAX_ITEMS):
            self._log_batch(run_id, tags=part)
        for part in _slices(points, MAX_METRICS):
            self._log_batch(run_id, metrics=[asdict(point) for point in part])

    def _log_batch(self, run_id: str, **content: Sequence[Mapping[str, Any]]) -> None:
        self._call("POST", "mlflow/runs/log-batch", json={"run_id": run_id, **content})

    def update_run(self, run_id: str, status: str, end_time: int | None = None) -> None:
        """Set a run's status (SCHEDULED, RUNNING, FINISHED, FAILED or KILLED) and its end (ms since the epoch)."""
        end = {} if end_time is None else {"end_time": end_time}
        self._call("POST", "mlflow/runs/update", json={"run_id": run_id, "status": status, **end})

    def delete_run(self, run_id: str) -> None:
        """Move a run to MLflow's bin."""
        self._call("POST", "mlflow/runs/delete", json={"run_id": run_id})

    def put_artifact(self, run_id: str, name: str, content: bytes, media_type: str) -> None:
        """Store a file with a run, in place of an earlier one of that name.

        Raises: Refused, if the server does not take files itself (`--serve-artifacts`, its default).
        """
        root = self._call("GET", "mlflow/runs/get", params={"run_id": run_id})["run"]["info"]["artifact_uri"]
        scheme, _, path = root.partition(":/")
        if scheme != "mlflow-artifacts":
            raise MlflowRefused(
                f"artifacts lie at {root}, out of reach; start the MLflow server with --serve-artifacts"
            )
        headers = {"Content-Type": media_type}
        self._call("PUT", f"mlflow-artifacts/artifacts/{path}/{name}", content=content, headers=headers)

    def _call(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        try:
            response = self._http.request(method, path, **arguments)
        except httpx.TransportError as error:
            raise MlflowAway(f"{self._http.base_url}: {error or type(error).__name__}") from error
        if response.is_success:
            return response.json() if response.content else {}
        message = f"{path}: {response.status_code} {response.text[:500]}"
        if response.status_code >= 500 or response.status_code in (408, 429):
            raise MlflowAway(message)
        raise (MlflowGone if response.status_code == 404 else MlflowRefused)(message)


def _pairs(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in values.items()]


def _slices(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))
