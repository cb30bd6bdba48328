"""The client of the service: submitting sweeps, waiting for them, and reading their states and results."""

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Self
from urllib.parse import quote

import httpx

from sweep_service.auth import read_token
from sweep_service.client.asking import document_of, read_through, segment
from sweep_service.client.connection import Patience, read_messages
from sweep_service.client.errors import TooLate
from sweep_service.client.log_reading import LogReading
from sweep_service.client.verb_methods import VerbMethods
from sweep_service.errors import NotReady, ReportFailed
from sweep_service.report.comparison_model import SweepsComparison
from sweep_service.schemas import (
    BenchmarkSample,
    BenchmarkScoreView,
    Best,
    ConfigCurve,
    ConfigView,
    EvaluationView,
    MetricKey,
    Page,
    ProbeView,
    ReportFormat,
    ReportsView,
    SubmittedView,
    SweepSummary,
    SweepView,
    TrialView,
)
from sweep_service.settings import Settings, as_served
from sweep_service.sweep.benchmark_scores import ProblemScore
from sweep_service.sweep.plan import SweepPlan
from sweep_service.sweep.records import Curve, DesiredState, Event, Sample, SweepState, TrialState
from sweep_service.sweep.spec import SweepSpec
from trainers.catalog.entries import BenchmarkEntry, DatasetEntry, ModelEntry

Spec = SweepSpec | Mapping[str, Any]
_STALE_PAUSE_S = 2.0
_NEWER_WITHIN_S = 30.0
_BUILDING_PAUSE_S = 0.5
_STREAM_SILENCE_S = 40.0  # the server pings every 15 s


class ReportSoFar(NamedTuple):
    """A report, perhaps an interim one."""

    content: bytes
    interim: bool
    """True if the sweep is still running, so that every number may change."""
    age_s: float
    """Seconds since an interim report was built."""


