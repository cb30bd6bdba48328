"""Two ways to show a sweep that runs: a live display on a terminal, plain lines elsewhere."""

import time
from typing import Protocol, Self

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sweep_service.cli.output import counts_text, number, span, state_text, stderr
from sweep_service.cli.watched_state import WatchedState
from sweep_service.schemas import Best, SweepView
from sweep_service.sweep.labels import params_text
from sweep_service.sweep.records import AttemptOutcome, Event

_BAR = 24
_PROGRESS_EVERY_S = 10.0


class Display(Protocol):
    """Where looks are shown."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...

    def show(self, look: WatchedState) -> None:
        """Show the sweep as it is now."""
        ...

    def remark(self, text: str) -> None:
        """Show that something is in the way."""
        ...


class LiveDisplay:
    """A bar per running trial, counts, the best so far, the last mishaps; redrawn in place."""

    def __init__(self) -> None:
        self._live = Live(console=stderr(), auto_refresh=False, transient=False)
        self._mishaps: list[str] = []
        self._last: WatchedState | None = None

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, look: WatchedState) -> None:
        """As Display."""
        self._last = look
        self._mishaps += [text for event in look.events if (text := _mishap(event, look.labels))]
        self._draw()

    def remark(self, text: str) -> None:
        """As Display."""
        self._draw(text)

    def _draw(self, remark: str = "") -> None:
        parts: list[Text | Table] = [] if self._last is None else [_head(self._last.sweep), self._rows(self._last)]
        if self._last and self._last.best:
            parts.append(best_line(self._last.best, self._last.sweep))
        parts += [Text(f"  ! {text}", "yellow", no_wrap=True, overflow="ellipsis") for text in self._mishaps[-3:]]
        if remark:
            parts.append(Text(f"  {remark}", "yellow"))
        self._live.update(Group(*parts), refresh=True)

    def _rows(self, look: WatchedState) -> Table:
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=None)
        room = max(1, self._live.console.size.height - 8)
        counts = look.sweep.trials
        done = sum(count for state, count in counts.items() if state.is_over)
        total = sum(counts.values())
        table.add_row(Text("  all trials"), ProgressBar(total, done, _BAR), Text(counts_text(counts)))
        if look.probe and not look.sweep.state.is_over:
            table.add_row(Text("  probe of the cost"), ProgressBar(1, 0, _BAR), Text(look.probe, "bright_black"))
        for trial in look.running[:room]:
            values = look.latest.get(trial.id, {})
            label = Text("  " + look.labels.get(trial.id, trial.id), no_wrap=True, overflow="ellipsis")
            if trial.step == 0:
                phase = Text(look.phases.get(trial.id, "starting"), "bright_black")
                table.add_row(label, ProgressBar(1, 0, _BAR), phase)
                continue
            figures = (("entropy", "entropy"), ("reward/mean", "reward"), ("eval/avg_at_k", "avg@k"))
            line = f"{trial.step:>{len(str(trial.total_steps))}}/{trial.total_steps}"
            line += "".join(f"  {name} {number(values[key])}" for key, name in figures if values.get(key) is not None)
            table.add_row(label, ProgressBar(trial.total_steps, trial.step, _BAR), Text(line))
        if len(look.running) > room:
            table.add_row(Text(f"  … {len(look.running) - room} more", "bright_black"))
        return table


class LineDisplay:
    """A line for everything that happens, with the time; for logs and pipes."""

    def __init__(self) -> None:
        self._console = stderr()
        self._told: dict[str, float] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def show(self, look: WatchedState) -> None:
        """As Display."""
        for event in look.events:
            if text := _line(event, look.labels):
                self._print(event.time, text)
        now = time.time()
        for trial in look.running:
            if now - self._told.setdefault(trial.id, now) >= _PROGRESS_EVERY_S:
                self._told[trial.id] = now
                phase = look.phases.get(trial.id, "starting")
                doing = f"step {trial.step}/{trial.total_steps}" if trial.step else phase
                self._print(now, f"{look.labels.get(trial.id, trial.id)}: {doing}")

    def remark(self, text: str) -> None:
        """As Display."""
        self._print(time.time(), text)

    def _print(self, when: float, text: str) -> None:
        self._console.print(Text(f"{time.strftime('%H:%M:%S', time.localtime(when))}  {text}"))


def best_line(best: Best, sweep: SweepView) -> Text:
    """Say which config leads, and by which results."""
    words = "  best: " if sweep.state.is_over else "  best so far: "
    params = params_text(best.params) or best.config_id
    value = f"{best.metric} {best.objective:.3f}, mean over {best.stage} seeds"
    return Text.assemble(words, (params, "bold"), "  ", value)


def _head(sweep: SweepView) -> Text:
    took = span((sweep.ended_at or time.time()) - (sweep.started_at or sweep.created_at))
    note = f"  {sweep.message}" if sweep.message else ""
    return Text.assemble((sweep.name, "bold"), f"  {sweep.id}  ", state_text(sweep.state), f"  {took}{note}")


def _mishap(event: Event, labels: dict[str, str]) -> str | None:
    """Say what went wrong, if the event tells of such a thing."""
    data = event.data
    if event.type == "attempt.finished" and data["outcome"] not in (AttemptOutcome.SUCCEEDED, AttemptOutcome.CANCELLED):
        message = f": {str(data['message']).splitlines()[0]}" if data.get("message") else ""
        return f"{labels.get(data['trial_id'], data['trial_id'])}: attempt {data['attempt']} {data['outcome']}{message}"
    if event.type == "trial.warned":
        return f"{labels.get(data['trial_id'], data['trial_id'])}: {data['code']}: {data['message']}"
    return None


def _line(event: Event, labels: dict[str, str]) -> str | None:
    """Say what an event tells, if people want to read it."""
    data = event.data
    label = labels.get(str(data.get("trial_id")), str(data.get("trial_id")))
    match event.type:
        case "sweep.state_changed":
            return f"{data['state']}" + (f": {data['message']}" if data.get("message") else "")
        case "sweep.cancel_requested":
            return "cancellation was asked for"
        case "trials.added":
            return f"{data['trials']} trial{'s' * (data['trials'] != 1)} added ({', '.join(data['stages'])})"
        case "probe.started":
            return "probe: a few updates at full length, before the first trial"
        case "probe.progress":
            return f"probe: {data['phase']}"
        case "probe.finished":
            return f"probe: {data['state']}" + (f": {data['message']}" if data.get("message") else "")
        case "probe.reused":
            return f"probe: that of {data['sweep_id']} serves this sweep, too"
        case "trial.started":
            return f"{label}: started, attempt {data['attempt']}"
        case "trial.evaluated":
            value, error = (data["metrics"].get(key) for key in ("eval/avg_at_k", "eval/avg_at_k_se"))
            spread = "" if error is None else f" ± {number(error)} (sampling)"
            return f"{label}: step {data['step']}  avg@k {number(value)}{spread}"
        case "trial.warned":
            return _mishap(event, labels)
        case "attempt.finished":
            return _mishap(event, labels) or f"{label}: {data['outcome']}"
        case _:
            return None
