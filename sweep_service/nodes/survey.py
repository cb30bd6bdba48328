"""`python -m sweep_service.nodes.survey`: looks at every node of the Ray cluster and prints findings as JSON lines.

It asks for no CPU and no GPU, so that it also works while trials hold them all.
"""

import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from sweep_service.nodes.node_facts import NONCE_FILE, clock, look
from sweep_service.nodes.node_findings import Finding, Node, judge
from sweep_service.processes.child_processes import LIFELINE
from sweep_service.settings import Settings
from trainers.process.durable import write_whole
from trainers.process.lifeline import follow_parent

LIMIT_S: Final = 120.0
"""Seconds within which all nodes, asked at the same time, must answer."""


def survey(settings: Settings) -> list[Finding]:
    """Ask every node.

    Raises: OSError, if this machine cannot write to its own storage; ConnectionError, if Ray does not answer.
    """
    for folder in (settings.storage, settings.cache):
        if folder.parent == settings.home:  # made at first use; others are somebody's mount, which may be missing
            folder.mkdir(parents=True, exist_ok=True)
    meeting, nonce = f".doctor-{secrets.token_hex(8)}", secrets.token_hex(16)
    folder, storage, cache = settings.storage / meeting, str(settings.storage), str(settings.cache)
    folder.mkdir()
    try:
        write_whole(folder / NONCE_FILE, nonce)
        here = look(storage, cache, meeting, "here", gpus=False)
        return list(judge(_ask(settings, meeting, storage, cache), here, nonce, storage, cache))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _ask(settings: Settings, meeting: str, storage: str, cache: str) -> list[Node]:
    import ray

    from sweep_service.runner.cluster import connect

    connect(settings, meeting)
    alive = [node for node in ray.nodes() if node["Alive"]]
    hosts = [node["NodeManagerHostname"] for node in alive]
    references: list[Any] = [
        _on(node, look).remote(storage, cache, meeting, node["NodeID"], gpus=bool(node["Resources"].get("GPU")))
        for node in alive
    ]
    ray.wait(references, num_returns=len(references), timeout=LIMIT_S)
    results: list[Node] = []
    for node, host, reference in zip(alive, hosts, references, strict=True):
        name = f"node {host}" if hosts.count(host) == 1 else f"node {host} {node['NodeID'][:6]}"
        gpus, answer = float(node["Resources"].get("GPU", 0)), _answer(reference)
        nonce = settings.storage / meeting / node["NodeID"] / NONCE_FILE
        skew_s = 0.0 if isinstance(answer, str) else _skew(_on(node, clock))
        content = nonce.read_text(encoding="utf-8") if nonce.is_file() else None
        results.append(Node(name, gpus, answer, skew_s, content, bool(node["Resources"].get("CPU") or gpus)))
    return results


def _on(node: Mapping[str, Any], function: Callable[..., object]) -> Any:
    """Return a task that runs on this node, even if all its CPUs are taken."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
    remote: Any = ray.remote  # its types know no such strategy
    return remote(num_cpus=0, max_retries=0, scheduling_strategy=there)(function)


def _answer(reference: Any) -> dict[str, Any] | str:
    import ray
    from ray.exceptions import GetTimeoutError, RayError

    try:
        return cast("dict[str, Any]", ray.get(reference, timeout=0))
    except GetTimeoutError:
        return f"no answer within {LIMIT_S:.0f} s; look at its raylet and its disks"
    except RayError as error:
        cause = getattr(error, "cause", None) or error
        text = (str(cause).strip().splitlines() or [type(cause).__name__])[-1][:300]
        if "ModuleNotFoundError" in str(error) or "AttributeError" in str(error):
            return f"this version of the code is not installed there ({text}); install it and restart its Ray"
        return f"it cannot look at itself: {text}"


def _skew(asking: Any) -> float:
    """Return the seconds by which a clock lies outside the interval between question and answer."""
    import ray
    from ray.exceptions import RayError

    before = time.time()
    try:
        there = float(cast("Any", ray.get(asking.remote(), timeout=LIMIT_S)))
    except RayError:
        return 0.0
    after = time.time()
    return max(0.0, there - after) or min(0.0, there - before)


def main() -> int:
    """Print the findings. The exit code is 0 if the nodes were asked, whatever they answered; else 1."""
    follow_parent(LIFELINE)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        findings = survey(Settings())
    except (OSError, RuntimeError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write("".join(f"{json.dumps(finding)}\n" for finding in findings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
