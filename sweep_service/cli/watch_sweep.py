"""Following a sweep until it has ended."""

import sys
import time

import typer

from sweep_service.cli.exits import ExitCode
from sweep_service.cli.live_display import Display, LineDisplay, LiveDisplay, best_line
from sweep_service.cli.output import counts_text, say, span, stderr
from sweep_service.cli.watched_state import WatchedState, Watcher
from sweep_service.client import Client, TooLate, Unreachable
from sweep_service.schemas import SweepView

_EVERY_S = 0.7
_AWAY_S = 120.0
"""A server that restarts is waited for so long."""


def watch_sweep(client: Client, sweep_id: str, timeout_s: float | None = None) -> SweepView:
    """Show a sweep on standard error until it has ended.

    Raises: typer.Exit(130), on Ctrl-C; TooLate; Unreachable, if the server stays away.
    """
    display = LiveDisplay() if sys.stderr.isatty() else LineDisplay()
    try:
        with display:
            look = _follow(Watcher(client, sweep_id), display, timeout_s)
    except KeyboardInterrupt:
        say(f"\ndetached; the sweep goes on. Follow it again: sweeps watch {sweep_id}")
        say(f"Stop it: sweeps cancel {sweep_id}")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    sweep = look.sweep
    took = span((sweep.ended_at or time.time()) - sweep.created_at)
    say(f"{sweep.name} {sweep.state} after {took}: {counts_text(sweep.trials)}")
    if look.best:
        stderr().print(best_line(look.best, sweep))
        say(f"  sweeps report {sweep_id}   writes the report")
        say(f"  sweeps best {sweep_id}     prints the winner, ready to run")
    return sweep


def _follow(watcher: Watcher, display: Display, timeout_s: float | None) -> WatchedState:
    begin = heard = time.monotonic()
    while True:
        try:
            look = watcher.look()
        except Unreachable as error:
            away = time.monotonic() - heard
            if away > _AWAY_S:
                raise
            display.remark(f"no server answers since {span(away)}; trying again ({error.__cause__})")
        else:
            heard = time.monotonic()
            display.show(look)
            if look.sweep.state.is_over and not look.events:
                return look
        if timeout_s is not None and time.monotonic() - begin > timeout_s:
            raise TooLate(f"the sweep has not ended within {timeout_s:g} s; it goes on")
        time.sleep(_EVERY_S)
