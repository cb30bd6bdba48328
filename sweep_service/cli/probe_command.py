"""The command `probe`, which measures what a sweep will cost."""

from collections.abc import Mapping
from typing import Any, cast

import typer
from rich.text import Text

from sweep_service.cli.arguments import Json, Timeout, connect
from sweep_service.cli.exits import ExitCode
from sweep_service.cli.failures import interruptible
from sweep_service.cli.output import print_error, print_facts, print_json, print_table, say, span, stderr, stdout
from sweep_service.cli.spec_file import SpecFile, SpecFileOption, read_spec
from sweep_service.client import Client
from sweep_service.errors import NotReady, ServiceError
from sweep_service.schemas import ProbeView, SweepView
from sweep_service.sweep.cost import SweepCost
from sweep_service.sweep.plan import SweepPlan
from sweep_service.sweep.records import Event

_MEASURED_AS = {
    "start": "loading",
    "sampling": "sampling",
    "scoring": "scoring",
    "updates": "update",
    "evaluations": "evaluation",
    "checkpoints": "checkpoint",
}
"""Phase of the probe that measured the memory of each part of a trial."""


def probe(file: SpecFile = None, option: SpecFileOption = None, timeout: Timeout = None, json: Json = False) -> None:
    """Measure what a sweep will cost, and whether it fits into memory, without running its trials.

    The probe makes three updates with prompts and completions as long as they may be. From then on `sweeps plan`
    estimates from what was measured.

    [bold]sweeps probe examples/demo.yaml[/bold]
    """
    raw = read_spec(file, option)
    with connect() as client:
        probed = {**cast("Mapping[str, Any]", raw), "probe": "only"} if isinstance(raw, Mapping) else raw
        sweep = client.submit(probed)
        say(f"probing {sweep.name} ({sweep.id}): a few updates at full length; its trials do not run")
        sweep = _wait(client, sweep, timeout)
        try:
            view = client.probe(sweep.id)
        except NotReady:
            view = None
        plan = client.plan(raw)
    if json:
        print_json({"sweep": sweep, "probe": view, "plan": plan})
    elif view is not None and view.cost is not None:
        print_cost(view.cost, plan)
    if view is None or view.cost is None:
        _print_failure(sweep, view)
        raise typer.Exit(ExitCode.ERROR)


def _wait(client: Client, sweep: SweepView, timeout_s: float | None) -> SweepView:
    """Wait for the end of the probe, and show its phases."""
    with stderr().status("waiting for a worker") as status:

        def show(event: Event) -> None:
            if event.type == "probe.started":
                status.update("waiting for its resources")
            elif event.type == "probe.progress":
                status.update(str(event.data["phase"]))
            elif event.type == "probe.finished":
                status.update("ending")

        with interruptible(f"detached; the probe goes on. Stop it: sweeps cancel {sweep.id}"):
            return client.wait(sweep.id, timeout_s, on_event=show)


def _print_failure(sweep: SweepView, view: ProbeView | None) -> None:
    message = (view.message if view is not None else None) or sweep.message or f"the sweep is {sweep.state}"
    if not message.startswith("out of memory"):
        print_error(ServiceError(message))
        return
    where, _, rest = message.partition("; what helps: ")
    console = stderr()
    console.print(Text.assemble(("OUT OF MEMORY", "bold red"), where.removeprefix("out of memory"), "; what helps:"))
    for remedy in rest.split("; "):
        console.print(Text(f"  - {remedy}"))


def print_cost(cost: SweepCost, plan: SweepPlan) -> None:
    """Print the measurements, and the cost of a trial and of the sweep that follows from them."""
    console, figures = stdout(), cost.figures
    rates = {"sampling": figures.sampled_tokens_per_second, "updates": figures.trained_tokens_per_second}
    console.print(Text.assemble((plan.name, "bold"), f"  {cost.basis}"))
    print_table(
        ("PHASE", "A TRIAL", "SHARE", "TOKENS/S", "PEAK MEMORY"),
        [
            (
                part.phase,
                f"{part.seconds:.2g} s" if part.seconds < 10 else span(part.seconds),
                f"{part.share:.0%}",
                f"{rates[part.phase]:,.0f}" if part.phase in rates else "",
                gib(figures.peak_mib[_MEASURED_AS[part.phase]]),
            )
            for part in cost.phases
        ],
        right=("A TRIAL", "SHARE", "TOKENS/S", "PEAK MEMORY"),
    )
    wall = f", {span(cost.wall_hours * 3600)} at max_parallel trials at a time" if cost.wall_hours else ""
    facts = {
        "memory": memory_text(cost),
        "trial": f"up to {span(cost.trial_hours * 3600)}",
        "sweep": f"up to {cost.hours:.3g} {plan.hours_unit} for {sum(plan.trials.values())} trials{wall}",
        "disk": f"up to {gib(1024 * cost.disk_gib)} of checkpoints",
    }
    if plan.basis != cost.basis:
        facts["earlier"] = f"{plan.hours:.3g} {plan.hours_unit} by {plan.basis}, which is the better guess"
    print_facts(facts, 9, indent="")


def memory_text(cost: SweepCost) -> str:
    """Return how much of a device's memory was needed at most, and in which phase."""
    figures, phase = cost.figures, cost.figures.peak_phase
    return f"{gib(figures.peak_mib[phase])} of {gib(figures.device_memory_mib)} at most ({phase}), {figures.device}"


def gib(mib: float) -> str:
    """Return an amount of memory, such as `61.2 GiB`."""
    return f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib:.0f} MiB"
