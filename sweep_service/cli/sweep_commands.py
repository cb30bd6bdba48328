"""Commands about sweeps: plan, submit, ls, show, compare, watch."""

import sys
import time
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.text import Text

from sweep_service.cli.arguments import Json, Timeout, Which, connect, moment
from sweep_service.cli.exits import ExitCode
from sweep_service.cli.failures import code_of_state, interruptible
from sweep_service.cli.output import (
    counts_text,
    deletion_note,
    labels_text,
    plural,
    print_data,
    print_json,
    print_table,
    say,
    span,
    state_text,
)
from sweep_service.cli.spec_file import SpecFile, SpecFileOption, read_spec
from sweep_service.cli.sweep_print import print_comparison, print_plan, print_sweep
from sweep_service.cli.watch_sweep import DETACHED, watch_sweep
from sweep_service.cli.winner import best_so_far
from sweep_service.client import Client
from sweep_service.schemas import SweepView, TrialView
from sweep_service.sweep.labels import Phases, telling_phase
from sweep_service.sweep.records import SweepState, TrialState


def plan(file: SpecFile = None, option: SpecFileOption = None, json: Json = False) -> None:
    """Check a spec, and show what it would run and cost.

    The server checks it, so start one first (`sweeps serve`).

    [bold]sweeps plan examples/demo.yaml[/bold]
    """
    raw = read_spec(file, option)
    with connect() as client:
        result = client.plan(raw, _reading)
    print_json(result) if json else print_plan(result)
    if result.unchecked:
        raise typer.Exit(ExitCode.NOT_CHECKED)


def _reading(sentence: str) -> None:
    """Tell that the server asks for patience."""
    say(f"{sentence.partition(';')[0]} …")


def submit(
    file: SpecFile = None,
    option: SpecFileOption = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the sweep has ended; the exit code tells how.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Wait as with --wait, and show live progress.")] = False,
    key: Annotated[
        str | None, typer.Option("--key", help="A name for this submission; the same key never submits twice.")
    ] = None,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    """Submit a sweep and print its id.

    [bold]sweeps submit examples/demo.yaml --watch[/bold]
    """
    raw = read_spec(file, option)
    with connect() as client:
        sweep = client.submit(raw, key, _reading)
        for reason in sweep.unchecked:
            say(f"not checked: {reason}")
        for warning in sweep.warnings:
            say(f"warning: {warning}")
        trials = plural(sum(sweep.trials.values()) + sweep.trials_to_come, "trial")
        later = f", {sweep.trials_to_come} of them yet to be chosen" if sweep.trials_to_come else ""
        say(f"submitted {sweep.name}: {trials}{later}. Watch it: sweeps watch {sweep.id}")
        if not json:
            print_data(sweep.id)
            sys.stdout.flush()
        if watch or wait:
            with interruptible(DETACHED.format(sweep=sweep.id)):
                sweep = _watch(client, sweep.id, timeout) if watch else client.wait(sweep.id, timeout)
    if json:
        print_json(sweep)
    if watch or wait:
        raise typer.Exit(code_of_state(sweep.state))


def ls(
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="List only sweeps with this in their name or id.", show_default=False),
    ] = None,
    state: Annotated[
        list[SweepState] | None,
        typer.Option(
            "--state",
            case_sensitive=False,
            metavar="STATE",
            help=f"List only sweeps in this state: {', '.join(SweepState)}. May be repeated.",
        ),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="NAME=TEXT", help="List only sweeps with this label; may be repeated."),
    ] = None,
    created_after: Annotated[
        str | None,
        typer.Option("--created-after", metavar="WHEN", help="List only sweeps submitted then or later."),
    ] = None,
    created_before: Annotated[
        str | None, typer.Option("--created-before", metavar="WHEN", help="List only sweeps submitted before.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="List at most this many, newest first; 500 are the most.")
    ] = 20,
    json: Json = False,
) -> None:
    """List sweeps, newest first: those that meet all conditions.

    WHEN is a date (2026-11-23, or 2026-11-23T16:00), or how long ago: 90m, 12h, 7d, 2w.

    [bold]sweeps ls --state RUNNING --label team=rl[/bold]
    [bold]sweeps ls betas --created-after 7d[/bold]
    """
    after, before = moment(created_after, "--created-after"), moment(created_before, "--created-before")
    if wrong := next((condition for condition in label or () if "=" not in condition), None):
        raise typer.BadParameter(f"{wrong!r} has no text; write it as team=rl", param_hint="--label")
    labels = {name: value for name, _, value in (condition.partition("=") for condition in label or ())}
    if len(labels) < len(set(label or ())):
        raise typer.BadParameter("a sweep has one text of each label; name each once", param_hint="--label")
    with connect() as client:
        page = client.newest_sweeps(
            limit, state or (), labels, text=text or "", created_after=after, created_before=before
        )
    if json:
        print_json(page)
        return
    if not page.items:
        if state or label or text or after or before:
            say("no such sweeps; list all of them: sweeps ls")
            return
        say("no sweeps; submit one: sweeps submit examples/demo.yaml")
        return
    now = time.time()
    print_table(
        ("ID", "NAME", "STATE", "TRIALS", "AGE", "LABELS"),
        [
            (
                sweep.id,
                f"{sweep.name} (probe)" if sweep.only_probes else sweep.name,
                Text.assemble(state_text(sweep.state, sweep.desired_state), deletion_note(sweep.deletion)),
                counts_text(sweep.trials, sweep.trials_to_come),
                span(now - sweep.created_at),
                labels_text(sweep.labels),
            )
            for sweep in page.items
        ],
        right=("AGE",),
        loose=("TRIALS", "LABELS"),
    )
    if page.next_page_token:
        say(f"these are the newest {len(page.items)}; list more with --limit, or filter them")


