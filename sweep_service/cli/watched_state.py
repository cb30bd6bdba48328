"""The state of a sweep that somebody watches, fetched with few requests."""

from dataclasses import dataclass, field

from sweep_service.cli.winner import best_so_far
from sweep_service.client import Client
from sweep_service.schemas import Best, SweepView, TrialView
from sweep_service.sweep.labels import Phases, params_texts
from sweep_service.sweep.records import Event, TrialState

_KEYS = ("entropy", "reward/mean", "eval/avg_at_k")


@dataclass
class WatchedState:
    """A sweep as it was at the last look. Mappings are by trial id, but for that of configs."""

    client: Client
    sweep_id: str
    sweep: SweepView = field(init=False)
    running: list[TrialView] = field(default_factory=list)
    latest: dict[str, dict[str, float | None]] = field(default_factory=dict)
    """Newest value of each metric of the running trials."""
    configs: dict[str, str] = field(default_factory=dict)
    """Parameters of each config in words, by config id."""
    labels: dict[str, str] = field(default_factory=dict)
    """Name of each trial: parameters, seed and stage; of each evaluation: the trial whose model it measures."""
    phases: Phases = field(default_factory=Phases)
    best: Best | None = None
    events: list[Event] = field(default_factory=list)
    """Events since the look before."""
    warned: dict[str, int] = field(default_factory=dict)
    """Number of the first event of each code of warnings; the others are counted at the end."""
    _seen: int = 0

    def look(self) -> None:
        """Fetch what may have changed. If the server goes away meanwhile, the next look has the same events again."""
        client, sweep_id = self.client, self.sweep_id
        self.sweep = client.get(sweep_id)
        self.events = list(client.events(sweep_id, self._seen))
        if self.events:
            self._learn()
        self.running = list(client.trials(sweep_id, [TrialState.RUNNING]))
        self.latest = {trial.id: {} for trial in self.running}
        for curve in client.curves(sweep_id, _KEYS, list(self.latest), 1) if self.running else ():
            self.latest[curve.trial_id][curve.key] = curve.values[-1]
        self._seen = self.events[-1].seq if self.events else self._seen

    def _learn(self) -> None:
        """Update everything that changes only with events."""
        client, sweep_id, types = self.client, self.sweep_id, {event.type for event in self.events}
        trial_ids = {str(event.data["trial_id"]) for event in self.events if "trial_id" in event.data}
        if not trial_ids <= self.labels.keys():
            self.configs = params_texts(list(client.configs(sweep_id)))
            for trial in client.trials(sweep_id):
                params = self.configs.get(trial.config_id) or trial.config_id
                self.labels[trial.id] = f"{params} seed {trial.seed} {trial.stage}"
        if "evaluations.added" in types:
            for evaluation in client.evaluations(sweep_id):
                model = self.labels.get(evaluation.trial_id or "", "initial model")
                self.labels[evaluation.id] = f"{model}, step {evaluation.model_step}" if evaluation.trial_id else model
        for event in self.events:
            self.phases.take(event)
        if types & {"attempt.finished", "sweep.state_changed"}:
            self.best = best_so_far(client, sweep_id)

    def label(self, event: Event) -> str:
        """Return the name of the trial or evaluation that an event is about; its id, if that is all there is."""
        about = str(event.data.get("trial_id", event.data.get("evaluation_id")))
        return self.labels.get(about, about)
