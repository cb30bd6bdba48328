"""Runs vLLM in a server of its own beside one training: on the last of the run's GPUs, and never longer than the run.

The trainer's first process starts it below a keeper (`trainers.process.keeper`), whose lifeline it holds, so no end of
the trainer leaves it behind. It listens on the loopback alone, because whoever reaches it can change its weights.
"""

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from trainers.config import VLLMEngine
from trainers.errors import ConfigError, EngineError
from trainers.process.environment import RENDEZVOUS
from trainers.process.launch import reserved_port

_GPUS: Final = "ROLLOUT_GPUS"
"""Environment variable for the server's GPUs once they are hidden from the trainer."""
_OF_TRAINING: Final = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    RENDEZVOUS,
)
_LOOPBACK: Final = "127.0.0.1"
_ROUND_S: Final = 0.2
_GRACE_S: Final = 2.0
_DIRECT: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Address(NamedTuple):
    """Address on which a server listens, in TRL's terms."""

    server_host: str
    server_port: int
    group_port: int
    """Port at which server and trainer meet to transfer weights."""


def hide_server_gpus(engine: object) -> None:
    """Hide the GPUs of vLLM's server from this process, which would else train on them. Call it before CUDA is used.

    Raises: ConfigError, if there are not enough.
    """
    if not isinstance(engine, VLLMEngine) or engine.mode != "server" or _GPUS in os.environ:
        return
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        import torch

        gpus = [str(number) for number in range(torch.cuda.device_count())]
    else:
        gpus = [gpu for gpu in named.split(",") if gpu]
    if len(gpus) <= engine.server_gpus:
        raise ConfigError(
            f"rollout.engine.server_gpus {engine.server_gpus}: this process sees {len(gpus)} GPU(s), and training "
            "needs at least one besides; give trials more (resources.gpus), or use mode colocate"
        )
    os.environ[_GPUS] = ",".join(gpus[-engine.server_gpus :])
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus[: -engine.server_gpus])
    os.environ["VLLM_HOST_IP"] = _LOOPBACK  # where trainer and server meet
    os.environ["NO_PROXY"] = ",".join(filter(None, [os.environ.get("NO_PROXY"), _LOOPBACK]))


def server_environment() -> dict[str, str]:
    """Return this process's environment with the server's GPUs, and without the variables of distributed training."""
    inherited = {name: value for name, value in os.environ.items() if name not in _OF_TRAINING}
    return {**inherited, "CUDA_VISIBLE_DEVICES": inherited.get(_GPUS, ""), "VLLM_SERVER_DEV_MODE": "1"}


def server_command(engine: VLLMEngine, model: Path, max_length: int, seed: int, address: Address) -> list[str]:
    """Return the command that starts vLLM's server as TRL 1.16 needs it."""
    from trl.scripts.vllm_serve import ScriptArguments, build_command

    arguments = ScriptArguments(
        model=str(model),
        host=address.server_host,
        port=address.server_port,
        tensor_parallel_size=engine.tensor_parallel,
        gpu_memory_utilization=engine.memory_share,
        max_model_len=max_length,
        log_level="warning",
    )
    return build_command(arguments, ["--seed", str(seed)])


class RolloutServer:
    """A running server; it ends with `close`, or with this process.

    Args:
        command: returns the command that starts it, given the address on which it is to listen.
        environment: environment variables of the server.
        log: gets the server's output.
        while_waiting: called a few times a second until it answers; what it raises ends the server.
        patience_s: seconds it may take to answer: weights are read, and kernels compiled.
    Raises: EngineError, if it ends before it answers, or takes longer.
    """

    def __init__(
        self,
        command: Callable[[Address], Sequence[str]],
        environment: Mapping[str, str],
        log: Path,
        while_waiting: Callable[[], None] = lambda: None,
        patience_s: float = 1200.0,
    ) -> None:
        with reserved_port() as port, reserved_port() as group_port, log.open("ab") as output:
            self.address = Address(_LOOPBACK, port, group_port)
            self._keeper = subprocess.Popen(
                [sys.executable, "-m", "trainers.process.keeper", *command(self.address)],
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C asks the trainer to finish its update
            )
            try:
                deadline = time.monotonic() + patience_s
                while not self._answers():
                    while_waiting()
                    if self._keeper.poll() is not None:
                        code = self._keeper.returncode
                        raise EngineError(f"vLLM's server ended with exit code {code}; {_end_of(log)}")
                    if time.monotonic() > deadline:
                        raise EngineError(f"vLLM's server does not answer; {_end_of(log)}")
                    time.sleep(_ROUND_S)
            except BaseException:
                self.close()
                raise

    def _answers(self) -> bool:
        host, port, _ = self.address
        try:
            with _DIRECT.open(f"http://{host}:{port}/health", timeout=5) as reply:
                return reply.status == 200
        except OSError:
            return False

    def close(self) -> None:
        """End the server and all that it started: SIGTERM, and after two seconds SIGKILL."""
        self._keeper.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._keeper.wait(_GRACE_S)
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()  # its lifeline
        self._keeper.wait()


def _end_of(log: Path) -> str:
    """Quote the first error in the server's log, which is the cause, and the log's end, which followed from it."""
    text = log.read_text(encoding="utf-8", errors="replace")
    cause = next((line.strip()[-500:] for line in text.splitlines() if "Error: " in line), "")
    return (f"its first error is {cause}; " if cause else "") + f"{log} ends with:\n{text[-1500:].strip()}"
