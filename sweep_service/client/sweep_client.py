"""The client: one method for each verb of the service."""

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from sweep_service.auth import read_token
from sweep_service.client.connection import Connection, Patience, find_url, read_messages
from sweep_service.client.errors import TooLate, Unreachable
from sweep_service.errors import NotFound, NotReady
from sweep_service.schemas import (
    BenchmarkSample,
    BenchmarkScoreView,
    Best,
    ConfigCurve,
    ConfigView,
    EvaluationView,
    Page,
    ProbeView,
    ReportFormat,
    SweepsComparison,
    SweepSummary,
    SweepView,
    TrialView,
)
from sweep_service.settings import Settings
from sweep_service.sweep.benchmark_scores import ProblemScore
from sweep_service.sweep.plan import SweepPlan
from sweep_service.sweep.records import Curve, Event, Sample, SweepState, TrialState
from sweep_service.sweep.spec import SweepSpec
from trainers.catalog.entries import BenchmarkEntry, DatasetEntry, ModelEntry

Answer = TypeVar("Answer", bound=BaseModel)
Spec = SweepSpec | Mapping[str, Any]
_PAGE = 500
_STALE_PAUSE_S = 2.0
_STREAM_SILENCE_S = 40.0  # the server pings every 15 s


class ReportSoFar(NamedTuple):
    """A report, perhaps an interim one."""

    content: bytes
    interim: bool
    """Whether the sweep is still running, so that every number may change."""
    age_s: float
    """Seconds since an interim report was built."""


