"""The command `doctor`, which checks that everything the service needs is there and works."""

import json
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from pathlib import Path
from typing import Literal

import httpx
import typer
from rich.table import Table
from rich.text import Text

from sweep_service.auth import TokenError, open_to_others, read_token
from sweep_service.cli.arguments import Json
from sweep_service.cli.exits import ExitCode
from sweep_service.cli.output import print_json, say, stdout
from sweep_service.client import Client
from sweep_service.errors import ServiceError
from sweep_service.processes.child_processes import run_to_end
from sweep_service.processes.port_owners import StrangerListens, check_port
from sweep_service.processes.private_folders import open_paths
from sweep_service.processes.ray_head import client_environment
from sweep_service.settings import Settings, as_served, misspelt, unused_by_client
from sweep_service.tracking.credentials import certificates, sign_in

Verdict = Literal["ok", "warning", "error"]
Findings = Iterator[tuple[str, Verdict, str]]
"""Findings as (name of the check, verdict, detail)."""

PACKAGES = {
    "torch": "2.13",
    "trl": "1.16",
    "transformers": "5.2.1",  # older ones run remote code unasked
    "ray": "2.52",  # older ones have no authentication
    "mlflow": "3.17",  # CVE-2026-115886
    "optuna": "5.0",
}
"""The versions below which something is known to be broken or unsafe."""
_DISK_GIB = 5
_MOST_NAMED = 1
_NODES_TIMEOUT_S = 180
_STYLES = {"ok": "green", "warning": "yellow", "error": "red"}


def doctor(as_json: Json = False) -> None:
    """Check everything that the service needs, and say what to do where something is missing.

    [bold]sweeps doctor --json[/bold]
    """
    settings = as_served(Settings())
    findings = [finding for check in CHECKS for finding in check(settings)]
    if as_json:
        print_json([{"name": name, "verdict": verdict, "detail": detail} for name, verdict, detail in findings])
    else:
        table = Table.grid(padding=(0, 2, 0, 0))
        for name, verdict, detail in findings:
            table.add_row(Text(verdict, _STYLES[verdict]), Text(name, "bold"), detail)
        stdout().print(table)
    if any(verdict == "error" for _, verdict, _ in findings):
        raise typer.Exit(ExitCode.ERROR)


def _packages(_settings: Settings) -> Findings:
    yield "python", "ok", platform.python_version()  # an older one than we need could not have come this far
    for name, least in PACKAGES.items():
        try:
            present = version(name)
        except PackageNotFoundError:
            yield name, "error", "not installed; run make install"
            continue
        if _parts(present) >= _parts(least):
            yield name, "ok", present
        else:
            yield name, "error", f"{present}; {least} or newer is needed: run make install"


def _parts(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("+")[0].split(".") if part.isdecimal())


def _token(settings: Settings) -> Findings:
    path = settings.token_file
    try:
        read_token(path)
    except TokenError as error:
        yield "token", "warning", str(error)
        return
    if open_to_others(path):
        yield "token", "warning", f"{path} can be read by others; run chmod 600 {path}"
    else:
        yield "token", "ok", str(path)


def _variables(settings: Settings) -> Findings:
    for remark in (*misspelt(os.environ), *unused_by_client(Settings(), settings.url)):
        yield "settings", "warning", remark


def _privacy(settings: Settings) -> Findings:
    """Yield for each of our folders whether other users of this machine may enter it."""
    for name, folder in (("home", settings.home), ("storage", settings.storage), ("cache", settings.cache)):
        if not folder.exists():
            continue
        opened = list(islice(open_paths(folder), _MOST_NAMED + 1))
        if folder.stat().st_uid != os.geteuid():
            detail = f"{folder} belongs to another user, who may read and change what is in it"
            yield f"{name} rights", "warning", detail
        elif folder in opened:
            more = f", and for instance {opened[1]}" if len(opened) > 1 else ""
            yield f"{name} rights", "warning", f"others may enter {folder}{more}; run chmod -R go= {folder}"
        else:
            yield f"{name} rights", "ok", f"nobody else may enter {folder}"


def _database(settings: Settings) -> Findings:
    from sqlalchemy.engine import make_url

    from sweep_service.store import check_database

    place = make_url(settings.database_url)
    if place.get_backend_name() == "sqlite" and not Path(place.database or "").exists():
        yield "database", "ok", f"there is none at {place.database}; `sweeps serve` makes it"
        return
    try:
        check_database(settings.database_url)
    except ServiceError as error:
        yield "database", "error", str(error)
    else:
        yield "database", "ok", f"{place.render_as_string()} is one for this version"


