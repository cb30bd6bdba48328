"""Commands that steer a sweep which has been submitted: pause, resume, stop, retry, cancel."""

from typing import Annotated

import typer

from sweep_service.cli.arguments import Json, Timeout, connect, find_sweep
from sweep_service.cli.exits import ExitCode
from sweep_service.cli.extend_command import extend
from sweep_service.cli.output import print_json, say
from sweep_service.sweep.records import SweepState


def pause(
    sweep: Annotated[str, typer.Argument(help="The sweep's id, a part of it, or its name.")],
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
        sweep_id = find_sweep(client, sweep)
        view = client.pause(sweep_id)
        if wait:
            view = client.wait(sweep_id, timeout, until=lambda now: not now.state.needs_runner)
    words = "is paused" if view.state is SweepState.PAUSED else "is being paused"
    end = f"{words}; let it go on: sweeps resume {sweep_id}"
    say(f"{view.name} {sweep_id} " + (f"has ended: {view.state}" if view.state.is_over else end))
    if json:
        print_json(view)


def resume(
    sweep: Annotated[str, typer.Argument(help="The sweep's id, a part of it, or its name.")], json: Json = False
) -> None:
    """Let a paused sweep go on from what its trials have saved.

    [bold]sweeps resume demo && sweeps watch demo[/bold]
    """
    with connect() as client:
        sweep_id = find_sweep(client, sweep)
        view = client.resume(sweep_id)
    say(f"{view.name} {sweep_id} goes on; follow it: sweeps watch {sweep_id}")
    if json:
        print_json(view)


def stop(
    trial: Annotated[str, typer.Argument(help="The trial's id.")],
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
        view = client.stop_trial(trial, counts=not discard)
    result = "has no result" if discard else "keeps the result that it has so far"
    say(f"{trial} of {view.name} is stopped and {result}; let it go on: sweeps retry {trial}")
    if json:
        print_json(view)


def retry(
    which: Annotated[str, typer.Argument(help="A sweep's id, a part of it, or its name; or the id of one trial.")],
    json: Json = False,
) -> None:
    """Try failed trials again: all of a sweep, or one, which may also have been stopped by hand.

    They go on from their newest checkpoints, and their crashes so far count no more. Of a sweep that has FAILED, trials
    that never began are tried, too.

    [bold]sweeps retry demo[/bold]
    """
    with connect() as client:
        view = client.retry_trial(which) if which.startswith("trl_") else client.retry_failed(find_sweep(client, which))
    waiting = sum(count for state, count in view.trials.items() if not state.is_over)
    todo = f"{waiting} of its trials wait or run" if waiting else "none of its trials has failed"
    say(f"{view.name} {view.id} is {view.state}: {todo}; follow it: sweeps watch {view.id}")
    if json:
        print_json(view)


def cancel(
    sweep: Annotated[str, typer.Argument(help="The sweep's id, a part of it, or its name.")],
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the sweep has stopped.")] = False,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    """Stop a sweep.

    Running trials end within seconds. What they have recorded stays.

    [bold]sweeps cancel demo --wait[/bold]
    """
    with connect() as client:
        sweep_id = find_sweep(client, sweep)
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