class Client:
    """A connection to one server. Lists come as iterators that fetch their pages as they go.

    Args:
        url: address of the server, such as http://127.0.0.1:8080.
        token: bearer token of the server.
        timeout_s: seconds to wait for one answer.
        patience_s: seconds to go on asking a server that is away or overloaded.
        trusted_users: users, beside our own and root, whose server on this machine may be sent the token.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout_s: float = 60,
        patience_s: float = 10,
        trusted_users: Sequence[str] = (),
    ) -> None:
        self._connection = Connection(url, token, timeout_s, patience_s, trusted_users)

    @classmethod
    def from_env(cls, *, patience_s: float = 10) -> Self:
        """Return a client of the server that SWEEPS_URL and SWEEPS_TOKEN_FILE name, else of the one on this machine.

        Raises: TokenError, if there is no token file.
        """
        settings = Settings()
        token, trusted = read_token(settings.token_file), settings.trusted
        return cls(find_url(settings), token, patience_s=patience_s, trusted_users=trusted)

    @property
    def url(self) -> str:
        """Address of the server."""
        return self._connection.url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all sockets."""
        self._connection.close()

    def check_ready(self) -> None:
        """Check that the server can serve requests.

        Raises: Unreachable; Refused, with the reason.
        """
        self._connection.request("GET", "/readyz")

    def plan(self, spec: Spec) -> SweepPlan:
        """Check a spec and say what it would run, without storing anything.

        Raises: InvalidSpec, with every reason why it cannot run.
        """
        return self._ask("POST", "/v1/sweeps", SweepPlan, {"validate_only": "true"}, json=_document(spec))

    def submit(self, spec: Spec, idempotency_key: str | None = None) -> SweepView:
        """Submit a sweep.

        Args:
            spec: what to run.
            idempotency_key: names this submission, so that sending it again does not submit the sweep twice. Default:
                a new key, which covers the retries within this call.
        Raises: InvalidSpec; IdempotencyKeyReused.
        """
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        return self._ask("POST", "/v1/sweeps", SweepView, headers=headers, json=_document(spec))

    def sweeps(
        self, states: Sequence[SweepState] = (), labels: Mapping[str, str] | None = None
    ) -> Iterator[SweepSummary]:
        """Iterate over sweeps, newest first.

        Args:
            states: only sweeps in one of these states.
            labels: only sweeps that have all of these labels.
        """
        return self._pages("/v1/sweeps", SweepSummary, _filters(states, labels))

    def newest_sweeps(
        self, size: int, states: Sequence[SweepState] = (), labels: Mapping[str, str] | None = None
    ) -> Page[SweepSummary]:
        """Return the newest sweeps as one page, which has at most 500."""
        return self._page("/v1/sweeps", SweepSummary, _filters(states, labels), size, None)

    def get(self, sweep_id: str) -> SweepView:
        """Return a sweep.

        Raises: NotFound.
        """
        return self._ask("GET", _path(sweep_id), SweepView)

    def trials(self, sweep_id: str, states: Sequence[TrialState] = ()) -> Iterator[TrialView]:
        """Iterate over trials in the order in which they are handed out."""
        return self._pages(_path(sweep_id, "trials"), TrialView, {"state": list(states)})

    def configs(self, sweep_id: str) -> Iterator[ConfigView]:
        """Iterate over configs, baselines first."""
        return self._pages(_path(sweep_id, "configs"), ConfigView)

    def curves(
        self, sweep_id: str, keys: Sequence[str], trial_ids: Sequence[str] = (), last: int | None = None
    ) -> Iterator[Curve]:
        """Iterate over metrics of all trials, or of some.

        Args:
            last: number of last points to keep of each curve.
        """
        params = {"keys": list(keys), "trial": list(trial_ids), "last": last}
        return self._pages(_path(sweep_id, "metrics"), Curve, params)

    def config_curves(self, sweep_id: str, keys: Sequence[str], last: int | None = None) -> Iterator[ConfigCurve]:
        """Iterate over metrics of configs: mean and range over seeds."""
        params = {"keys": list(keys), "last": last, "group_by": "config"}
        return self._pages(_path(sweep_id, "metrics"), ConfigCurve, params)

    def samples(self, sweep_id: str) -> Iterator[Sample]:
        """Iterate over completions that policies wrote at their evaluations."""
        return self._pages(_path(sweep_id, "samples"), Sample)

    def evaluations(self, sweep_id: str) -> Iterator[EvaluationView]:
        """Iterate over the evaluations of a sweep's models on its benchmarks."""
        return self._pages(_path(sweep_id, "evaluations"), EvaluationView)

    def benchmark_scores(self, sweep_id: str) -> Iterator[BenchmarkScoreView]:
        """Iterate over what a sweep's models score on its benchmarks."""
        return self._pages(_path(sweep_id, "benchmarks"), BenchmarkScoreView)

    def benchmark_problems(self, sweep_id: str, benchmark: str) -> Iterator[ProblemScore]:
        """Iterate over the problems of a benchmark, model by model: how many completions each had right."""
        return self._pages(_path(sweep_id, "benchmarks", quote(benchmark, safe=""), "problems"), ProblemScore)

    def benchmark_samples(self, sweep_id: str, benchmark: str) -> Iterator[BenchmarkSample]:
        """Iterate over a few completions of each model on a benchmark, with their judgements."""
        return self._pages(_path(sweep_id, "benchmarks", quote(benchmark, safe=""), "samples"), BenchmarkSample)

    def benchmarks_csv(self, sweep_id: str, problems_of: str | None = None) -> str:
        """Return the scores as CSV, or those of the problems of one benchmark."""
        parts = ["benchmarks"] if problems_of is None else ["benchmarks", quote(problems_of, safe=""), "problems"]
        return self._connection.request("GET", _path(sweep_id, *parts), {"format": "csv"}).text

    def compare(self, sweep_ids: Sequence[str]) -> SweepsComparison:
        """Join sweeps by config; differences are from the first one.

        Raises: NotFound; Refused, unless there are 2 to 20 different ones.
        """
        return self._ask("GET", "/v1/compare", SweepsComparison, {"sweeps": list(sweep_ids)})

    def events(self, sweep_id: str, after: int = 0) -> Iterator[Event]:
        """Iterate over the events that there are, from the one after number `after`."""
        return self._pages(_path(sweep_id, "events"), Event, {"after": after})

    def follow(self, sweep_id: str, after: int = 0) -> Iterator[Event]:
        """Iterate over events as they happen, from the one after number `after`, until the sweep has ended.

        A connection that breaks is made again, and no event is lost or repeated.

        Raises: NotFound; Unreachable, if the server stays away.
        """
        path, patience = _path(sweep_id, "events"), None
        while True:
            headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
            try:
                with self._connection.stream(path, headers, _STREAM_SILENCE_S) as response:
                    for message in read_messages(response.iter_lines()):
                        patience = None
                        if message.event == "end":
                            return
                        event = Event.model_validate_json(message.data)
                        after = event.seq
                        yield event
                cause: Exception = ConnectionError("the stream ended early")
            except httpx.TransportError as error:
                cause = error
            patience = patience or Patience(self._connection.patience_s)
            if not patience.another_try():
                raise self._connection.unreachable(cause) from cause

    def wait(
        self,
        sweep_id: str,
        timeout_s: float | None = None,
        on_event: Callable[[Event], None] | None = None,
        poll_s: float = 0.5,
    ) -> SweepView:
        """Wait until a sweep has ended.

        Args:
            on_event: called with every event, from the first on.
            poll_s: seconds between two looks.
        Raises: TooLate, after `timeout_s` seconds.
        """
        seen, end = 0, time.monotonic() + (float("inf") if timeout_s is None else timeout_s)
        while True:
            sweep = self.get(sweep_id)
            for event in self.events(sweep_id, seen) if on_event else ():
                seen = event.seq
                if on_event:
                    on_event(event)
            if sweep.state.is_over:
                return sweep
            if time.monotonic() + poll_s > end:
                raise TooLate(f"sweep {sweep_id} is {sweep.state} after {timeout_s:g} s; it goes on")
            time.sleep(poll_s)

    def report(self, sweep_id: str, format: ReportFormat = "html", timeout_s: float | None = 0) -> bytes:
        """Return the report of a sweep that has ended.

        Args:
            timeout_s: seconds to wait for it; None waits for as long as it takes.
        Raises: NotReady, if it is not built by then; ReportFailed, if it cannot be built.
        """
        return self._report(sweep_id, {"format": format, "interim": "false"}, timeout_s).content

    def report_so_far(
        self,
        sweep_id: str,
        format: ReportFormat = "html",
        timeout_s: float | None = 30,
        fresh_s: float | None = None,
    ) -> ReportSoFar:
        """Return the report as it stands: of a running sweep an interim one, which the server builds when asked.

        Args:
            timeout_s: seconds to wait for a report.
            fresh_s: largest age in seconds of an interim one; if there is none in time, take what there is.
        Raises: NotReady, if there is none by then; ReportFailed, if it cannot be built.
        """
        end = time.monotonic() + (float("inf") if timeout_s is None else timeout_s)
        while True:
            response = self._report(sweep_id, {"format": format}, end - time.monotonic())
            interim, age_s = response.headers.get("Report-Interim") == "true", float(response.headers.get("Age", 0))
            stale = interim and fresh_s is not None and age_s > fresh_s
            if not stale or time.monotonic() + _STALE_PAUSE_S > end:
                return ReportSoFar(response.content, interim, age_s)
            time.sleep(_STALE_PAUSE_S)

    def _report(self, sweep_id: str, params: Mapping[str, str], timeout_s: float | None) -> httpx.Response:
        end = time.monotonic() + (float("inf") if timeout_s is None else timeout_s)
        while True:
            response = self._connection.request("GET", _path(sweep_id, "report"), params)
            if response.status_code != 202:
                return response
            pause_s = float(response.headers.get("Retry-After", "1"))
            if time.monotonic() + pause_s > end:
                raise NotReady(response.json()["detail"])
            time.sleep(pause_s)

    def probe(self, sweep_id: str) -> ProbeView:
        """Return a sweep's newest cost probe.

        Raises: NotReady, if it has none.
        """
        return self._ask("GET", _path(sweep_id, "probe"), ProbeView)

    def best(self, sweep_id: str) -> Best:
        """Return the best config so far.

        Raises: NotReady, if no config has a result yet.
        """
        return self._ask("GET", _path(sweep_id, "best"), Best)

    def best_yaml(self, sweep_id: str) -> str:
        """Return the best config so far as a file that `python -m trainers` takes."""
        return self._connection.request("GET", _path(sweep_id, "best"), {"format": "yaml"}).text

    def models(self) -> Iterator[ModelEntry]:
        """Iterate over the models that specs may name."""
        return self._pages("/v1/models", ModelEntry)

    def datasets(self) -> Iterator[DatasetEntry]:
        """Iterate over the datasets that specs may name."""
        return self._pages("/v1/datasets", DatasetEntry)

    def benchmarks(self) -> Iterator[BenchmarkEntry]:
        """Iterate over the benchmarks that specs may name."""
        return self._pages("/v1/benchmarks", BenchmarkEntry)

    def model(self, name: str) -> ModelEntry:
        """Return a model's record.

        Raises: NotFound.
        """
        return self._ask("GET", _entry_path("models", name), ModelEntry)

    def dataset(self, name: str) -> DatasetEntry:
        """Return a dataset's record.

        Raises: NotFound.
        """
        return self._ask("GET", _entry_path("datasets", name), DatasetEntry)

    def benchmark(self, name: str) -> BenchmarkEntry:
        """Return a benchmark's record.

        Raises: NotFound.
        """
        return self._ask("GET", _entry_path("benchmarks", name), BenchmarkEntry)

    def cancel(self, sweep_id: str) -> SweepView:
        """Stop a sweep.

        Raises: NotFound; Conflict, if it has ended already.
        """
        return self._ask("POST", _path(sweep_id, "cancel"), SweepView)

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of a spec."""
        return self._connection.request("GET", "/v1/schemas/sweep").json()

    def _ask(
        self, method: str, path: str, kind: type[Answer], params: Mapping[str, Any] | None = None, **sent: Any
    ) -> Answer:
        content = self._connection.request(method, path, params, **sent).content
        try:
            return kind.model_validate_json(content)
        except ValidationError as error:
            raise Unreachable(
                f"{self.url} answers, but not as the API of this version does: another version runs there, or another "
                f"program; {path} gave {content[:60]!r}"
            ) from error

    def _page(
        self, path: str, kind: type[Answer], params: Mapping[str, Any], size: int, token: str | None
    ) -> Page[Answer]:
        return self._ask("GET", path, Page[kind], {**params, "page_size": size, "page_token": token})

    def _pages(self, path: str, kind: type[Answer], params: Mapping[str, Any] | None = None) -> Iterator[Answer]:
        token: str | None = None
        while True:
            page = self._page(path, kind, params or {}, _PAGE, token)
            yield from page.items
            token = page.next_page_token
            if token is None:
                return


def _filters(states: Sequence[SweepState], labels: Mapping[str, str] | None) -> dict[str, Any]:
    return {"state": list(states), "label": [f"{name}={text}" for name, text in (labels or {}).items()]}


def _document(spec: Spec) -> Any:
    return spec.model_dump(mode="json") if isinstance(spec, SweepSpec) else spec


def _path(sweep_id: str, *parts: str) -> str:
    if "/" in sweep_id:  # a server would read it as a part of the path
        raise NotFound("sweep", sweep_id)
    return "/".join(["/v1/sweeps", quote(sweep_id, safe=""), *parts])


def _entry_path(kind: str, name: str) -> str:
    if not name or "/" in name:
        raise NotFound(kind.removesuffix("s"), name)
    return f"/v1/{kind}/{quote(name, safe='')}"
