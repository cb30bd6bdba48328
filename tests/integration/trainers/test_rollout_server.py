"""The life of vLLM's server, on a stand-in program: there when the trainer goes on, and gone when the trainer is."""

import os
import signal
import subprocess
import sys
import urllib.request
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from tests.waiting import wait_until
from trainers.config import TransformersEngine, VLLMEngine
from trainers.errors import ConfigError, EngineError
from trainers.rollouts.rollout_server import (
    Address,
    RolloutServer,
    hide_server_gpus,
    server_command,
    server_environment,
)
from trainers.training.out_of_memory import is_out_of_memory

# Answers after a while; has a worker in a session of its own, as vLLM does; writes pids and environment.
PROGRAM = """
import http.server, json, os, subprocess, sys, time
folder, port = sys.argv[1], int(sys.argv[2])
worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
with open(os.path.join(folder, "pids"), "w") as pids:
    pids.write(f"{os.getpid()} {worker.pid} ")
json.dump(dict(os.environ), open(os.path.join(folder, "environment"), "w"))
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()
time.sleep(0.3)
http.server.HTTPServer(("127.0.0.1", port), Health).serve_forever()
"""
OWNER = """
import sys, time
from pathlib import Path
from trainers.rollouts.rollout_server import RolloutServer
folder, program = Path(sys.argv[1]), sys.argv[2]
server = RolloutServer(
    lambda address: [sys.executable, "-c", program, str(folder), str(address.server_port)], {}, folder / "log"
)
(folder / "up").touch()
time.sleep(600)
"""


def command(folder: Path, program: str = PROGRAM) -> list[str]:
    return [sys.executable, "-c", program, str(folder)]


def pids(folder: Path) -> list[int]:
    wait_until("the program runs", lambda: (folder / "pids").exists() and (folder / "pids").read_text().endswith(" "))
    return [int(pid) for pid in (folder / "pids").read_text().split()]


def alive(folder: Path) -> list[int]:
    return [pid for pid in pids(folder) if psutil.pid_exists(pid)]


def test_it_answers_once_it_is_made_and_leaves_nothing_when_it_is_closed(tmp_path: Path) -> None:
    asked = list[int]()
    server = RolloutServer(
        lambda address: [*command(tmp_path), str(address.server_port)],
        os.environ,
        tmp_path / "log",
        lambda: asked.append(1),
    )
    with urllib.request.urlopen(f"http://127.0.0.1:{server.address.server_port}/health") as reply:
        assert reply.status == 200
    assert asked, "nobody could have stopped the waiting"
    assert server.address.group_port != server.address.server_port
    assert len(alive(tmp_path)) == 2
    server.close()
    assert alive(tmp_path) == []


def test_one_that_ends_before_it_answers_says_why(tmp_path: Path) -> None:
    program = "import sys; sys.exit('no memory for the keys')"
    with pytest.raises(EngineError, match=r"exit code 1; .*log ends with:\nno memory for the keys"):
        RolloutServer(lambda _: command(tmp_path, program), os.environ, tmp_path / "log")


def test_the_cause_is_told_however_much_was_said_after_it(tmp_path: Path) -> None:
    program = "print('torch.OutOfMemoryError: CUDA out of memory'); print('trace\\n' * 1000); raise SystemExit(1)"
    with pytest.raises(EngineError, match=r"first error is torch\.OutOfMemoryError: CUDA out of memory; ") as told:
        RolloutServer(lambda _: command(tmp_path, program), os.environ, tmp_path / "log")
    assert is_out_of_memory(told.value)


def test_one_that_never_answers_is_ended(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="does not answer"):
        RolloutServer(lambda _: [*command(tmp_path), "1"], os.environ, tmp_path / "log", patience_s=0.5)
    assert not (tmp_path / "pids").exists() or alive(tmp_path) == []


def test_a_stop_while_it_starts_ends_it(tmp_path: Path) -> None:
    def stop() -> None:
        if (tmp_path / "pids").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        RolloutServer(
            lambda address: [*command(tmp_path), str(address.server_port)], os.environ, tmp_path / "log", stop
        )
    assert alive(tmp_path) == []


def test_it_ends_with_its_owner_even_by_sigkill(tmp_path: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path), PROGRAM])
    try:
        wait_until("it is up", (tmp_path / "up").exists)
        assert len(alive(tmp_path)) == 2
        owner.send_signal(signal.SIGKILL)
    finally:
        owner.kill()
        owner.wait()
    wait_until("nothing is left", lambda: alive(tmp_path) == [])


def test_the_last_gpus_are_the_servers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5,6,7")
    for name in ("ROLLOUT_GPUS", "VLLM_HOST_IP", "NO_PROXY"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    assert server_environment()["CUDA_VISIBLE_DEVICES"] == ""  # no GPU is set aside for one yet
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_PORT"):
        monkeypatch.setenv(name, "1")
    for others in (TransformersEngine(), VLLMEngine()):
        hide_server_gpus(others)
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "3,5,6,7"
    engine = VLLMEngine(mode="server", server_gpus=2)
    for _ in range(2):  # the second is that of a process started by one that has done it
        hide_server_gpus(engine)
        assert os.environ["CUDA_VISIBLE_DEVICES"] == "3,5"
    environment = server_environment()
    assert environment["CUDA_VISIBLE_DEVICES"] == "6,7"
    assert environment["VLLM_SERVER_DEV_MODE"] == "1"
    assert not {"RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_PORT"} & set(environment)


def test_too_few_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    with pytest.raises(ConfigError, match=r"server_gpus 2: this process sees 2 GPU\(s\)"):
        hide_server_gpus(VLLMEngine(mode="server", server_gpus=2))
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0,1"


def test_the_command_is_that_which_trl_wants(tmp_path: Path) -> None:
    engine = VLLMEngine(mode="server", server_gpus=2, memory_share=0.8)
    words = server_command(engine, tmp_path, 5000, 7, Address("127.0.0.1", 4711, 4712))
    assert words[:5] == [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", str(tmp_path)]
    given = dict(pairwise(words))
    expected = {
        "--host": "127.0.0.1",
        "--port": "4711",
        "--tensor-parallel-size": "2",
        "--gpu-memory-utilization": "0.8",
        "--max-model-len": "5000",
        "--seed": "7",
        "--logprobs-mode": "processed_logprobs",
        "--weight-transfer-config": '{"backend": "nccl"}',
    }
    assert {name: given[name] for name in expected} == expected
    assert "--trust-remote-code" not in words
