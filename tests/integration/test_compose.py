"""The services' own commands of docker-compose.yml, as local processes: they find each other and finish a small sweep.

No container engine is used. Names of services become this machine, ports free ones, mounted folders temporary ones, and
PostgreSQL's two databases SQLite files; everything else is as the file says it: commands, environments, health checks,
secrets made by deploy/make-secrets, Ray with its token.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import yaml
from ray.util import get_node_ip_address

from tests.sweep_stack import unused_port
from tests.waiting import PATIENT_S

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
ORDER = (("migrate",), ("mlflow", "ray-head"), ("api", "ray-worker"), ("worker",))
RAY_NODES = {
    "ray-head",
    "ray-worker",
    "worker",
}  # never two at once: on one machine they would take the same socket names
MARK = "SWEEPS_COMPOSE_TEST"

SPEC: dict[str, Any] = {
    "name": "compose",
    "training": {
        "loss": {"name": "ce_gppo", "epsilon": 0.2},
        "model": {"warm_start_steps": 20},
        "rollout": {"prompts_per_rollout": 8, "completions_per_prompt": 4, "prompts_per_minibatch": 4},
        "evaluation": {"every_steps": 4, "samples_per_problem": 4, "pass_k": 2},
        "device_batch": 16,
        "steps": 4,
    },
    "space": {"loss.beta1": [0.5], "loss.beta2": 1},
    "search": {"strategy": "grid"},
    "seeds": {"tune": [0], "confirm": {"top_k": 1, "seeds": [10]}},
    "baselines": {"ppo_clip": False, "dapo": False, "matched": False},
    "resources": {"cpus": 1},
}


class Installation:
    """The services of the compose file on this machine."""

    def __init__(self, home: Path) -> None:
        self.home, self.processes, self.logs = home, dict[str, subprocess.Popen[bytes]](), home / "logs"
        self.ray, self.mlflow, self.api = unused_port(), unused_port(), unused_port()
        self.ray_address = f"{get_node_ip_address()}:{self.ray}"  # Ray's nodes never take a loopback address
        self.secrets = home / "secrets"
        subprocess.run([str(ROOT / "deploy" / "make-secrets"), str(self.secrets)], check=True, capture_output=True)
        for name in ("sweeps", "mlflow"):
            self.secrets.joinpath(f"{name}_database_url").unlink()
            self.secrets.joinpath(f"{name}_database_url").write_text(f"sqlite:///{home / name}.db")
        for folder in ("lib", "lib/sweeps", "lib/mlflow", "ray", "logs"):
            home.joinpath(folder).mkdir()

    def here(self, text: str) -> str:
        """Replace the names and ports of containers by those of this machine."""
        places = {
            "$$": "$",
            "ray-head:6379": self.ray_address,
            "--port=6379": f"--port={self.ray}",
            "mlflow:5000": f"127.0.0.1:{self.mlflow}",
            "127.0.0.1:5000": f"127.0.0.1:{self.mlflow}",
            "--port 5000": f"--port {self.mlflow}",
            "127.0.0.1:8080": f"127.0.0.1:{self.api}",
            "0.0.0.0": "127.0.0.1",
            "/run/secrets/": f"{self.secrets}/",
            "/var/lib/": f"{self.home / 'lib'}/",
        }
        for there, here in places.items():
            text = text.replace(there, here)
        return str(self.api) if text == "8080" else text

    def environment(self, name: str) -> dict[str, str]:
        """Return what the service's processes see."""
        given = {key: self.here(str(value)) for key, value in COMPOSE["services"][name]["environment"].items()}
        inherited = {
            key: value for key, value in os.environ.items() if not key.startswith(("SWEEPS_", "RAY_", "MLFLOW_"))
        }
        here = {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), str(ROOT / "deploy"), os.environ["PATH"]]),
            "HOME": str(self.home),
            "RAY_TMPDIR": str(self.home / "ray"),
            "DASHBOARD_METRIC_PORT": str(unused_port()),
            "SWEEPS_URL": f"http://127.0.0.1:{self.api}",
            MARK: str(self.home),
        }
        return inherited | given | here

    def run(self, name: str, command: list[str]) -> subprocess.CompletedProcess[str]:
        """Run a command to its end as the service would."""
        return subprocess.run(
            command, env=self.environment(name), cwd=self.home, capture_output=True, text=True, timeout=PATIENT_S
        )

    def start(self, *names: str) -> None:
        """Start services by their own commands; wait until they have ended well, or their own health checks pass."""
        for name in names:
            command = [self.here(part) for part in COMPOSE["services"][name]["command"]]
            with self.log(name).open("wb") as log:
                self.processes[name] = subprocess.Popen(
                    command,
                    env=self.environment(name),
                    cwd=self.home,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        for name in names:
            if COMPOSE["services"][name]["healthcheck"].get("disable"):
                assert self.processes.pop(name).wait(PATIENT_S) == 0, self.log(name).read_text()
            else:
                self.wait_until_healthy(name)

    def wait_until_healthy(self, name: str, timeout_s: float = PATIENT_S) -> None:
        """Wait until a service has joined Ray, if it does that, and its health check passes."""
        deadline = time.monotonic() + timeout_s
        check = [self.here(part) for part in COMPOSE["services"][name]["healthcheck"]["test"][1:]]
        while not (self.has_joined(name) and self.run(name, check).returncode == 0):
            ended, said = self.processes[name].poll(), self.log(name).read_text()[-3000:]
            assert ended is None, f"{name} ended with {ended}:\n{said}"
            assert time.monotonic() < deadline, f"{name} is not healthy after {timeout_s} s:\n{said}"
            time.sleep(0.2)

    def has_joined(self, name: str) -> bool:
        """Whether a service's Ray node, if it has one, has started."""
        return name not in RAY_NODES or b"Ray runtime started" in self.log(name).read_bytes()

    def log(self, name: str) -> Path:
        """Return the file with what a service printed."""
        return self.logs / f"{name}.log"

    def stop(self) -> list[str]:
        """Stop the services as an engine does, by SIGTERM to the first process; return what is left of them."""
        for process in reversed(self.processes.values()):
            process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(PATIENT_S)
        self.processes.clear()
        left = self.living()
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=10)
        return [str(process) for process in left]

    def living(self) -> list[psutil.Process]:
        """Return every process that was started here, whoever its parent is now."""
        found = list[psutil.Process]()
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.pid != os.getpid() and process.environ().get(MARK) == str(self.home):
                    found.append(process)
        return found


