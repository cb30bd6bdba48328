"""One run: undisturbed sweeps, the nemesis, calm, judgement, table."""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from sweep_service.client import Client
from sweep_service.errors import Conflict, NotFound, ServiceError
from sweep_service.store import Store, open_store
from sweep_service.sweep.records import DesiredState, TrialState
from sweep_service.worker.work_loop import progress_of
from tests.chaos.faults import FAULTS
from tests.chaos.installation import Installation, installed
from tests.chaos.invariants import Oracle
from tests.chaos.nemesis import Nemesis
from tests.chaos.references import Reference, make_references
from tests.chaos.specs import SPECS
from tests.chaos.table import table
from tests.chaos.verbs import VERBS, Asked, Book, look_at_states, send
from tests.chaos.watch import Watch
from tests.waiting import wait_until

NEEDS_DISK: Final = ("full disk",)
CALM_S: Final = 400.0
"""Seconds in calm within which some sweep must get further; a runner that fails at once is given up after 300."""


class Result(NamedTuple):
    """The outcome of a run."""

    broken: list[str]
    table: list[str]


def run(
    minutes: float,
    seed: int,
    kinds: Sequence[str],
    say: Callable[[str], None],
    evidence: Path,
    mistake: str | None = None,
    sweeps: Sequence[str] = tuple(SPECS),
    verbs: Sequence[str] = tuple(VERBS),
    calm_s: float = CALM_S,
) -> Result:
    """Run the nemesis for some minutes over a new installation.

    Args:
        kinds: kinds of faults.
        say: called with lines about the progress.
        evidence: new folder for database and logs, made if something is broken.
        sweeps: kinds of sweeps that are submitted.
        verbs: what is asked for.
        mistake: name of a mistake that is planted in runners and worker, to see that it is found.
        calm_s: seconds in calm within which some sweep must get further.
    """
    rng, book = random.Random(seed), Book(sweeps)
    with installed(disk=any(kind in NEEDS_DISK for kind in kinds)) as installation:
        if not installation.disk and any(kind in NEEDS_DISK for kind in kinds):
            say("left out: full disk, because a disk can be mounted by root alone")
            kinds = [kind for kind in kinds if kind not in NEEDS_DISK]
        if mistake is not None:
            installation.plant(mistake)
        installation.start()
        installation.wait_until_ready()
        say(f"{installation.settings.url} answers; home {installation.home}")
        with installation.client(patience_s=60, timeout_s=60) as client:
            references = make_references(client, say, sweeps)
        watch = Watch(installation)
        watch.start()
        nemesis = Nemesis(installation, watch, book, kinds, verbs, rng, say)
        with installation.client(patience_s=0, timeout_s=4) as hasty:
            nemesis.run(hasty, 60 * minutes)
        say("calm: no further faults")
        nemesis.undo_all()
        broken = [*nemesis.tally.broken, *_bring_to_an_end(installation, book, say, calm_s)]
        watch.stop()
        broken += [*watch.broken, *_judge(installation, book, references, say)]
        broken += [f"left behind after the end of serve: {command}" for command in installation.stop()]
        if broken:
            installation.keep_evidence(evidence)
        lines = [*table(seed, nemesis.tally, watch.recoveries), f"serve was started {installation.starts} times"]
        return Result(broken, lines)


def _bring_to_an_end(
    installation: Installation, book: Book, say: Callable[[str], None], calm_s: float
) -> Iterator[str]:
    """Settle what was asked without an answer, resume what is paused, try again what has failed; wait for all ends."""
    installation.wait_until_ready()
    store = open_store(installation.settings.database_url)
    try:
        with installation.client(patience_s=60, timeout_s=60) as client:
            for asked in [one for one in book.sweeps if one.id is None]:
                send(client, book, asked)
            ended = partial(_wait_for_ends, installation, client, store, book, say, calm_s)
            if (stuck := ended()) is None:
                _try_again(client, book)
                stuck = ended()
            if stuck is not None:
                yield stuck
            _delete_again(client, book)
    except ServiceError as error:
        yield f"expected that the service answers in calm; {error}"
    finally:
        store.close()


def _wait_for_ends(
    installation: Installation, client: Client, store: Store, book: Book, say: Callable[[str], None], calm_s: float
) -> str | None:
    """Wait until every sweep has ended; say so if none gets further for `calm_s` seconds."""
    progress, deadline, told = dict[str, int](), 0.0, 0.0
    while unended := _unended(client, book):
        installation.tend()
        now = {asked.key: progress_of(store, str(asked.id)) for asked in unended}
        if now != progress:
            progress, deadline = now, time.monotonic() + calm_s
        if time.monotonic() > deadline:
            states = [(asked.key, asked.id, asked.state.value) for asked in unended]
            return f"expected that every sweep ends; in calm these got no further for {calm_s:.0f} s: {states}"
        if time.monotonic() > told:
            told = time.monotonic() + 15
            say(f"calm: {len(unended)} sweeps have not ended")
        time.sleep(1)
    return None


def _unended(client: Client, book: Book) -> list[Asked]:
    """Return the sweeps that have not ended; a paused one is resumed."""
    look_at_states(client, book)
    unended = book.of_state(lambda asked: not asked.state.is_over)
    for asked in unended:
        assert asked.id is not None
        if client.get(asked.id).desired_state is DesiredState.PAUSE:
            client.resume(asked.id)
    return unended


def _try_again(client: Client, book: Book) -> None:
    """Try failed trials again, once; a cancelled sweep trains no more."""
    for asked in book.of_state(lambda asked: "cancel" not in asked.granted):
        assert asked.id is not None
        failed = [trial for trial in client.trials(asked.id) if trial.state is TrialState.FAILED]
        if failed:
            asked.verbs.add("retry")
            try:
                client.retry_failed(asked.id)
            except Conflict:  # it was cancelled after all
                assert "cancel" in asked.verbs


def _delete_again(client: Client, book: Book) -> None:
    """Delete what was to be deleted, in case that the request or its answer was lost."""
    for asked in [one for one in book.sweeps if "delete" in one.verbs and one.id is not None]:
        try:
            client.delete(str(asked.id))
            asked.granted.add("delete")
        except NotFound:
            asked.granted.add("delete")


def _judge(
    installation: Installation, book: Book, references: dict[str, Reference], say: Callable[[str], None]
) -> Iterator[str]:
    """Return what is broken, as far as the service answers."""
    say(f"judging {len(book.sweeps)} sweeps")
    store = open_store(installation.settings.database_url)
    try:
        wait_until("MLflow answers", lambda: (installation.home / "address.json").exists(), 60)
        with installation.client(patience_s=60, timeout_s=60) as client, installation.mlflow() as mlflow:
            yield from Oracle(client, store, mlflow, book, references).judge()
    except ServiceError as error:
        yield f"the service does not answer in calm: {error}"
    finally:
        store.close()


def chosen(only: str) -> list[str]:
    """Return the kinds of faults that are named, or that have one of the words; all without a word.

    Raises: ValueError, for a word that no kind has.
    """
    words = [word.strip() for word in only.split(",") if word.strip()]
    for word in words:
        if not any(word in kind for kind in FAULTS):
            raise ValueError(f"{word!r} is in no kind of fault; there are: {', '.join(FAULTS)}")
    return [kind for kind in FAULTS if not words or any(word in kind for word in words)]