def _api(settings: Settings) -> Findings:
    url = settings.url
    try:
        token, trusted = read_token(settings.token_file), settings.trusted
        with Client(url, token, timeout_s=5, patience_s=0, trusted_users=trusted) as client:
            client.check_ready()
            next(client.sweeps(), None)
    except ServiceError as error:
        yield "api", "warning", str(error)
        place = f"{settings.host}:{settings.port}"
        with socket.socket() as probe:
            is_here = url == f"http://{place}"
            if is_here and probe.connect_ex((settings.host, settings.port)) == 0:
                yield "port", "error", f"something else listens on {place}; set SWEEPS_PORT to a free port"
        return
    yield "api", "ok", f"{url} answers, its database is ready, the token is right"


def _mlflow(settings: Settings) -> Findings:
    if not (url := settings.mlflow_url):
        yield "mlflow server", "ok", "none is set; `sweeps serve` starts its own"
        return
    try:
        auth, verify = sign_in(settings), certificates()
        with httpx.Client(base_url=url, auth=auth, verify=verify, timeout=5, trust_env=False) as http:
            answer = http.get("api/2.0/mlflow/experiments/search", params={"max_results": 1})
            release = http.get("version").text.strip()
    except (httpx.HTTPError, ServiceError, OSError) as error:
        yield "mlflow server", "warning", f"{url} does not answer ({error}); curves wait in the store until it does"
        return
    if answer.status_code in (401, 403):
        remedy = "set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and _PASSWORD (each also with _FILE)"
        yield "mlflow server", "warning", f"{url} lets nobody in with this sign-in ({answer.status_code}); {remedy}"
    elif not answer.is_success:
        yield "mlflow server", "warning", f"{url} answers {answer.status_code}; curves wait in the store"
    elif not release.startswith("3."):
        yield "mlflow server", "warning", f"{url} is MLflow {release[:20]!r}; 3.x is needed"
    else:
        yield "mlflow server", "ok", f"{url} answers and lets us in, version {release}"


def _ray(settings: Settings) -> Findings:
    if not settings.ray_address:
        yield "ray head", "ok", "none is set; `sweeps serve` starts its own"
        return
    host, _, port = settings.ray_address.rpartition(":")
    try:
        check_port(host, int(port), settings.trusted)
    except (OSError, ValueError, StrangerListens) as error:
        yield "ray head", "error", f"{settings.ray_address} does not answer ({error}); no trial can start"
        return
    yield "ray head", "ok", f"{settings.ray_address} answers"
    yield from _nodes(settings)


def _nodes(settings: Settings) -> Findings:
    """Yield the findings of each node of the cluster; a child asks them, for this process has no Ray."""
    if sys.stderr.isatty():
        say("asking every node of the cluster")
    token = settings.home / "ray-token"  # of `sweeps serve`; tokens of other clusters are in the environment
    own = client_environment(token) if "RAY_AUTH_TOKEN_PATH" not in os.environ and token.exists() else {}
    command = [sys.executable, "-m", "sweep_service.nodes.survey"]
    environment = os.environ | settings.environment() | own
    try:
        child = run_to_end(command, environment, timeout_s=_NODES_TIMEOUT_S, stderr=subprocess.PIPE)
        out, err = child.stdout, child.stderr
    except subprocess.TimeoutExpired:
        out, err = "", f"no answer within {_NODES_TIMEOUT_S} s"
    if not out:
        reason = (err.strip().splitlines() or ["it ended without output"])[-1]
        remedy = "run this where the worker runs, on a node of the cluster"
        yield "nodes", "error", f"the nodes could not be asked: {reason}; {remedy}"
    for line in out.splitlines():
        name, verdict, detail = json.loads(line)
        yield name, verdict, detail


def _disk(settings: Settings) -> Findings:
    for name, folder in (("home", settings.home), ("storage", settings.storage), ("cache", settings.cache)):
        existing = next(path for path in (folder, *folder.parents) if path.exists())
        free = shutil.disk_usage(existing).free / 2**30
        detail = f"{folder}: {free:.1f} GiB free"
        if free < _DISK_GIB:
            yield name, "warning", f"{detail}; checkpoints and curves need more, so make room"
        else:
            yield name, "ok", detail


CHECKS: tuple[Callable[[Settings], Findings], ...] = (
    _packages, _variables, _token, _privacy, _database, _api, _mlflow, _ray, _disk,
)  # fmt: skip
