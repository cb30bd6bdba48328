"""Commands about sweeps: plan, submit, ls, show, report, best, cancel."""

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from sweep_service.cli.connect import connect, find_sweep
from sweep_service.cli.exits import ExitCode, code_of_state
from sweep_service.cli.export_best import Weights, export_best
from sweep_service.cli.output import (
    Json,
    counts_text,
    print_data,
    print_json,
    print_table,
    say,
    span,
    state_text,
)
from sweep_service.cli.spec_file import read_spec
from sweep_service.cli.sweep_print import print_comparison, print_plan, print_sweep
from sweep_service.cli.watch_sweep import watch_sweep
from sweep_service.schemas import MEDIA_TYPES, ReportFormat
from sweep_service.sweep.records import SweepState

SpecFile = Annotated[str, typer.Option("--file", "-f", help="The spec, YAML or JSON; - reads standard input.")]
Which = Annotated[
    str | None, typer.Argument(metavar="[SWEEP]", help="Id, part of it, or name. Default: the newest sweep.")
]
_FRESH_S = 60.0
Timeout = Annotated[float | None, typer.Option("--timeout", min=0, help="Seconds to wait at most; then exit with 9.")]


def plan(file: SpecFile, json: Json = False) -> None:
    """Check a spec; say what it would run and cost.

    The server does that: it must run (`sweeps serve`).

    [bold]sweeps plan -f examples/demo.yaml[/bold]
    """
    raw = read_spec(file)
    with connect() as client:
        result = client.plan(raw)
    print_json(result) if json else print_plan(result)


