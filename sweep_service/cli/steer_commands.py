"""Commands that steer a sweep which has been submitted: pause, resume, stop, retry, cancel."""

from typing import Annotated

import typer

from sweep_service.cli.arguments import (
    Json,
    SweepToChange,
    Timeout,
    connect,
    find_sweep_to_change,
    find_trial,
    find_trial_or_sweep_to_change,
)
from sweep_service.cli.exits import ExitCode
from sweep_service.cli.extend_command import extend, wait_for_report
from sweep_service.cli.output import plural, print_json, say
from sweep_service.client import Client
from sweep_service.schemas import SweepView, TrialView
from sweep_service.sweep.records import SweepState, TrialState

_NAMED_TRIALS = 3


def pause(
    sweep: SweepToChange,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until its trials have saved and ended.")] = False,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    """Stop a sweep until it is resumed.

    Running trials save after the optimizer step under way, or the state before the completions that they sample, and
    end: their CPUs, GPUs and memory are free. Nothing is lost, and on a CPU the curves will be the same to the last
    bit. A trainer that has not saved within ten minutes is killed; its trial goes on from its newest checkpoint.

    [bold]sweeps pause demo --wait[/bold]
    """
    with connect() as client:
        sweep_id = find_sweep_to_change(client, sweep)
        view = client.pause(sweep_id)
        if wait:
            view = client.wait(sweep_id, timeout, until=lambda now: not now.state.needs_runner)
    words = "is paused" if view.state is SweepState.PAUSED else "is being paused"
    end = f"{words}; let it go on: sweeps resume {sweep_id}"
    say(f"{view.name} {sweep_id} " + (f"has ended: {view.state}" if view.state.is_over else end))
    if json:
        print_json(view)


def resume(sweep: SweepToChange, json: Json = False) -> None:
    """Let a paused sweep go on from what its trials have saved.

    [bold]sweeps resume demo && sweeps watch demo[/bold]
    """
    with connect() as client:
        sweep_id = find_sweep_to_change(client, sweep)
        view = client.resume(sweep_id)
    say(f"{view.name} {sweep_id} goes on; follow it: sweeps watch {sweep_id}")
    if json:
        print_json(view)


def stop(
    trial: Annotated[
        str, typer.Argument(help="The trial's id, or the last letters of it, as `sweeps show --trials` prints them.")
    ],
    discard: Annotated[bool, typer.Option("--discard", help="It has no result, like a trial that failed.")] = False,
    json: Json = False,
) -> None:
    """Stop one trial while its sweep goes on.

    A running trial saves after the optimizer step under way and ends within ten minutes; the next trial gets its place.
    One that waits ends at once. Without --discard the evaluations that it has recorded count as its result. The report
    says how many trials were stopped by hand, because that biases it.

    [bold]sweeps stop trl_01k… --discard[/bold]
    """
    with connect() as client:
        trial_id = find_trial(client, trial)
        view = client.stop_trial(trial_id, counts=not discard)
        now = client.trial(trial_id)
        if now.state.is_over:
            become = f"is {now.state} and {_result(now, view)}"
        else:
            counts = "and has no result" if discard else f"and {_what_counts(client, now, view)}"
            become = f"is being stopped: it saves first, within ten minutes; then it ends {counts}"
    say(f"{trial_id} of {view.name} {become}; let it go on: sweeps retry {trial_id}")
    if json:
        print_json(view)


def _result(trial: TrialView, sweep: SweepView) -> str:
    """Say what the result of a trial is that has been stopped."""
    if trial.state is TrialState.DISCARDED:
        return "has no result"
    if trial.objective is None:
        return "has no result, for it has recorded no evaluation"
    return f"its result is {sweep.spec.objective.metric} {trial.objective:.3f}"


def _what_counts(client: Client, trial: TrialView, sweep: SweepView) -> str:
    """Say what will be the result of a running trial that is being stopped."""
    curves = client.curves(sweep.id, [sweep.spec.objective.metric], [trial.id])
    evaluations = sum(value is not None for curve in curves for value in curve.values)
    return f"the evaluations that it has recorded count ({evaluations or 'none'} so far, at step {trial.step})"


def retry(
    which: Annotated[
        str,
        typer.Argument(
            metavar="SWEEP|TRIAL",
            help="A sweep's id, a part of it, or its name, unless several of that name have not ended; or the id of "
            "one trial, or the last letters of it.",
        ),
    ],
    json: Json = False,
) -> None:
    """Try failed trials again: all of a sweep, or one, which may also have been stopped by hand.

    They go on from their newest checkpoints, and their crashes so far count no more. Of a sweep that has FAILED, trials
    that never began are tried, too.

    [bold]sweeps retry demo[/bold]
    """
    with connect() as client:
        trial_id, sweep_id = find_trial_or_sweep_to_change(client, which)
        done, view = _retry_trial(client, trial_id) if trial_id else _retry_failed(client, sweep_id)
    shown = view.desired_state.shown(view.state)
    say(f"{done}; {view.name} {view.id} is {shown}" + f"; follow it: sweeps watch {view.id}" * (not view.state.is_over))
    if json:
        print_json(view)


def _retry_trial(client: Client, trial_id: str) -> tuple[str, SweepView]:
    """Try one trial again, and say what that has changed."""
    before = client.trial(trial_id)
    wait_for_report(client, before.sweep_id)
    view = client.retry_trial(trial_id)
    if not before.state.is_over:
        return f"nothing has changed: {trial_id} is {before.state}, and has not ended", view
    begin = f"its checkpoint of step {before.checkpoint.step}" if before.checkpoint else "its beginning"
    return f"{trial_id}, which was {before.state}, waits again, and goes on from {begin}", view


def _retry_failed(client: Client, sweep_id: str) -> tuple[str, SweepView]:
    """Try a sweep's failed trials again, and say which ones these are."""
    wait_for_report(client, sweep_id)
    before = {trial.id for trial in client.trials(sweep_id, [state for state in TrialState if state.is_over])}
    view = client.retry_failed(sweep_id)
    open_states = [state for state in TrialState if not state.is_over]
    again = [trial.id for trial in client.trials(sweep_id, open_states) if trial.id in before]
    if not again:
        return "nothing has changed: no trial has failed", view
    more = f" and {len(again) - _NAMED_TRIALS} more" if len(again) > _NAMED_TRIALS else ""
    verb = "waits" if len(again) == 1 else "wait"
    return f"{plural(len(again), 'trial')} {verb} again: {', '.join(again[:_NAMED_TRIALS])}{more}", view


def cancel(
    sweep: SweepToChange,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the sweep has stopped.")] = False,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    """Stop a sweep.

    Running trials end within seconds. What they have recorded stays.

    [bold]sweeps cancel demo --wait[/bold]
    """
    with connect() as client:
        sweep_id = find_sweep_to_change(client, sweep)
        view = client.cancel(sweep_id)
        if wait:
            view = client.wait(sweep_id, timeout)
    say(f"{view.name} {sweep_id} " + ("is cancelled" if view.state is SweepState.CANCELLED else "is being cancelled"))
    if json:
        print_json(view)
    if wait and view.state is not SweepState.CANCELLED:
        raise typer.Exit(ExitCode.CONFLICT)


OF_RUNNING_SWEEPS = (pause, resume, stop, extend, retry, cancel)
"""The commands that steer a sweep, in the order of the help."""
