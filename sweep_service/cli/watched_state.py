"""What `watch` shows: the state of a sweep at one moment, fetched with few requests."""

from dataclasses import dataclass, field

from sweep_service.client import Client
from sweep_service.errors import NotReady
from sweep_service.schemas import Best, SweepView, TrialView
from sweep_service.sweep.labels import params_text, probe_phase
from sweep_service.sweep.records import Event, TrialState

KEYS = ("entropy", "reward/mean", "eval/avg_at_k")


@dataclass(frozen=True)
class WatchedState:
    """A sweep at one moment."""

    sweep: SweepView
    running: list[TrialView]
    latest: dict[str, dict[str, float | None]]
    """Newest values of KEYS by trial id."""
    labels: dict[str, str]
    """Parameters, seed and stage by trial id."""
    phases: dict[str, str]
    """What a trial does before its first step, by trial id."""
    probe: str | None
    """What the cost probe does, while there is one."""
    best: Best | None
    events: list[Event]
    """What happened since the last look."""


@dataclass
class Watcher:
    """Looks at one sweep again and again, and asks only for what may have changed."""

    client: Client
    sweep_id: str
    _seen: int = 0
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
        for curve in self.client.curves(self.sweep_id, KEYS, [trial.id for trial in running], 1) if running else ():
            latest.setdefault(curve.trial_id, {})[curve.key] = curve.values[-1]
        return WatchedState(sweep, running, latest, self._labels, self._phases, self._probe, self._best, events)

    def _learn(self, events: list[Event]) -> None:
        """Take from the events what can only have changed with them."""
        named = {str(event.data["trial_id"]) for event in events if "trial_id" in event.data}
        if not named <= self._labels.keys():
            configs = {config.id: params_text(config.params) for config in self.client.configs(self.sweep_id)}
            for trial in self.client.trials(self.sweep_id):
                params = configs.get(trial.config_id) or trial.config_id
                self._labels[trial.id] = f"{params} seed {trial.seed} {trial.stage}"
        for event in events:
            if event.type == "trial.progress":
                done, total = event.data["done"], event.data["total"]
                self._phases[event.data["trial_id"]] = f"{event.data['phase']} {done}/{total}"
            elif event.type.startswith("probe."):
                self._probe = probe_phase(event)
        if any(event.type in ("attempt.finished", "sweep.state_changed") for event in events):
            try:
                self._best = self.client.best(self.sweep_id)
            except NotReady:
                self._best = None
