"""Invariants of an installation after any number of faults. Each check yields what is broken, in sentences."""

import itertools
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import httpx

from sweep_service.client import Client
from sweep_service.errors import NotFound
from sweep_service.schemas import SweepView, TrialView
from sweep_service.store import Store
from sweep_service.sweep.records import AttemptOutcome, Event, Stage, SweepState, TrialState
from sweep_service.sweep.state_table import SWEEP_LIFE, TRIAL_LIFE
from tests.chaos.references import Reference, comparable_report, curves_of, first_difference
from tests.chaos.specs import MORE
from tests.chaos.verbs import Asked, Book

IN_MLFLOW: Final = ("entropy", "grad_norm", "loss")
"""Metrics of which MLflow has every point."""
MLFLOW_WITHIN_S: Final = 180.0
"""Seconds after the last sweep's end within which MLflow must have everything."""
GONE_WITHIN_S: Final = 120.0


class Oracle:
    """Judges an installation whose sweeps have all ended.

    Args:
        client, store, mlflow: what is judged.
        references: the same sweeps, undisturbed.
    """

    def __init__(
        self, client: Client, store: Store, mlflow: httpx.Client, book: Book, references: Mapping[str, Reference]
    ) -> None:
        self._client, self._store, self._mlflow = client, store, mlflow
        self._book, self._references = book, references

    def judge(self) -> Iterator[str]:
        """Yield everything that is broken."""
        yield from self._book.broken
        yield from self._sweeps_exist_once()
        checks = (
            self._has_its_end,
            self._has_its_trials,
            self._has_one_success_a_trial,
            self._events_tell_all,
            self._curves_are_the_same,
            self._report_is_the_same,
            self._mlflow_shows_the_same,
        )
        for asked in self._book.sweeps:
            if not asked.is_there:
                continue
            assert asked.id is not None
            sweep = self._client.get(asked.id)
            trials = list(self._client.trials(asked.id))
            for check in checks:
                yield from (f"{asked.key} ({asked.id}): {broken}" for broken in check(asked, sweep, trials))

    def _sweeps_exist_once(self) -> Iterator[str]:
        """Every sweep that was acknowledged exists once; one whose deletion was acknowledged is gone."""
        by_name = Counter(sweep.name for sweep in self._client.sweeps())
        for asked in self._book.sweeps:
            if asked.is_there and by_name[asked.key] != 1:
                yield f"key {asked.key}: expected one sweep of this name, saw {by_name[asked.key]}"
            elif "delete" in asked.granted and asked.id is not None:
                yield from self._is_gone(asked.key, asked.id)

    def _is_gone(self, key: str, sweep_id: str) -> Iterator[str]:
        deadline = time.monotonic() + GONE_WITHIN_S
        while time.monotonic() < deadline:
            try:
                self._client.get(sweep_id)
            except NotFound:
                return
            time.sleep(1)
        yield f"{key} ({sweep_id}): deleted, and still there after {GONE_WITHIN_S:.0f} s"

    def _has_its_end(self, asked: Asked, sweep: SweepView, trials: list[TrialView]) -> Iterator[str]:
        """A cancelled sweep is CANCELLED, every other one has SUCCEEDED, with all of its trials."""
        allowed = {SweepState.CANCELLED} if "cancel" in asked.granted else {SweepState.SUCCEEDED}
        if "cancel" in asked.verbs - asked.granted:
            allowed = {SweepState.CANCELLED, SweepState.SUCCEEDED}
        if sweep.state not in allowed:
            yield f"expected {' or '.join(sorted(allowed))}, saw {sweep.state}: {sweep.message}"
        if unended := [trial.id for trial in trials if not trial.state.is_over]:
            yield f"the sweep is over, and these trials are not: {unended}"
        wrong = [(trial.id, trial.state.value, trial.message) for trial in trials if trial.state.went_wrong]
        if wrong and sweep.state is SweepState.SUCCEEDED:
            yield f"expected that all trials succeed, since each was tried again; saw {wrong}"

    def _has_its_trials(self, asked: Asked, sweep: SweepView, trials: list[TrialView]) -> Iterator[str]:
        """Trials are configs x seeds, as the spec and its extension say."""
        if "extend" in asked.granted and sweep.spec.seeds.confirm.seeds != tuple(MORE["seeds"]["confirm"]["seeds"]):  # type: ignore[union-attr]
            yield f"extended to {MORE}, and its spec has {sweep.spec.seeds}"
        seen = Counter((trial.config_id, trial.seed, trial.stage) for trial in trials)
        configs = [config.id for config in self._client.configs(sweep.id)]
        expected = {(config, seed, Stage.TUNE) for config in configs for seed in sweep.spec.seeds.tune}
        confirmed = {trial.config_id for trial in trials if trial.stage is Stage.CONFIRM}
        if sweep.spec.seeds.confirm and sweep.state is SweepState.SUCCEEDED and not confirmed:
            yield "it has SUCCEEDED and confirmed nothing"
        confirm_seeds = sweep.spec.seeds.confirm.seeds if sweep.spec.seeds.confirm else ()
        expected |= {(config, seed, Stage.CONFIRM) for config in confirmed for seed in confirm_seeds}
        if sweep.state is SweepState.CANCELLED:
            expected &= seen.keys()  # what comes later is not made any more
        if dict(seen) != dict.fromkeys(expected, 1):
            odd = {trial: seen[trial] for trial in seen.keys() | expected if seen[trial] != (trial in expected)}
            yield f"expected one trial for each config and seed, saw these numbers instead: {odd}"

    def _has_one_success_a_trial(self, asked: Asked, sweep: SweepView, trials: list[TrialView]) -> Iterator[str]:
        """A trial that has SUCCEEDED has one attempt that did, its last; every attempt has an outcome."""
        attempts = self._store.list_attempts(sweep.id)
        if unended := [(one.trial_id, one.number) for one in attempts if one.outcome is None]:
            yield f"the sweep is over, and these attempts have no outcome: {unended}"
        for trial in trials:
            outcomes = [one.outcome for one in self._store.attempts_of(trial.id)]
            good = outcomes.count(AttemptOutcome.SUCCEEDED)
            if trial.state is TrialState.SUCCEEDED and (good != 1 or outcomes[-1] is not AttemptOutcome.SUCCEEDED):
                yield f"{trial.id} has SUCCEEDED; expected one success, the last of its attempts, saw {outcomes}"
            elif good and trial.state is not TrialState.SUCCEEDED:
                yield f"{trial.id} is {trial.state}, though an attempt succeeded: {outcomes}"
            if len(outcomes) != trial.attempts:
                yield f"{trial.id} counts {trial.attempts} attempts, and {len(outcomes)} are stored"

    def _events_tell_all(self, asked: Asked, sweep: SweepView, trials: list[TrialView]) -> Iterator[str]:
        """Events are numbered from 1 without gaps, lead where the tables of states do, and add up to the rows."""
        events = list(self._client.events(sweep.id))
        if (numbers := [event.seq for event in events]) != list(range(1, len(events) + 1)):
            odd = [(one, other) for one, other in itertools.pairwise(numbers) if other != one + 1]
            yield f"expected events numbered without gaps, saw jumps at {odd[:5]} and {numbers[:1]} as the first"
        yield from steps_aside(events)
        state, states, started, finished = folded(events)
        if state != sweep.state:
            yield f"the events end with the sweep {state}, and its row says {sweep.state}"
        for trial in trials:
            told = (states.get(trial.id, TrialState.PENDING), started[trial.id], finished[trial.id])
            if told != (trial.state, trial.attempts, trial.attempts):
                row = (trial.state.value, trial.attempts, trial.attempts)
                yield f"{trial.id}: expected state, attempts begun and ended {row} from its events, saw {told}"

    def _curves_are_the_same(self, asked: Asked, sweep: SweepView, trials: list[TrialView]) -> Iterator[str]:
        """Each trial that has SUCCEEDED has the curves of the undisturbed one, to the last bit."""
        reference, seen = self._references[asked.kind].curves, dict(curves_of(self._client, sweep.id))
        for trial in trials:
            if trial.state is not TrialState.SUCCEEDED:
                continue
            who = (trial.config_id, trial.seed, trial.stage.value)
            expected = {point: curve for point, curve in reference.items() if point[:3] == who}
            mine = {point: curve for point, curve in seen.items() if point[:3] == who}
            if not expected:
                yield f"{trial.id} is {who}, which the undisturbed sweep never trained"
            elif told := first_difference(_by_key(expected), _by_key(mine)):
                yield f"{trial.id} {who}: its curves are not those of the undisturbed trial: {told}"

    def _report_is_the_same(self, asked: Asked, sweep: SweepView, trials: list[TrialView]) -> Iterator[str]:
        """The report of a sweep that was neither cancelled nor extended nor tried again is the undisturbed one's."""
        if asked.verbs & {"cancel", "extend", "retry"}:
            return
        told = first_difference(self._references[asked.kind].report, comparable_report(self._client, sweep.id))
        if told:
            yield f"its report is not that of the undisturbed sweep: {told}"

    def _mlflow_shows_the_same(self, asked: Asked, sweep: SweepView, trials: list[TrialView]) -> Iterator[str]:
        """MLflow has the points of the first and the last trial, each once."""
        finished = [trial for trial in trials if trial.state is TrialState.SUCCEEDED]
        for trial in {one.id: one for one in (*finished[:1], *finished[-1:])}.values():
            told, deadline = self._differs_in_mlflow(sweep, trial), time.monotonic() + MLFLOW_WITHIN_S
            while told and time.monotonic() < deadline:
                time.sleep(2)
                told = self._differs_in_mlflow(sweep, self._trial(sweep.id, trial.id))
            if told:
                yield f"{trial.id}: MLflow differs from the store after {MLFLOW_WITHIN_S:.0f} s: {told}"

    def _trial(self, sweep_id: str, trial_id: str) -> TrialView:
        return next(trial for trial in self._client.trials(sweep_id) if trial.id == trial_id)

    def _differs_in_mlflow(self, sweep: SweepView, trial: TrialView) -> str | None:
        if trial.mlflow_run_id is None:
            return "it has no run there"
        for curve in self._client.curves(sweep.id, IN_MLFLOW, [trial.id]):
            query: dict[str, Any] = {"run_id": trial.mlflow_run_id, "metric_key": curve.key, "max_results": 5000}
            try:
                answer = self._mlflow.get("metrics/get-history", params=query).raise_for_status().json()
            except httpx.HTTPError as error:
                return str(error)
            shown = sorted((int(point["step"]), float(point["value"])) for point in answer.get("metrics", []))
            stored = [(step, value) for step, value in zip(curve.steps, curve.values, strict=True) if value is not None]
            if shown != stored:
                return (
                    f"{curve.key}: expected {len(stored)} points, saw {len(shown)}; {first_difference(stored, shown)}"
                )
        return None


