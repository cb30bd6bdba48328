"""The stack: all services of one data folder, from start to stop, as a context manager and as a command."""

import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, Self

import psutil

from sweep_service.auth import read_token, server_token, sign_in_key
from sweep_service.errors import ServiceError
from sweep_service.processes.child_processes import log_tail
from sweep_service.processes.heartbeat import node_file
from sweep_service.processes.vigil import Vigil, has_worked, processor_time_s
from sweep_service.serve.checks import CannotStart, free_port, locked, preflight
from sweep_service.serve.services import LOOK_EVERY_S, Service, note_addresses, ray_folder, services
from sweep_service.settings import Settings
from sweep_service.store import open_store
from trainers.process.signals import hear_stop_signals

STARTS: Final = 3
"""Number of times that a service may end before all of them are ready; Ray and MLflow have deadlines of their own."""
MOTIONLESS_S: Final = 90.0
"""Seconds of looks at services that are not ready and do nothing, after which they are given up."""
SAY_EVERY_S: Final = 15.0
"""Seconds between two words on what is waited for."""
STOP_GRACE_S: Final = 5.0


def _to_stderr(line: str) -> None:
    with suppress(OSError, ValueError):  # a terminal that has gone, or a full disk, ends nothing
        sys.stderr.write(line + "\n")
        sys.stderr.flush()


class Unguarded(ServiceError):
    """Nobody starts again what ends; the services have been stopped, so that whoever keeps `serve` starts it again."""


class Stack:
    """The whole service on this machine, as a context manager. Every process ends with it, even if this one is killed.

    Args:
        settings: home, host and port; the addresses that they leave open are chosen on entering.
        cpus: number of cores that Ray may give to trials; None: all.
        gpus: number of GPUs that Ray may give to trials; None: as many as the driver shows.
        say: called with lines for people.
    Raises: CannotStart, on entering; TokenError, if others can reach the host and there is no token.
    """

    def __init__(
        self,
        settings: Settings,
        cpus: int | None = None,
        gpus: int | None = None,
        say: Callable[[str], None] = _to_stderr,
    ) -> None:
        self.settings = settings
        """The settings; once entered, with the addresses of Ray and MLflow."""
        self.say = say
        self._cpus, self._gpus = cpus, gpus
        self._services: list[Service] = []
        self._ray_note = settings.home / "ray-folder"
        self._lock: IO[str] | None = None
        self._stopping = threading.Event()
        self._guard = threading.Thread(target=self._keep_alive, name="guard", daemon=True)
        self._unguarded: BaseException | None = None

    def __enter__(self) -> Self:
        preflight(self.settings)
        self._lock = locked(self.settings.home)
        try:
            self._prepare()
            for service in self._services:
                self._look_whether_to_stop()
                service.start(keep_log=service.name != "ray")
            self._wait_until_ready()
            self._guard.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def page(self, sweep_id: str | None = None) -> str:
        """Return a link to the status page, or to a sweep's, that signs in by itself.

        Its key stands behind the #, so browsers keep it out of requests and logs.
        """
        key = sign_in_key(read_token(self.settings.token_file))
        return f"{self.settings.url}/login{f'?next=/sweeps/{sweep_id}' if sweep_id else ''}#{key}"

    def _prepare(self) -> None:
        """Make tokens and the database, decide on ports, tell clients where the API is."""
        settings = self.settings
        server_token(settings.token_file, settings.host)
        open_store(settings.database_url).close()
        self._remove_ray_folder()  # left by an earlier serve
        folder, addresses = None, dict[str, object]()
        if not settings.mlflow_url:
            url = f"http://127.0.0.1:{free_port(settings.port + 1)}"
            token_file = settings.home / "mlflow-token"
            addresses |= {"mlflow_url": url, "mlflow_public_url": url, "mlflow_token_file": token_file}
        if not settings.ray_address:
            folder = ray_folder(settings)
            self._ray_note.write_text(str(folder))
            addresses |= {"ray_address": f"127.0.0.1:{free_port(settings.port + 2)}"}
        self.settings = settings.model_copy(update=addresses)
        note_addresses(self.settings)
        self._services = services(self.settings, folder, not settings.mlflow_url, self._cpus, self._gpus)

    def _remove_ray_folder(self) -> None:
        """Remove Ray's folder, which the note in the data folder names, with the one that was made around it."""
        if self._ray_note.exists():
            folder = Path(self._ray_note.read_text())
            home = self.settings.home
            shutil.rmtree(folder if folder.is_relative_to(home) else folder.parent, ignore_errors=True)
            self._ray_note.unlink()
        node_file(self.settings.home).unlink(missing_ok=True)

    def ask_to_stop(self) -> None:
        """Have `wait` return, or starting end with KeyboardInterrupt; asked again, end all services at once.

        Any thread may ask.
        """
        if self._stopping.is_set():
            _stop_together(self._services, 0)
        self._stopping.set()

    def wait(self) -> None:
        """Wait until somebody asks to stop.

        Raises: Unguarded, if the thread that starts services again has ended instead.
        """
        self._stopping.wait()
        if self._unguarded is not None:
            raise Unguarded(
                "serve ends, for it can look after its services no longer "
                f"({type(self._unguarded).__name__}: {self._unguarded}); start it again, and it goes on where it was"
            ) from self._unguarded

    def _look_whether_to_stop(self) -> None:
        if self._stopping.is_set():
            raise KeyboardInterrupt

    def _wait_until_ready(self) -> None:
        """Wait until all are ready, however long that takes on busy cores, as long as something moves."""
        began = said_at = time.monotonic()
        waiting, ends = list(self._services), Counter[str]()
        vigil = Vigil(_work_of(waiting), MOTIONLESS_S, LOOK_EVERY_S)
        while waiting:
            self._look_whether_to_stop()
            for service in [service for service in waiting if service.dead]:
                ends[service.name] += 1
                if ends[service.name] == STARTS:
                    tail = f"the end of {service.log}:\n{log_tail(service.log)}"
                    raise CannotStart(f"{service.name} ended at once, {STARTS} times; {tail}")
                self.say(f"{service.name} has ended, and is started once more (see {service.log})")
                service.start()
            for service in [service for service in waiting if service.is_ready()]:
                waiting.remove(service)
                self.say(f"{service.name} is ready after {time.monotonic() - began:.1f} s")
            names = " and ".join(service.name for service in waiting)
            if waiting and vigil.hangs():
                raise CannotStart(f"{names} not ready, and idle for {vigil.lifeless_s:.0f} s; see {waiting[0].log}")
            if waiting and time.monotonic() - said_at > SAY_EVERY_S:
                said_at = time.monotonic()
                self.say(f"waiting for {names}, for {said_at - began:.0f} s so far (see {waiting[0].log})")
            time.sleep(0.1)

    def _keep_alive(self) -> None:
        """Look after the services until the stack stops; trouble with one of them, or with saying so, stops nothing."""
        troubles = dict[str, str]()
        try:
            while not self._stopping.wait(0.2):
                for service in self._services:
                    try:
                        if news := service.look_after():
                            self.say(news)
                    except Exception as error:  # noqa: BLE001 (whatever it is, the next look may do)
                        trouble = f"{service.name} cannot be looked after ({type(error).__name__}: {error}); trying on"
                        if troubles.get(service.name) != trouble:
                            troubles[service.name] = trouble
                            _to_stderr(trouble)
        except BaseException as error:  # noqa: BLE001 (a stack that nobody guards must not stand there as if it were)
            self._unguarded = error
            self._stopping.set()

    def stop(self) -> None:
        """End everything, the worker first, in about ten seconds at most."""
        self._stopping.set()
        if self._guard.is_alive():
            self._guard.join()
        _stop_together([service for service in self._services if service.name == "worker"], STOP_GRACE_S)
        _stop_together([service for service in self._services if service.name != "worker"], STOP_GRACE_S)
        if self._services:
            self._remove_ray_folder()
        (self.settings.home / "address.json").unlink(missing_ok=True)
        if self._lock is not None:
            self._lock.close()


