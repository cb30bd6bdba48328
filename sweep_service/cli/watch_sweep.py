"""Follows a sweep until it has ended: fetches its state with few requests and shows it on standard error."""

import sys
import time
from dataclasses import dataclass, field

import typer

from sweep_service.cli.exits import ExitCode
from sweep_service.cli.live_display import LineDisplay, LiveDisplay, WatchedState
from sweep_service.cli.output import counts_text, say, span, stderr
from sweep_service.cli.winner import winner_lines
from sweep_service.client import Client, TooLate, Unreachable
from sweep_service.errors import NotReady
from sweep_service.schemas import Best
from sweep_service.sweep.labels import params_texts, probe_phase, trial_phase
from sweep_service.sweep.records import Event, TrialState

_KEYS = ("entropy", "reward/mean", "eval/avg_at_k")
_EVERY_S = 0.7
_AWAY_S = 120.0
"""Seconds to wait for a server that restarts."""


def watch_sweep(client: Client, sweep_id: str, timeout_s: float | None = None) -> WatchedState:
    """Show a sweep on standard error until it has ended, then the config that leads and the verdict.

    Raises: typer.Exit(130), on Ctrl-C; TooLate; Unreachable, if the server stays away.
    """
    display = LiveDisplay() if sys.stderr.isatty() else LineDisplay()
    try:
        with display:
            last = _follow(_Watcher(client, sweep_id), display, timeout_s)
    except KeyboardInterrupt:
        say(f"\ndetached; the sweep goes on. Follow it again: sweeps watch {sweep_id}")
        say(f"Stop it: sweeps cancel {sweep_id}")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    sweep = last.sweep
    took = span((sweep.ended_at or time.time()) - sweep.created_at)
    say(f"{sweep.name} {sweep.state} after {took}: {counts_text(sweep.trials)}")
    console = stderr()
    for line in winner_lines(last.best, sweep, last.configs, console):
        console.print(line)
    return last


def _follow(watcher: "_Watcher", display: LiveDisplay | LineDisplay, timeout_s: float | None) -> WatchedState:
    begin = answered = time.monotonic()
    while True:
        try:
            state = watcher.look()
        except Unreachable as error:
            away = time.monotonic() - answered
            if away > _AWAY_S:
                raise
            display.remark(f"the server has not answered for {span(away)}; trying again ({error.__cause__})")
        else:
            answered = time.monotonic()
            display.show(state)
            if state.sweep.state.is_over and not state.events:
                return state
        if timeout_s is not None and time.monotonic() - begin > timeout_s:
            raise TooLate(f"the sweep has not ended within {timeout_s:g} s; it goes on")
        time.sleep(_EVERY_S)


@dataclass
class _Watcher:
    """Fetches a sweep's state again and again, and asks only for what may have changed."""

    client: Client
    sweep_id: str
    _seen: int = 0
    _configs: dict[str, str] = field(default_factory=dict)
    _labels: dict[str, str] = field(default_factory=dict)
    _phases: dict[str, str] = field(default_factory=dict)
    _probe: str | None = None
    _best: Best | None = None

    def look(self) -> WatchedState:
        """Return the sweep's present state."""
        sweep = self.client.get(self.sweep_id)
        events = list(self.client.events(self.sweep_id, self._seen))
        if events:
            self._seen = events[-1].seq
            self._learn(events)
        running = list(self.client.trials(self.sweep_id, [TrialState.RUNNING]))
        latest: dict[str, dict[str, float | None]] = {}
        for curve in self.client.curves(self.sweep_id, _KEYS, [trial.id for trial in running], 1) if running else ():
            latest.setdefault(curve.trial_id, {})[curve.key] = curve.values[-1]
        return WatchedState(
            sweep, running, latest, self._configs, self._labels, self._phases, self._probe, self._best, events
        )

    def _learn(self, events: list[Event]) -> None:
        """Update everything that changes only with events."""
        trial_ids = {str(event.data["trial_id"]) for event in events if "trial_id" in event.data}
        if not trial_ids <= self._labels.keys():
            self._configs = params_texts(list(self.client.configs(self.sweep_id)))
            for trial in self.client.trials(self.sweep_id):
                params = self._configs.get(trial.config_id) or trial.config_id
                self._labels[trial.id] = f"{params} seed {trial.seed} {trial.stage}"
        if any(event.type == "evaluations.added" for event in events):
            for evaluation in self.client.evaluations(self.sweep_id):
                model = self._labels.get(evaluation.trial_id or "", "initial model")
                self._labels[evaluation.id] = f"{model}, step {evaluation.model_step}" if evaluation.trial_id else model
        for event in events:
            if event.type == "trial.progress":
                self._phases[event.data["trial_id"]] = trial_phase(event.data)
            elif event.type.startswith("probe."):
                self._probe = probe_phase(event)
        if any(event.type in ("attempt.finished", "sweep.state_changed") for event in events):
            try:
                self._best = self.client.best(self.sweep_id)
            except NotReady:
                self._best = None