class Client(VerbMethods, LogReading):
    """A connection to one server. Lists come as iterators that fetch their pages as they go.

    Every `sweep_id` may be the sweep's name or a part of its id, as the command line takes them (`find_sweep`).

    Args:
        url: address of the server, such as http://127.0.0.1:8080.
        token: bearer token of the server.
        timeout_s: seconds to wait for one answer.
        patience_s: seconds to go on asking a server that is away or overloaded.
        trusted_users: users, beside our own and root, whose server on this machine may be sent the token.
    """

    @classmethod
    def from_env(cls, *, patience_s: float = 10) -> Self:
        """Return a client of the server that SWEEPS_URL and SWEEPS_TOKEN_FILE name, else of the one on this machine.

        Raises: TokenError, if there is no token file.
        """
        settings = Settings()
        if "url" not in settings.model_fields_set:
            settings = as_served(settings)
        token, trusted = read_token(settings.token_file), settings.trusted
        return cls(settings.url, token, patience_s=patience_s, trusted_users=trusted)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check_ready(self) -> None:
        """Check that the server can serve requests.

        Raises: Unreachable; Refused, with the reason.
        """
        self.request("GET", "/readyz")

    def plan(self, spec: Spec, told: Callable[[str], None] | None = None) -> SweepPlan:
        """Check a spec and say what it would run, without storing anything; wait until its data are read.

        Args:
            told: gets a sentence each time that the server asks for patience: some minutes for millions of rows.
        Raises: InvalidSpec, with every reason why it cannot run.
        """
        parameters, document = {"validate_only": "true"}, document_of(spec)
        return read_through(lambda: self.ask("POST", "/v1/sweeps", SweepPlan, parameters, json=document), told)

    def submit(
        self, spec: Spec, idempotency_key: str | None = None, told: Callable[[str], None] | None = None
    ) -> SubmittedView:
        """Submit a sweep; wait until its data are read.

        Args:
            spec: the sweep, as a record or as values of JSON.
            idempotency_key: names this submission, so that sending it again does not submit the sweep twice. Default:
                a new key, which covers the retries within this call.
            told: as for `plan`.
        Raises: InvalidSpec; IdempotencyKeyReused.
        """
        headers, document = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}, document_of(spec)
        return read_through(lambda: self.ask("POST", "/v1/sweeps", SubmittedView, headers=headers, json=document), told)

    def sweeps(
        self,
        states: Sequence[SweepState] = (),
        labels: Mapping[str, str] | None = None,
        *,
        text: str = "",
        created_after: datetime | None = None,
        created_before: datetime | None = None,
    ) -> Iterator[SweepSummary]:
        """Iterate over sweeps, newest first.

        Args:
            states: only sweeps in one of these states.
            labels: only sweeps that have all of these labels.
            text: only sweeps with this in their name or id, in capital letters or small ones.
            created_after: only sweeps that were submitted then or later; without a zone, it is in UTC.
            created_before: only sweeps that were submitted before.
        """
        filters = _filters(states, labels, text, created_after, created_before)
        return self.pages("/v1/sweeps", SweepSummary, filters)

    def newest_sweeps(
        self,
        size: int,
        states: Sequence[SweepState] = (),
        labels: Mapping[str, str] | None = None,
        *,
        text: str = "",
        created_after: datetime | None = None,
        created_before: datetime | None = None,
    ) -> Page[SweepSummary]:
        """Return the newest sweeps as one page, which has at most 500; filtered as by `sweeps`."""
        filters = _filters(states, labels, text, created_after, created_before)
        return self.page("/v1/sweeps", SweepSummary, filters, size, None)

    def get(self, sweep_id: str) -> SweepView:
        """Return a sweep.

        Raises: NotFound.
        """
        return self.ask("GET", self.sweep_path(sweep_id), SweepView)

    def trials(self, sweep_id: str, states: Sequence[TrialState] = ()) -> Iterator[TrialView]:
        """Iterate over trials in the order in which they are handed out."""
        return self.pages(self.sweep_path(sweep_id, "trials"), TrialView, {"state": list(states)})

    def trial(self, trial_id: str) -> TrialView:
        """Return one trial.

        Raises: NotFound.
        """
        return self.ask("GET", f"/v1/trials/{segment('trial', trial_id)}", TrialView)

    def configs(self, sweep_id: str) -> Iterator[ConfigView]:
        """Iterate over configs, baselines first."""
        return self.pages(self.sweep_path(sweep_id, "configs"), ConfigView)

    def metric_keys(self, sweep_id: str) -> Iterator[MetricKey]:
        """Iterate over the metrics that a sweep's trials have recorded, by name: the keys of `curves`."""
        return self.pages(self.sweep_path(sweep_id, "metrics", "keys"), MetricKey)

    def curves(
        self, sweep_id: str, keys: Sequence[str], trial_ids: Sequence[str] = (), last: int | None = None
    ) -> Iterator[Curve]:
        """Iterate over metrics of all trials, or of some.

        Args:
            keys: names of at most 50 metrics, as `metric_keys` lists them.
            last: number of last points to keep of each curve.
        Raises: NotFound; Refused, if there is no such metric, with those that may be meant.
        """
        params = {"keys": list(keys), "trial": list(trial_ids), "last": last}
        return self.pages(self.sweep_path(sweep_id, "metrics"), Curve, params)

    def config_curves(self, sweep_id: str, keys: Sequence[str], last: int | None = None) -> Iterator[ConfigCurve]:
        """Iterate over metrics of configs: mean and range over seeds."""
        params = {"keys": list(keys), "last": last, "group_by": "config"}
        return self.pages(self.sweep_path(sweep_id, "metrics"), ConfigCurve, params)

    def samples(self, sweep_id: str) -> Iterator[Sample]:
        """Iterate over completions that policies wrote at their evaluations."""
        return self.pages(self.sweep_path(sweep_id, "samples"), Sample)

    def evaluations(self, sweep_id: str) -> Iterator[EvaluationView]:
        """Iterate over the evaluations of a sweep's models on its benchmarks."""
        return self.pages(self.sweep_path(sweep_id, "evaluations"), EvaluationView)

    def benchmark_scores(self, sweep_id: str) -> Iterator[BenchmarkScoreView]:
        """Iterate over what a sweep's models score on its benchmarks."""
        return self.pages(self.sweep_path(sweep_id, "benchmarks"), BenchmarkScoreView)

    def benchmark_problems(self, sweep_id: str, benchmark: str) -> Iterator[ProblemScore]:
        """Iterate over the problems of a benchmark, model by model: how many completions each had right."""
        return self.pages(self.sweep_path(sweep_id, "benchmarks", quote(benchmark, safe=""), "problems"), ProblemScore)

    def benchmark_samples(self, sweep_id: str, benchmark: str) -> Iterator[BenchmarkSample]:
        """Iterate over a few completions of each model on a benchmark, with their judgements."""
        return self.pages(
            self.sweep_path(sweep_id, "benchmarks", quote(benchmark, safe=""), "samples"), BenchmarkSample
        )

    def benchmarks_csv(self, sweep_id: str, problems_of: str | None = None) -> str:
        """Return the scores as CSV, or those of the problems of one benchmark."""
        parts = ["benchmarks"] if problems_of is None else ["benchmarks", quote(problems_of, safe=""), "problems"]
        return self.request("GET", self.sweep_path(sweep_id, *parts), {"format": "csv"}).text

    def compare(self, sweep_ids: Sequence[str]) -> SweepsComparison:
        """Join sweeps by config; differences are from the first one.

        Raises: NotFound; Refused, unless there are 2 to 20 different ones.
        """
        return self.ask(
            "GET", "/v1/compare", SweepsComparison, {"sweeps": [self.find_sweep(which) for which in sweep_ids]}
        )

    def events(self, sweep_id: str, after: int = 0) -> Iterator[Event]:
        """Iterate over the events that there are, from the one after number `after`."""
        return self.pages(self.sweep_path(sweep_id, "events"), Event, {"after": after})

    def follow(self, sweep_id: str, after: int = 0) -> Iterator[Event]:
        """Iterate over events as they happen, from the one after number `after`, until the sweep has ended.

        A connection that breaks is made again, and no event is lost or repeated.

        Raises: NotFound; Unreachable, if the server stays away.
        """
        path, patience = self.sweep_path(sweep_id, "events"), None
        while True:
            headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
            try:
                with self.stream(path, headers, _STREAM_SILENCE_S) as response:
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
            patience = patience or Patience(self.patience_s)
            if not patience.another_try():
                raise self.unreachable(cause) from cause

    def wait(
        self,
        sweep_id: str,
        timeout_s: float | None = None,
        on_event: Callable[[Event], None] | None = None,
        poll_s: float = 0.5,
        until: Callable[[SweepView], bool] = lambda sweep: sweep.state.is_over,
    ) -> SweepView:
        """Wait until a sweep has ended.

        Args:
            on_event: called with every event, from the first on.
            poll_s: seconds between two looks.
            until: the condition that ends the wait.
        Raises: TooLate, after `timeout_s` seconds.
        """
        sweep_id = self.find_sweep(sweep_id)
        seen, end = 0, time.monotonic() + (float("inf") if timeout_s is None else timeout_s)
        while True:
            sweep = self.get(sweep_id)
            for event in self.events(sweep_id, seen) if on_event else ():
                seen = event.seq
                if on_event:
                    on_event(event)
            if until(sweep):
                return sweep
            if time.monotonic() + poll_s > end:
                shown = sweep.desired_state.shown(sweep.state)
                raise TooLate(f"sweep {sweep_id} is {shown} after {timeout_s:g} s; {_what_follows(sweep)}")
            time.sleep(poll_s)

    def report(
        self,
        sweep_id: str,
        format: ReportFormat = "html",
        timeout_s: float | None = 0,
        digest: str | None = None,
        on_wait: Callable[[str], None] | None = None,
    ) -> bytes:
        """Return the report of a sweep that has ended.

        Args:
            timeout_s: seconds to wait for it; None waits for as long as it takes.
            digest: return the report of this digest, which a newer one may have superseded.
            on_wait: called with the reason, each time that there is no report yet.
        Raises: NotFound; NotReady, if it is not built by then; ReportFailed, if it cannot be built.
        """
        params = {"format": format, "interim": "false", "digest": digest}
        return self._report(sweep_id, params, timeout_s, on_wait).content

    def reports(self, sweep_id: str) -> ReportsView:
        """Return which final reports a sweep has, and whether a new one is being built.

        Raises: NotFound.
        """
        return self.ask("GET", self.sweep_path(sweep_id, "reports"), ReportsView)

    def report_anew(self, sweep_id: str, timeout_s: float | None = 30) -> ReportsView:
        """Have the report of a sweep that has ended built anew, and wait until it is.

        Raises: Conflict, if it has not ended, or is archived; NotReady, if it is not built in time; ReportFailed.
        """
        end = time.monotonic() + (float("inf") if timeout_s is None else timeout_s)
        sweep_id = self.find_sweep_to_change(sweep_id)
        view = self.renew_report(sweep_id)
        while view.building:
            if time.monotonic() + _BUILDING_PAUSE_S > end:
                raise NotReady(f"the new report of sweep {sweep_id} has not been built yet")
            time.sleep(_BUILDING_PAUSE_S)
            view = self.reports(sweep_id)
        if view.failure is not None:
            raise ReportFailed(f"the new report of sweep {sweep_id} could not be built: {view.failure}")
        return view

    def report_so_far(
        self,
        sweep_id: str,
        format: ReportFormat = "html",
        timeout_s: float | None = 30,
        fresh_s: float | None = None,
        on_wait: Callable[[str], None] | None = None,
    ) -> ReportSoFar:
        """Return the report as it stands: of a running sweep an interim one, which the server builds when asked.

        Args:
            timeout_s: seconds to wait for a report.
            fresh_s: largest age in seconds of an interim one; with none within half a minute, take what there is.
            on_wait: called with the reason, each time that there is no such report yet.
        Raises: NotReady, if there is none by then; ReportFailed, if it cannot be built.
        """
        end = time.monotonic() + (float("inf") if timeout_s is None else timeout_s)
        sweep_id = self.find_sweep(sweep_id)
        newer_until = min(end, time.monotonic() + _NEWER_WITHIN_S)
        while True:
            response = self._report(sweep_id, {"format": format}, end - time.monotonic(), on_wait)
            interim, age_s = response.headers.get("Report-Interim") == "true", float(response.headers.get("Age", 0))
            stale = interim and fresh_s is not None and age_s > fresh_s
            if not stale or time.monotonic() + _STALE_PAUSE_S > newer_until:
                return ReportSoFar(response.content, interim, age_s)
            if on_wait:
                on_wait(f"a newer interim report of sweep {sweep_id} is being built")
            time.sleep(_STALE_PAUSE_S)

    def _report(
        self,
        sweep_id: str,
        params: Mapping[str, str | None],
        timeout_s: float | None,
        on_wait: Callable[[str], None] | None,
    ) -> httpx.Response:
        end = time.monotonic() + (float("inf") if timeout_s is None else timeout_s)
        path = self.sweep_path(sweep_id, "report")
        while True:
            response = self.request("GET", path, params)
            if response.status_code != 202:
                return response
            pause_s = float(response.headers.get("Retry-After", "1"))
            if time.monotonic() + pause_s > end:
                raise NotReady(response.json()["detail"])
            if on_wait:
                on_wait(response.json()["detail"])
            time.sleep(pause_s)

    def probe(self, sweep_id: str) -> ProbeView:
        """Return a sweep's newest cost probe.

        Raises: NotReady, if it has none.
        """
        return self.ask("GET", self.sweep_path(sweep_id, "probe"), ProbeView)

    def best(self, sweep_id: str) -> Best:
        """Return the best config so far.

        Raises: NotReady, if no config has a result yet.
        """
        return self.ask("GET", self.sweep_path(sweep_id, "best"), Best)

    def best_yaml(self, sweep_id: str) -> str:
        """Return the best config so far as a file that `python -m trainers` takes."""
        return self.request("GET", self.sweep_path(sweep_id, "best"), {"format": "yaml"}).text

    def models(self) -> Iterator[ModelEntry]:
        """Iterate over the models that specs may name."""
        return self.pages("/v1/models", ModelEntry)

    def datasets(self) -> Iterator[DatasetEntry]:
        """Iterate over the datasets that specs may name."""
        return self.pages("/v1/datasets", DatasetEntry)

    def benchmarks(self) -> Iterator[BenchmarkEntry]:
        """Iterate over the benchmarks that specs may name."""
        return self.pages("/v1/benchmarks", BenchmarkEntry)

    def model(self, name: str) -> ModelEntry:
        """Return a model's record.

        Raises: NotFound.
        """
        return self.ask("GET", _entry_path("models", name), ModelEntry)

    def dataset(self, name: str) -> DatasetEntry:
        """Return a dataset's record.

        Raises: NotFound.
        """
        return self.ask("GET", _entry_path("datasets", name), DatasetEntry)

    def benchmark(self, name: str) -> BenchmarkEntry:
        """Return a benchmark's record.

        Raises: NotFound.
        """
        return self.ask("GET", _entry_path("benchmarks", name), BenchmarkEntry)

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of a spec."""
        return self.request("GET", "/v1/schemas/sweep").json()


def _what_follows(sweep: SweepView) -> str:
    """Return the further life of a sweep in words, for somebody whose wait is over its time limit."""
    match sweep.desired_state:
        case DesiredState.PAUSE if sweep.state.needs_runner:
            return "it will be paused all the same, as soon as its trials have saved"
        case DesiredState.PAUSE if sweep.state is SweepState.PAUSED:
            return f"it goes on once somebody resumes it: sweeps resume {sweep.id}"
        case DesiredState.CANCEL if not sweep.state.is_over:
            return "it will be cancelled all the same"
        case _:
            return "it goes on"


def _filters(
    states: Sequence[SweepState],
    labels: Mapping[str, str] | None,
    text: str,
    created_after: datetime | None,
    created_before: datetime | None,
) -> dict[str, Any]:
    return {
        "state": list(states),
        "label": [f"{name}={text}" for name, text in (labels or {}).items()],
        "text": text or None,
        "created_after": created_after and created_after.isoformat(),
        "created_before": created_before and created_before.isoformat(),
    }


def _entry_path(kind: str, name: str) -> str:
    return f"/v1/{kind}/{segment(kind.removesuffix('s'), name)}"