@pytest.fixture(scope="module")
def installation() -> Iterator[Installation]:
    home = Path(tempfile.mkdtemp(prefix="sc-", dir="/tmp"))  # short: Ray's sockets lie in it
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, home)
        services = Installation(home)
        stack.callback(services.stop)
        for names in ORDER:
            services.start(*names)
        yield services
        assert services.stop() == [], services.log("worker").read_text()[-3000:]


def test_a_sweep_finishes(installation: Installation, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(yaml.safe_dump(SPEC))
    ended = installation.run("api", ["sweeps", "submit", "-f", str(spec), "--wait", "--json", "--timeout", "240"])
    worker = installation.log("worker").read_text()[-3000:]
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}\n{worker}"
    assert json.loads(ended.stdout)["state"] == "SUCCEEDED"
    report = installation.run("api", ["sweeps", "report", "compose", "--format", "json"])
    assert report.returncode == 0, report.stderr
    assert "loss.beta1" in report.stdout


def test_mlflow_shows_it_to_who_has_its_secret_and_to_its_own_name_only(installation: Installation) -> None:
    url = f"http://127.0.0.1:{installation.mlflow}/api/2.0/mlflow/experiments/search"
    assert httpx.post(url, json={"max_results": 10}).status_code == 401
    secret = {"Authorization": f"Bearer {(installation.secrets / 'mlflow_token').read_text()}"}
    shown = httpx.post(url, json={"max_results": 10}, headers=secret)
    assert len(shown.json()["experiments"]) > 1  # Default, and ours
    rebound = httpx.post(url, json={"max_results": 10}, headers=secret | {"Host": "rebound.example"})
    assert rebound.status_code == 403


def test_the_api_wants_its_token(installation: Installation) -> None:
    url = f"http://127.0.0.1:{installation.api}/v1/sweeps"
    assert httpx.get(url).status_code == 401
    token = (installation.secrets / "api_token").read_text()
    assert httpx.get(url, headers={"Authorization": f"Bearer {token}"}).status_code == 200


def test_ray_wants_its_token(installation: Installation) -> None:
    check = ["ray", "health-check", "--address", installation.ray_address]
    environment = installation.environment("ray-head") | {
        "RAY_AUTH_TOKEN_PATH": str(installation.secrets / "api_token")
    }
    refused = subprocess.run(check, env=environment, capture_output=True, timeout=PATIENT_S)
    assert refused.returncode != 0


def test_doctor_finds_nothing_wrong_where_the_worker_runs(installation: Installation) -> None:
    ended = installation.run("worker", ["sweeps", "doctor", "--json"])
    findings = json.loads(ended.stdout)
    assert [finding for finding in findings if finding["verdict"] == "error"] == []
    verdicts = {finding["name"]: finding["verdict"] for finding in findings}
    assert (verdicts["mlflow server"], verdicts["ray head"]) == ("ok", "ok")
    without_cpus = [finding["detail"] for finding in findings if "no trial there" in finding["detail"]]
    assert len(without_cpus) == 2, findings  # Ray's head, and the worker's own node
