"""Commands that steer a submitted sweep: those of the table of verbs, and those that take options of their own."""

from collections.abc import Callable
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
from sweep_service.cli.extend_command import counted, wait_for_report, works_of
from sweep_service.cli.failures import interruptible
from sweep_service.cli.output import print_json, say
from sweep_service.client import Client
from sweep_service.schemas import SweepView, TrialView
from sweep_service.sweep.records import TrialState
from sweep_service.verbs import VERBS, Command, Verb

_NAMED_TRIALS = 3


def command_of(verb: Verb, words: Command) -> Callable[..., None]:
    """Return the command of a verb that takes a sweep and nothing else."""

    def carry_out(sweep: str, timeout: float | None, *, wait: bool, json: bool) -> None:
        with connect() as client:
            sweep_id = find_sweep_to_change(client, sweep)
            ask: Callable[[str], SweepView] = getattr(client, verb.name)
            view = ask(sweep_id)
            if wait:
                with interruptible(f"no longer waiting; the sweep {words.doing}. Look at it: sweeps show {sweep_id}"):
                    view = client.wait(
                        sweep_id, timeout, until=lambda now: now.state == words.goal or now.state.is_over
                    )
        say(f"{view.name} {sweep_id} {_become(view, words)}")
        if json:
            print_json(view)
        if wait and view.state != words.goal:
            raise typer.Exit(ExitCode.CONFLICT)

    def and_wait(
        sweep: SweepToChange,
        wait: Annotated[bool, typer.Option("--wait", help=f"Wait until the sweep is {words.goal}.")] = False,
        timeout: Timeout = None,
        json: Json = False,
    ) -> None:
        carry_out(sweep, timeout, wait=wait, json=json)

    def at_once(sweep: SweepToChange, json: Json = False) -> None:
        carry_out(sweep, None, wait=False, json=json)

    command = and_wait if words.goal else at_once
    command.__name__ = verb.name
    command.__doc__ = f"{verb.text}\n\n[bold]{words.example}[/bold]"
    return command


def _become(sweep: SweepView, words: Command) -> str:
    """Say what has become of a sweep."""
    if words.goal and sweep.state != words.goal and sweep.state.is_over:
        return f"has ended: {sweep.state}"
    become = f"is {words.goal.lower()}" if words.goal and sweep.state == words.goal else words.doing
    return "; ".join(filter(None, [become, words.then.format(sweep=sweep.id)]))


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
    """Try a sweep's failed trials and evaluations again, and say which ones these are."""
    wait_for_report(client, sweep_id)
    before = {work.id for work in works_of(client, sweep_id) if work.state.is_over}
    view = client.retry_failed(sweep_id)
    again = [work for work in works_of(client, sweep_id) if work.id in before and not work.state.is_over]
    if not again:
        return "nothing has changed: no trial has failed", view
    more = f" and {len(again) - _NAMED_TRIALS} more" if len(again) > _NAMED_TRIALS else ""
    verb = "waits" if len(again) == 1 else "wait"
    return f"{counted(again)} {verb} again: {', '.join(work.id for work in again[:_NAMED_TRIALS])}{more}", view


def __getattr__(name: str) -> Callable[..., None]:
    """Return the command of a verb of the table."""
    if (verb := VERBS.get(name)) and verb.command:
        return command_of(verb, verb.command)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
