"""Ctrl-C while a command still imports: the process ends without a traceback."""

import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
SCRIPT = "from {} import {} as main; main()".format(*PROJECT["scripts"]["sweeps"].split(":"))
MODULE = "import runpy; runpy.run_module('{}', run_name='__main__')"
STARTS = {"sweeps": SCRIPT, "sweep_service": MODULE.format("sweep_service"), "trainers": MODULE.format("trainers")}
INTERRUPTED = """
import signal, sys
signal.signal(signal.SIGINT, {handler})
class Interrupting:
    def find_spec(self, name, *_):
        if name == "{at}":
            print("interrupted", flush=True)
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
sys.argv[1:] = {arguments}
{start}
"""


def run(
    start: str, at: str, *arguments: str, handler: str = "signal.default_int_handler"
) -> subprocess.CompletedProcess[str]:
    """Run a command that is sent SIGINT when it imports the module `at`."""
    code = INTERRUPTED.format(start=STARTS[start], at=at, handler=handler, arguments=list(arguments))
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "interrupted" in ended.stdout
    return ended


@pytest.mark.parametrize(
    ("start", "at", "arguments"),
    [
        ("sweeps", "typer", ["--help"]),
        ("sweeps", "httpx", ["ls"]),  # which the command imports
        ("sweep_service", "typer", ["--help"]),
        ("trainers", "pydantic", ["--help"]),
    ],
)
def test_an_interrupt_during_imports_ends_a_command_without_a_word(start: str, at: str, arguments: list[str]) -> None:
    ended = run(start, at, *arguments)
    assert ended.returncode == -signal.SIGINT
    assert (ended.stdout, ended.stderr) == ("interrupted\n", "")


@pytest.mark.parametrize(("start", "at"), [("sweeps", "typer"), ("trainers", "pydantic")])
def test_an_interrupt_that_is_ignored_stays_ignored(start: str, at: str) -> None:
    ended = run(start, at, "--help", handler="signal.SIG_IGN")
    assert ended.returncode == 0
    assert "Exit codes" in ended.stdout or "exit codes" in ended.stdout


def test_a_command_that_has_begun_ends_in_its_own_way(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").touch()
    ended = run("trainers", "trainers.training.preview", str(tmp_path / "run.yaml"), "--preview")
    assert (ended.returncode, ended.stderr) == (130, "")
    ended = run("sweeps", "sweep_service.api", "api")
    assert (ended.returncode, ended.stderr) == (130, "")
