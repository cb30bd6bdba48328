"""Submit a sweep, follow it, and print the best config. Start the service first: `sweeps serve`."""

import sys
from pathlib import Path

import yaml

from sweep_service.client import Client, Event


def show(event: Event) -> None:
    """Print one event on standard error."""
    print(f"{event.seq:>5}  {event.type:<20}  {event.data}", file=sys.stderr)  # noqa: T201


with Client.from_env() as client:
    sweep = client.submit(yaml.safe_load(Path(sys.argv[1]).read_text()))
    sweep = client.wait(sweep.id, on_event=show)
    best = client.best(sweep.id)
    print(f"{sweep.state}: {best.label} has {best.metric} {best.objective:.3f} over {best.stage} seeds")  # noqa: T201
    print(best.verdict_text)  # noqa: T201
    Path("report.html").write_bytes(client.report(sweep.id, timeout_s=60))