def _work_of(services: Sequence[Service]) -> Callable[[], bool]:
    """Return a function that is True if one of these services has worked since its last call, or is gone."""
    before = dict[int, float]()

    def worked() -> bool:
        nonlocal before
        now = dict[int, float]()
        for process in (service.process for service in services if service.process is not None):
            with suppress(psutil.Error):
                now[process.pid] = processor_time_s(process.pid)
        moved = any(has_worked(before.get(pid, -1.0), busy_s, LOOK_EVERY_S) for pid, busy_s in now.items())
        before = now
        return moved or not now

    return worked


def _stop_together(stopping: Sequence[Service], grace_s: float) -> None:
    threads = [threading.Thread(target=service.stop, args=(grace_s,)) for service in stopping]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main(settings: Settings, cpus: int | None = None, gpus: int | None = None) -> int:
    """Serve until SIGINT or SIGTERM; return the exit code. A second signal ends everything at once."""
    stack = Stack(settings, cpus, gpus)
    hear_stop_signals(lambda _: stack.ask_to_stop())
    try:
        with stack:
            served = stack.settings
            stack.say(f"page    {stack.page()}    signs in by itself: keep it to yourself")
            stack.say(f"API     {served.url}    token in {served.token_file}")
            stack.say(f"MLflow  {served.mlflow_links.rstrip('/')}/{_others(settings.mlflow_url, 'SWEEPS_MLFLOW_URL')}")
            if settings.ray_address:
                stack.say(f"Ray     {settings.ray_address}{_others(settings.ray_address, 'SWEEPS_RAY_ADDRESS')}")
            stack.say(f"data    {settings.home}    logs in {settings.home / 'logs'}")
            stack.say("Ctrl-C stops everything.")
            stack.wait()
    except KeyboardInterrupt:
        pass
    except ServiceError as error:
        _to_stderr(str(error))
        return 1
    _to_stderr("stopped")
    return 0


def _others(address: str, variable: str) -> str:
    return f"    not ours: {variable} names it; sweeps doctor looks whether it answers" if address else ""
