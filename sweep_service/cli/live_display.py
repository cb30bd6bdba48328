"""Shows a sweep that runs: a live display on a terminal, plain lines elsewhere."""

import time
from contextlib import AbstractContextManager

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sweep_service.cli.output import counts_text, number, plural, stderr, sweep_line
from sweep_service.cli.watched_state import WatchedState
from sweep_service.cli.winner import winner_lines
from sweep_service.sweep.labels import explained
from sweep_service.sweep.records import AttemptOutcome, Event, SweepState

_BAR = 24
_PROGRESS_EVERY_S = 10.0


class LiveDisplay(AbstractContextManager["LiveDisplay"]):
    """Bars of running trials, counts, the best config so far, the last failures and warnings; redrawn in place."""

    def __init__(self) -> None:
        self._live = Live(console=stderr(), auto_refresh=False, transient=False)
        self._failures: list[str] = []
        self._last: WatchedState | None = None

    def __enter__(self) -> "LiveDisplay":
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, state: WatchedState) -> None:
        """Show the sweep as it is now."""
        self._last = state
        self._failures += [text for event in state.events if (text := _failure(event, state))]
        self._draw()

    def remark(self, text: str) -> None:
        """Show a remark about an obstacle to watching."""
        self._draw(text)

    def _draw(self, remark: str = "") -> None:
        parts: list[Text | Table] = []
        if self._last:
            sweep = self._last.sweep
            parts += [sweep_line(sweep, f"  {sweep.message}" if sweep.message else ""), self._rows(self._last)]
        if self._last and self._last.best and not self._last.sweep.state.is_over:  # the end is told below
            parts += winner_lines(self._last.best, self._last.sweep, self._last.configs, self._live.console)
        parts += [Text(f"  ! {text}", "yellow", no_wrap=True, overflow="ellipsis") for text in self._failures[-3:]]
        if remark:
            parts.append(Text(f"  {remark}", "yellow"))
        self._live.update(Group(*parts), refresh=True)

    def _rows(self, state: WatchedState) -> Table:
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=None)
        room = max(1, self._live.console.size.height - 9)
        counts, to_come = state.sweep.trials, state.sweep.trials_to_come
        done = sum(count for trial_state, count in counts.items() if trial_state.is_over)
        table.add_row(
            Text("  all trials"),
            ProgressBar(sum(counts.values()) + to_come, done, _BAR),
            Text(counts_text(counts, to_come)),
        )
        if (probe := state.phases.of_probe) and not state.sweep.state.is_over:
            table.add_row(Text("  probe of the cost"), ProgressBar(1, 0, _BAR), Text(probe, "bright_black"))
        for trial in state.running[:room]:
            values = state.latest.get(trial.id, {})
            label = Text("  " + state.labels.get(trial.id, trial.id), no_wrap=True, overflow="ellipsis")
            if trial.step == 0:
                phase = Text(state.phases.of_trials.get(trial.id, "starting"), "bright_black")
                table.add_row(label, ProgressBar(1, 0, _BAR), phase)
                continue
            figures = (("entropy", "entropy"), ("reward/mean", "reward"), ("eval/avg_at_k", "avg@k"))
            line = f"{trial.step:>{len(str(trial.total_steps))}}/{trial.total_steps}"
            line += "".join(f"  {name} {number(values[key])}" for key, name in figures if values.get(key) is not None)
            table.add_row(label, ProgressBar(trial.total_steps, trial.step, _BAR), Text(line))
        if len(state.running) > room:
            table.add_row(Text(f"  … {len(state.running) - room} more", "bright_black"))
        return table


class LineDisplay(AbstractContextManager["LineDisplay"]):
    """A line with the time for everything that happens; for logs and pipes."""

    def __init__(self) -> None:
        self._console = stderr()
        self._printed_at: dict[str, float] = {}

    def __exit__(self, *_: object) -> None: ...

    def show(self, state: WatchedState) -> None:
        """Print a line for each new event, and the progress of running trials now and then."""
        for event in state.events:
            if text := _line(event, state):
                self._print(event.time, text)
        now = time.time()
        for trial in state.running:
            if now - self._printed_at.setdefault(trial.id, now) >= _PROGRESS_EVERY_S:
                self._printed_at[trial.id] = now
                phase = explained(state.phases.of_trials.get(trial.id, "starting"))
                doing = f"step {trial.step}/{trial.total_steps}" if trial.step else phase
                self._print(now, f"{state.labels.get(trial.id, trial.id)}: {doing}")

    def remark(self, text: str) -> None:
        """Print a remark about an obstacle to watching."""
        self._print(time.time(), text)

    def _print(self, when: float, text: str) -> None:
        self._console.print(Text(f"{time.strftime('%H:%M:%S', time.localtime(when))}  {text}"))


def _failure(event: Event, state: WatchedState) -> str | None:
    """Return the failure or warning in an event; None if there is none."""
    data, label = event.data, state.label(event)
    ends_attempt = event.type in ("attempt.finished", "evaluation.attempt_finished")
    if ends_attempt and data["outcome"] not in (
        AttemptOutcome.SUCCEEDED,
        AttemptOutcome.PAUSED,
        AttemptOutcome.CANCELLED,
        AttemptOutcome.STOPPED,
    ):
        message = f": {str(data['message']).splitlines()[0]}" if data.get("message") else ""
        return f"{label}: attempt {data['attempt']} {data['outcome']}{message}"
    if event.type == "trial.warned" and state.warned.setdefault(data["code"], event.seq) == event.seq:
        return f"{label}: {data['code']}: {data['message']}"
    return None


def _line(event: Event, state: WatchedState) -> str | None:
    """Return the line that tells people of an event; None if there is nothing to tell."""
    data, label = event.data, state.label(event)
    match event.type:
        case "sweep.state_changed":
            paused = "let it go on with: sweeps resume" if data["state"] == SweepState.PAUSED else ""
            return f"{data['state']}" + (f": {text}" if (text := data.get("message") or paused) else "")
        case "sweep.delayed":
            return data["message"] or "goes on"
        case "trial.stop_requested":
            return f"{label}: stop was requested" + ("" if data["counts"] else "; its result is discarded")
        case verb if verb.endswith("_requested"):
            return f"{verb.removeprefix('sweep.').removesuffix('_requested')} was requested"
        case "trials.added":
            return f"{plural(data['trials'], 'trial')} added ({', '.join(data['stages'])})"
        case "probe.started":
            return "probe: a few updates at full length, before the first trial"
        case "probe.progress":
            return f"probe: {data['phase']}"
        case "probe.finished":
            return f"probe: {data['state']}" + (f": {data['message']}" if data.get("message") else "")
        case "probe.reused":
            return f"probe: the one of {data['sweep_id']} serves this sweep, too"
        case "sweep.benchmarks_added":
            return f"{', '.join(data['names'])} added, for the models of {plural(data['trials'], 'trial')}"
        case "evaluations.added":
            return f"{plural(data['evaluations'], 'model')} to be measured on benchmarks"
        case "evaluation.measured":
            return f"{label}: {data['benchmark']} avg@k {number(data['avg_at_k'])}"
        case "trial.started":
            return f"{label}: started, attempt {data['attempt']}"
        case "trial.evaluated":
            value, error = (data["metrics"].get(key) for key in ("eval/avg_at_k", "eval/avg_at_k_se"))
            spread = "" if error is None else f" ± {number(error)} (sampling)"
            return f"{label}: step {data['step']}  avg@k {number(value)}{spread}"
        case "attempt.finished":
            return _failure(event, state) or f"{label}: {data['outcome']}"
        case _:
            return _failure(event, state)
