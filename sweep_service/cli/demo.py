"""Runs a real sweep over beta1 on this machine alone, from submission over REST to the verdict (`make demo`).

It starts the service, submits examples/demo.yaml, shows the progress, keeps the report and stops the service again.
Everything it leaves lies in one folder; `sweeps serve` shows it again.
"""

import argparse
import json
import os
import sys
from pathlib import Path

from sweep_service.auth import read_token
from sweep_service.cli.output import fact_line, say, stderr
from sweep_service.cli.spec_file import read_spec
from sweep_service.cli.watch_sweep import watch_sweep
from sweep_service.client import Client
from sweep_service.serve import Stack, free_port
from sweep_service.settings import Settings
from sweep_service.sweep.records import SweepState

_ROOT = Path(__file__).parents[2]


def main() -> int:
    """Run the demo; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m sweep_service.cli.demo", description=__doc__)
    parser.add_argument("--spec", type=Path, default=_ROOT / "examples" / "demo.yaml", help="the sweep to run")
    parser.add_argument("--home", type=Path, default=Path(".sweeps-demo"), help="the folder for all that it leaves")
    options = parser.parse_args()
    port = Settings().port if "port" in Settings().model_fields_set else free_port()
    settings = Settings(home=options.home, port=port)
    with Stack(settings) as stack, Client(stack.settings.url, read_token(stack.settings.token_file)) as client:
        sweep = client.submit(read_spec(str(options.spec)))
        say(f"submitted {sweep.name} as {sweep.id}: POST {client.url}/v1/sweeps")
        say(f"watch it in a browser: {stack.page(sweep.id)}")
        sweep = watch_sweep(client, sweep.id).sweep
        if sweep.state is not SweepState.SUCCEEDED:
            say(f"the sweep ended as {sweep.state}: {sweep.message}")
            return 1
        html = client.report(sweep.id, "html")
        benchmarks = json.loads(client.report(sweep.id, "json"))["benchmarks"]
    if benchmarks:
        stderr().print(fact_line("  benchmark  ", benchmarks["sentence"], stderr()))
    (settings.home / "report.html").write_bytes(html)
    say(f"report  {_shown(settings.home / 'report.html')}")
    say(f"MLflow  {_shown(settings.home / 'mlflow')}   curves of every trial, shown by:")
    say(f"        SWEEPS_HOME={_shown(settings.home)} .venv/bin/sweeps serve")
    return 0


def _shown(path: Path) -> str:
    """Return a path as one would type it here."""
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


if __name__ == "__main__":
    sys.exit(main())