def steps_aside(events: list[Event]) -> Iterator[str]:
    """Yield every step of the sweep or of a trial to a state to which its table does not lead."""
    sweep, trials = SweepState.QUEUED, dict[str, TrialState]()
    for event in events:
        if event.type == "sweep.state_changed":
            before, sweep = sweep, SweepState(event.data["state"])
            allowed = SWEEP_LIFE[before].next | SWEEP_LIFE[before].opened
            if sweep not in allowed:
                yield f"event {event.seq}: the sweep went from {before} to {sweep}; expected one of {sorted(allowed)}"
        elif event.type in ("trial.started", "trial.state_changed"):
            trial = event.data["trial_id"]
            past, now = trials.get(trial, TrialState.PENDING), TrialState(event.data.get("state", TrialState.RUNNING))
            trials[trial] = now
            if now not in TRIAL_LIFE[past].next | TRIAL_LIFE[past].opened:
                yield f"event {event.seq}: {trial} went from {past} to {now}, where its table does not lead"


def folded(events: list[Event]) -> tuple[SweepState, dict[str, TrialState], Counter[str], Counter[str]]:
    """Add up events: the sweep's state, each trial's state, and how many attempts of each have begun and ended."""
    state, states = SweepState.QUEUED, dict[str, TrialState]()
    started, finished = Counter[str](), Counter[str]()
    for event in events:
        match event.type:
            case "sweep.state_changed":
                state = SweepState(event.data["state"])
            case "trial.started":
                states[event.data["trial_id"]] = TrialState.RUNNING
                started[event.data["trial_id"]] += 1
            case "trial.state_changed":
                states[event.data["trial_id"]] = TrialState(event.data["state"])
            case "attempt.finished":
                finished[event.data["trial_id"]] += 1
            case _:
                pass
    return state, states, started, finished


def _by_key(curves: Mapping[Any, Any]) -> dict[str, list[Any]]:
    return {point[3]: [list(part) for part in curve] for point, curve in curves.items()}
