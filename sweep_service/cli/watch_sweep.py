"""Follows a sweep until it has ended, and shows it on standard error."""

import sys
import time

from sweep_service.cli.failures import interruptible
from sweep_service.cli.live_display import LineDisplay, LiveDisplay
from sweep_service.cli.output import counts_text, say, span, stderr
from sweep_service.cli.sweep_print import print_warnings
from sweep_service.cli.watched_state import WatchedState
from sweep_service.cli.winner import winner_lines
from sweep_service.client import Client, TooLate, Unreachable

_EVERY_S = 0.7
_AWAY_S = 120.0
"""Seconds to wait for a server that restarts."""
DETACHED = "detached; the sweep goes on. Follow it again: sweeps watch {sweep}\nStop it: sweeps cancel {sweep}"
"""Words for a wait that Ctrl-C has ended."""


def watch_sweep(client: Client, sweep_id: str, timeout_s: float | None = None) -> WatchedState:
    """Show a sweep on standard error until it has ended, then the config that leads and the verdict.

    Raises: typer.Exit(130), on Ctrl-C; TooLate; Unreachable, if the server stays away.
    """
    display = LiveDisplay() if sys.stderr.isatty() else LineDisplay()
    last = WatchedState(client, sweep_id)
    with interruptible(DETACHED.format(sweep=sweep_id)), display:
        _follow(last, display, timeout_s)
    sweep = last.sweep
    took = span((sweep.ended_at or time.time()) - sweep.created_at)
    say(f"{sweep.name} {sweep.state} after {took}: {counts_text(sweep.trials, sweep.trials_to_come)}")
    console = stderr()
    for line in winner_lines(last.best, sweep, last.configs, console):
        console.print(line)
    print_warnings(list(client.trials(sweep_id)), console, 9)
    return last


def _follow(state: WatchedState, display: LiveDisplay | LineDisplay, timeout_s: float | None) -> None:
    begin = answered = time.monotonic()
    while True:
        try:
            state.look()
        except Unreachable as error:
            away = time.monotonic() - answered
            if away > _AWAY_S:
                raise
            display.remark(f"the server has not answered for {span(away)}; trying again ({error.__cause__})")
        else:
            answered = time.monotonic()
            display.show(state)
            if state.sweep.state.is_over and not state.events:
                return
        if timeout_s is not None and time.monotonic() - begin > timeout_s:
            raise TooLate(f"the sweep has not ended within {timeout_s:g} s; it goes on")
        time.sleep(_EVERY_S)