def submit(
    file: SpecFile,
    wait: Annotated[bool, typer.Option("--wait", help="Stay until it has ended; the exit code tells how.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="As --wait, with live progress.")] = False,
    key: Annotated[
        str | None, typer.Option("--key", help="Name of this submission: given again, nothing is submitted twice.")
    ] = None,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    """Submit a sweep and print its id.

    [bold]sweeps submit -f examples/demo.yaml --watch[/bold]
    """
    raw = read_spec(file)
    with connect() as client:
        sweep = client.submit(raw, key)
        count = sum(sweep.trials.values())
        trials = f"{count} trial{'s' * (count != 1)}"
        say(f"submitted {sweep.name}: {trials} to begin with. Watch it: sweeps watch {sweep.id}")
        if not json:
            print_data(sweep.id)
            sys.stdout.flush()
        if watch or wait:
            sweep = watch_sweep(client, sweep.id, timeout) if watch else client.wait(sweep.id, timeout)
    if json:
        print_json(sweep)
    if watch or wait:
        raise typer.Exit(code_of_state(sweep.state))


def ls(
    state: Annotated[
        list[SweepState] | None, typer.Option("--state", case_sensitive=False, help="Only these; may be repeated.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many, newest first.")] = 20,
    json: Json = False,
) -> None:
    """List sweeps, newest first.

    [bold]sweeps ls --state RUNNING[/bold]
    """
    with connect() as client:
        rows = [sweep for sweep, _ in zip(client.sweeps(state or ()), range(limit), strict=False)]
    if json:
        print_json(rows)
        return
    if not rows:
        say("no sweeps; submit one: sweeps submit -f examples/demo.yaml")
        return
    now = time.time()
    print_table(
        ("ID", "NAME", "STATE", "TRIALS", "AGE"),
        [
            (sweep.id, sweep.name, state_text(sweep.state), counts_text(sweep.trials), span(now - sweep.created_at))
            for sweep in rows
        ],
        right=("AGE",),
    )


def show(
    sweep: Which = None,
    trials: Annotated[bool, typer.Option("--trials", help="List every trial too.")] = False,
    json: Json = False,
) -> None:
    """Show a sweep: state, configs, objectives, failures.

    [bold]sweeps show demo --trials[/bold]
    """
    with connect() as client:
        sweep_id = find_sweep(client, sweep)
        view, configs = client.get(sweep_id), list(client.configs(sweep_id))
        all_trials = list(client.trials(sweep_id))
    if json:
        print_json({"sweep": view, "configs": configs, "trials": all_trials})
    else:
        print_sweep(view, configs, all_trials, f"{client.url}/sweeps/{sweep_id}", list_trials=trials)


def compare(
    sweeps: Annotated[
        list[str], typer.Argument(help="Ids or names of two or more sweeps; the first is the reference.")
    ],
    json: Json = False,
) -> None:
    """Compare sweeps: configs that are in both, with intervals.

    A config is the same in two sweeps if every training parameter but the seed is. Differences are from the first.

    [bold]sweeps compare demo demo-again[/bold]
    """
    with connect() as client:
        found = client.compare([find_sweep(client, sweep) for sweep in sweeps])
    if json:
        print_json(found)
    else:
        print_comparison(found)


def watch(sweep: Which = None, timeout: Timeout = None, json: Json = False) -> None:
    """Follow a sweep with live progress until it has ended.

    Ctrl-C detaches, and the sweep goes on.

    [bold]sweeps watch demo[/bold]
    """
    with connect() as client:
        view = watch_sweep(client, find_sweep(client, sweep), timeout)
    if json:
        print_json(view)
    raise typer.Exit(code_of_state(view.state))


def report(
    sweep: Which = None,
    format: Annotated[
        ReportFormat, typer.Option("--format", help="png and svg: a picture of the main findings.")
    ] = "html",
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="File; - is standard output. Default: a file for html, png, svg, else -."),
    ] = None,
    final: Annotated[bool, typer.Option("--final", help="Take no interim report; wait for the final one.")] = False,
    timeout: Annotated[float, typer.Option("--timeout", min=0, help="Seconds to wait for it if it is not built.")] = 30,
) -> None:
    """Write the report and print the file's path.

    The HTML is one file that opens offline. Of a running sweep this is an interim report.

    [bold]sweeps report demo[/bold]
    [bold]sweeps report demo --format md | less[/bold]
    """
    with connect() as client:
        sweep_id = find_sweep(client, sweep)
        if final:
            content = client.report(sweep_id, format, timeout_s=timeout)
        else:
            content, interim, age_s = client.report_so_far(sweep_id, format, timeout, fresh_s=_FRESH_S)
            if interim:
                say(f"interim report, {span(age_s)} old: the sweep goes on, and every number may still change")
        name = client.get(sweep_id).name
    if output is None:
        is_text = not MEDIA_TYPES[format].startswith(("text/html", "image/"))  # fit for a terminal
        output = "-" if is_text else f"{name}-{sweep_id[-6:]}.{format}"
    if output == "-":
        sys.stdout.buffer.write(content)
        return
    path = Path(output).expanduser().absolute()
    path.write_bytes(content)
    print_data(str(path))


def best(
    sweep: Which = None,
    export: Annotated[
        Path | None, typer.Option("--export", metavar="DIR", help="Write its policy as a Hugging Face model folder.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="With --export: this trial. Default: the one with the median objective."),
    ] = None,
    dtype: Annotated[Weights, typer.Option("--dtype", help="With --export: type of the weights.")] = "float32",
    adapter: Annotated[
        bool, typer.Option("--adapter", help="With --export: LoRA adapters alone, not merged into their base.")
    ] = False,
    json: Json = False,
) -> None:
    """Print the best config as YAML, ready to run; or export its policy.

    [bold]sweeps best demo > best.yaml && python -m trainers best.yaml --output run[/bold]
    [bold]sweeps best demo --export model[/bold]
    """
    if export is None and (seed is not None or adapter or dtype != "float32"):
        raise typer.BadParameter("--seed, --dtype and --adapter say what --export writes; name its folder")
    with connect() as client:
        sweep_id = find_sweep(client, sweep)
        if export is not None:
            path = export_best(client, sweep_id, export, seed=seed, weights=dtype, adapter=adapter)
            print_json({"folder": str(path)}) if json else print_data(str(path))
        elif json:
            print_json(client.best(sweep_id))
        else:
            print_data(client.best_yaml(sweep_id))


def cancel(
    sweep: Annotated[str, typer.Argument(help="Id, part of it, or name.")],
    wait: Annotated[bool, typer.Option("--wait", help="Stay until it has stopped.")] = False,
    timeout: Timeout = None,
    json: Json = False,
) -> None:
    """Stop a sweep.

    Its running trials end within seconds. What they recorded stays.

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
