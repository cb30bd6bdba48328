"""SIGKILL of the API at random moments and between commit and answer: nothing acknowledged is lost, nothing doubled.

`KILLS=200 pytest -s -m long tests/acceptance/test_api_kills.py` kills it more often.
"""

import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sweep_service.auth import ensure_token, read_token
from sweep_service.client import Client
from sweep_service.client.errors import Unreachable
from sweep_service.errors import Conflict
from sweep_service.schemas import SweepView
from sweep_service.settings import Settings
from sweep_service.store import open_store
from sweep_service.sweep.records import DesiredState
from tests.sweep_stack import answers, command_of, processes_of, small_sweep
from tests.waiting import PATIENT_S, wait_until

KILLS = int(os.environ.get("KILLS", "8"))
"""Number of kills, half of them between a commit and its answer."""
USERS = 3
"""Number of users who ask at once."""
PLANTED = Path(__file__).parent / "killed_after_commit"
TRIALS = 2


class User(threading.Thread):
    """Submits, repeats, pauses, resumes and cancels, and asks again for whatever had no answer."""

    def __init__(self, number: int, settings: Settings, done: threading.Event) -> None:
        super().__init__(name=f"user-{number}")
        self._rng, self._settings, self._done = random.Random(number), settings, done
        self.ids: dict[str, str] = {}
        """Ids that were acknowledged, by idempotency key."""
        self.wishes: dict[str, DesiredState] = {}
        """The last wish for each sweep that was acknowledged, by id."""
        self.wrong: list[str] = []
        self.asked_again = 0

    def run(self) -> None:
        """Ask until told to be done."""
        with Client(self._settings.url, read_token(self._settings.token_file), patience_s=0) as client:
            while not self._done.is_set():
                try:
                    self._ask(client)
                except Exception as error:
                    self.wrong.append(repr(error))
                    raise

    def _ask(self, client: Client) -> None:
        key = f"{self.name}-{len(self.ids)}"
        sweep = self._until_answered(lambda: client.submit(small_sweep(key), key))
        self.ids[key] = sweep.id
        earlier = self._rng.choice(list(self.ids))
        if (again := self._until_answered(lambda: client.submit(small_sweep(earlier), earlier)).id) != self.ids[
            earlier
        ]:
            self.wrong.append(f"{earlier} was {self.ids[earlier]}, and with the same key it is {again}")
        wishes = {client.pause: DesiredState.PAUSE, client.resume: DesiredState.RUN, client.cancel: DesiredState.CANCEL}
        verb = self._rng.choice(list(wishes))
        id_ = self._rng.choice(list(self.ids.values()))
        try:
            self._until_answered(lambda: verb(id_))
            self.wishes[id_] = wishes[verb]
        except Conflict:  # a cancelled sweep is neither paused nor resumed
            if self.wishes.get(id_) is not DesiredState.CANCEL or verb == client.cancel:
                self.wrong.append(f"{id_}: {verb.__name__} is refused, though nobody has cancelled it")

    def _until_answered(self, ask: Callable[[], SweepView]) -> SweepView:
        while True:
            try:
                return ask()
            except Unreachable:
                self.asked_again += 1
                time.sleep(0.05)


class Api:
    """A real API, which is killed and started again."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._trap = settings, settings.home / "trap"
        self._log = settings.home / "api.log"
        path = os.pathsep.join([str(PLANTED), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._environment = os.environ | {"PYTHONPATH": path, "KILLED_AFTER_COMMIT": str(self._trap)}
        self._process: subprocess.Popen[bytes] | None = None
        self.sprung = 0
        """Number of kills between a commit and its answer."""

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with self._log.open("ab") as log:
            words = [sys.executable, "-m", "sweep_service", "api"]
            self._process = process = subprocess.Popen(
                words, env=self._environment, stdin=subprocess.PIPE, stdout=log, stderr=log
            )
        wait_until("the API answers", lambda: process.poll() is not None or answers(self._settings))
        assert process.poll() is None, self._log.read_text()

    def kill_after_commit(self) -> None:
        """Have it killed at the next commit, before that is answered."""
        assert self._process is not None
        self._trap.touch()
        self._process.wait(60)
        self._trap.with_suffix(".sprung").unlink()
        self.sprung += 1
        self.end()

    def end(self) -> None:
        """Kill it."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()


@contextmanager
def asking(settings: Settings) -> Generator[list[User]]:
    """Have users ask until the block ends, and until everything that they asked has an answer."""
    done = threading.Event()
    users = [User(number, settings, done) for number in range(USERS)]
    for user in users:
        user.start()
    try:
        yield users
    finally:
        done.set()
    for user in users:
        user.join(PATIENT_S)
        assert not user.is_alive()


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_what_was_acknowledged_is_there_once_however_often_the_api_is_killed(settings: Settings) -> None:
    settings.home.mkdir(0o700)
    ensure_token(settings.token_file)
    open_store(settings.database_url).close()
    rng, api = random.Random(KILLS), Api(settings)
    api.start()
    with asking(settings) as users:
        for number in range(KILLS):
            if number % 2:
                api.kill_after_commit()
            else:
                time.sleep(rng.uniform(0, 0.5))
                api.end()
            api.start()
    api.end()
    assert [word for user in users for word in user.wrong] == []
    told = {key: id_ for user in users for key, id_ in user.ids.items()}
    check_store(settings, told, {id_: wish for user in users for id_, wish in user.wishes.items()})
    again = sum(user.asked_again for user in users)
    print(f"{KILLS} kills, {api.sprung} of them after a commit; {len(told)} sweeps, {again} requests asked again")
    assert [command for process in processes_of(settings.home) if (command := command_of(process))] == []


def check_store(settings: Settings, told: dict[str, str], wishes: dict[str, DesiredState]) -> None:
    """Every acknowledged sweep is there once, whole, as was last wished, with events that tell of it without gaps."""
    store = open_store(settings.database_url)
    sweeps = store.list_sweeps(100_000)
    assert Counter(sweep.name for sweep in sweeps) == Counter(list(told))
    assert {sweep.name: sweep.id for sweep in sweeps} == told
    for sweep in sweeps:
        assert sweep.desired_state is wishes.get(sweep.id, DesiredState.RUN), sweep
        assert len(store.list_trials(sweep.id)) == TRIALS, sweep
        events = store.list_events(sweep.id)
        assert [event.seq for event in events] == list(range(1, len(events) + 1)), sweep
        assert Counter(event.type for event in events)["sweep.created"] == 1, sweep
    store.close()