def show(
    sweep: Which = None,
    trials: Annotated[bool, typer.Option("--trials", help="List every trial, too.")] = False,
    json: Json = False,
) -> None:
    """Show a sweep: its state, configs, objectives and failures.

    [bold]sweeps show demo --trials[/bold]
    """
    with connect() as client:
        sweep_id = client.find_sweep(sweep)
        view, configs = client.get(sweep_id), list(client.configs(sweep_id))
        all_trials, leader = list(client.trials(sweep_id)), best_so_far(client, sweep_id)
        phase = _first_phase(client, sweep_id, all_trials)
    if json:
        print_json({"sweep": view, "best": leader, "configs": configs, "trials": all_trials})
    else:
        page = f"{client.url}/sweeps/{sweep_id}"
        print_sweep(view, leader, configs, all_trials, page, phase=phase, list_trials=trials)


def _first_phase(client: Client, sweep_id: str, trials: Sequence[TrialView]) -> str | None:
    """Return the phase of a sweep's running trials until one of them has made a step; None later."""
    running = [trial.id for trial in trials if trial.state is TrialState.RUNNING]
    if not running or any(trial.step for trial in trials):
        return None
    phases = Phases()
    for event in client.events(sweep_id):
        phases.take(event)
    return telling_phase([phase for id_, phase in reversed(phases.of_trials.items()) if id_ in running])


def compare(
    sweeps: Annotated[
        list[str], typer.Argument(help="Ids or names of two or more sweeps; the first is the reference.")
    ],
    json: Json = False,
) -> None:
    """Compare the configs that several sweeps share, with intervals.

    Two sweeps share a config if every training parameter but the seed is equal. Differences are from the first sweep.

    [bold]sweeps compare demo demo-again[/bold]
    """
    with connect() as client:
        result = client.compare([client.find_sweep(sweep) for sweep in sweeps])
    print_json(result) if json else print_comparison(result)


def watch(sweep: Which = None, timeout: Timeout = None, json: Json = False) -> None:
    """Follow a sweep with live progress until it has ended.

    Ctrl-C ends only the display; the sweep goes on.

    [bold]sweeps watch demo[/bold]
    """
    with connect() as client:
        view = _watch(client, client.find_sweep(sweep), timeout)
    if json:
        print_json(view)
    raise typer.Exit(code_of_state(view.state))


def _watch(client: Client, sweep_id: str, timeout_s: float | None) -> SweepView:
    """Follow a sweep to its end, and say what to do next."""
    last = watch_sweep(client, sweep_id, timeout_s)
    if last.best:
        say(f"  sweeps report {sweep_id}   writes the report")
        say(f"  sweeps best {sweep_id}     prints the best config, ready to run")
    return last.sweep
