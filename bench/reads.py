"""The cost of reading through the API, on a database of 200 sweeps, 10,000 trials and 250,000 parts of curves.

    python bench/reads.py                       makes the database if need be (minutes, 4 GB), and asks
    python bench/reads.py --beside ../earlier   asks the code of another checkout as well, in turns
    python bench/reads.py --database URL        uses a PostgreSQL database, an empty one or one that this has filled

The database lies in --folder, by default a temporary one that is kept. Figures are processor time of the API's process
a request, the median of the rounds; each request asks for another sweep, as a page that nobody has looked at before.
Then 100 clients ask at once for pages and curves while one signs in: the slowest sign-in, and answers of 500 and above.
"""

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import psutil
import report_scale
from sqlalchemy import Connection, func, literal, select, text

from sweep_service.auth import ensure_token
from sweep_service.store import open_store, tables

SWEEPS, CLIENTS, ROUNDS, ASKED = 200, 100, 5, 20
SPEC: Final[dict[str, Any]] = report_scale.SPEC | {
    "training": report_scale.SPEC["training"] | {"steps": 160},
    "space": {"loss.beta1": [0.0, 0.25, 0.5, 1.0], "loss.beta2": [0.5, 1.0]},
    "seeds": {"tune": [0, 1, 2, 3], "confirm": {"top_k": 2, "seeds": [100, 101]}},
}
REQUESTS: Final = {
    "sweeps": ("/v1/sweeps", 10),
    "trials": ("/v1/sweeps/{sweep}/trials", 10),
    "configs": ("/v1/sweeps/{sweep}/configs", 10),
    "one curve a trial": ("/v1/sweeps/{sweep}/metrics?keys=entropy", 46),
    "one curve a config": ("/v1/sweeps/{sweep}/metrics?keys=entropy&group_by=config", 46),
    "list of sweeps, page": ("/", 10),
    "status page, first": ("/sweeps/{sweep}", 25),
    "its curves, first": ("/sweeps/{sweep}/curves", 60),
}
"""What is asked, and at most how many milliseconds it may take."""


class Side(NamedTuple):
    """One API that is asked."""

    name: str
    http: httpx.Client
    process: psutil.Process
    home: Path

    def spent(self) -> float:
        """Return the processor's seconds that it has used."""
        times = self.process.cpu_times()
        return times.user + times.system


def fill(url: str) -> None:
    """Store one made-up sweep, and the others as copies of it."""
    store = open_store(url)
    with store.engine.connect() as connection:
        present = connection.execute(select(func.count()).select_from(tables.sweeps)).scalar_one()
    if not present:
        report_scale.generate(url, SPEC)
    for number in range(max(1, present), SWEEPS):
        with store.engine.begin() as connection:
            _copy(connection, f"{number:03}")
    with store.engine.connect() as connection:
        if store.engine.dialect.name == "sqlite":
            connection.execute(text("ANALYZE"))
        counted = {
            table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in (tables.sweeps, tables.trials, tables.curves)
        }
    print(", ".join(f"{number:,} {name}" for name, number in counted.items()))
    store.close()


def _copy(connection: Connection, ending: str) -> None:
    """Copy the sweep; ids get this ending."""
    trials = select(tables.trials.c.id).where(tables.trials.c.sweep_id == report_scale.SWEEP)
    mine = {"sweep_id": (report_scale.SWEEP,), "trial_id": trials}
    for table in (tables.sweeps, tables.configs, tables.trials, tables.attempts, tables.curves, tables.samples,
                  tables.checkpoints):  # fmt: skip
        values = {column.name: column + literal(ending) if column.name in mine else column for column in table.c}
        if table in (tables.sweeps, tables.trials):
            values["id"] = table.c.id + literal(ending)
        if table is tables.curves:
            del values["id"]
        if table is tables.sweeps:
            values["created_at"] = table.c.created_at + float(ending)
        owner = next((column for column in table.c if column.name in mine), tables.sweeps.c.id)
        rows = select(*values.values()).where(owner.in_(mine.get(owner.name, mine["sweep_id"])))
        connection.execute(table.insert().from_select(list(values), rows, include_defaults=False))
    events = connection.execute(select(tables.events).where(tables.events.c.sweep_id == report_scale.SWEEP)).mappings()
    copies = [dict(event) | {"sweep_id": report_scale.SWEEP + ending} for event in events]
    for copy in copies:
        if trial := copy["data"].get("trial_id"):
            copy["data"] = copy["data"] | {"trial_id": trial + ending}
    connection.execute(tables.events.insert(), copies)


@contextmanager
def api(name: str, code: Path, url: str, home: Path) -> Iterator[Side]:
    """Run the API of a checkout, and sign in."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = ensure_token(home / "token")
    settings = {"SWEEPS_HOME": str(home), "SWEEPS_DATABASE_URL": url, "SWEEPS_PORT": str(port)}
    environment = os.environ | settings | {"PYTHONPATH": str(code), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-m", "sweep_service", "api"], cwd=code, env=environment)
    bearer = {"Authorization": f"Bearer {token}"}
    address = f"http://127.0.0.1:{port}"
    try:
        with httpx.Client(base_url=address, headers=bearer, trust_env=False, timeout=60) as http:
            while not _answers(http):
                time.sleep(0.1)
            http.post("/login", data={"token": token}, headers={"Origin": address})
            yield Side(name, http, psutil.Process(process.pid), home)
    finally:
        process.terminate()
        process.wait()


def _answers(http: httpx.Client) -> bool:
    try:
        return http.get("/livez").is_success
    except httpx.TransportError:
        return False


def measure(sides: list[Side], ids: list[str]) -> bool:
    """Print what each request costs each side; return whether the first side keeps all limits."""
    kept = True
    print(f"{'ms of processor time':24}" + "".join(f"{side.name:>12}" for side in sides) + f"{'limit':>8}")
    for name, (path, limit) in REQUESTS.items():
        asked = {side.name: cycle(ids) for side in sides}
        cost: dict[str, list[float]] = {side.name: [] for side in sides}
        for _ in range(ROUNDS):
            for side in sides:
                began = side.spent()
                for sweep in (next(asked[side.name]) for _ in range(ASKED)):
                    side.http.get(path.format(sweep=sweep)).raise_for_status()
                cost[side.name].append(1000 * (side.spent() - began) / ASKED)
        medians = [statistics.median(cost[side.name]) for side in sides]
        kept = kept and medians[0] <= limit
        print(f"{name:24}" + "".join(f"{value:12.1f}" for value in medians) + f"{limit:8}", flush=True)
    return kept


def crowd(side: Side, ids: list[str]) -> bool:
    """Let many clients ask at once; print the slowest sign-in, and how many answers failed."""
    paths = [path for path, _ in REQUESTS.values()]
    token, address = ensure_token(side.home / "token"), str(side.http.base_url)

    def client(number: int) -> list[int]:
        headers, cookies = side.http.headers, side.http.cookies
        with httpx.Client(base_url=address, headers=headers, cookies=cookies, trust_env=False, timeout=600) as http:
            return [
                http.get(path.format(sweep=ids[(number + place) % len(ids)])).status_code
                for place, path in enumerate(paths)
            ]

    signing: list[float] = []
    with ThreadPoolExecutor(CLIENTS) as pool, httpx.Client(base_url=address, trust_env=False, timeout=600) as http:
        began = time.monotonic()
        clients = [pool.submit(client, number) for number in range(CLIENTS)]
        while not all(one.done() for one in clients):
            sent = time.monotonic()
            http.post("/login", data={"token": token}, headers={"Origin": address.rstrip("/")})
            signing.append(time.monotonic() - sent)
            time.sleep(0.1)
        took = time.monotonic() - began
        codes = Counter(code for one in clients for code in one.result())
    failed = sum(number for code, number in codes.items() if code >= 500)
    print(
        f"{side.name}: {CLIENTS} clients at once, {codes.total()} answers in {took:.1f} s, {failed} of 500 and above; "
        f"{len(signing)} sign-ins, the slowest {max(signing):.2f} s"
    )
    return failed == 0 and max(signing) <= 2


def main() -> int:
    """Fill the database, ask, judge this checkout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(tempfile.gettempdir()) / "sweeps-reads"
    parser.add_argument("--folder", type=Path, default=default, help="for the database")
    parser.add_argument("--database", metavar="URL", help="a PostgreSQL database")
    parser.add_argument("--beside", type=Path, metavar="CHECKOUT", help="another checkout, to compare with")
    options = parser.parse_args()
    folder: Path = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    url = options.database or f"sqlite:///{folder / 'reads.db'}"
    fill(url)
    store = open_store(url)
    ids = [sweep.id for sweep in store.list_sweeps(SWEEPS, None)]
    store.close()
    with ExitStack() as stack:
        homes = {name: Path(stack.enter_context(tempfile.TemporaryDirectory())) for name in ("here", "beside")}
        sides = [stack.enter_context(api("here", Path(__file__).resolve().parents[1], url, homes["here"]))]
        if options.beside:
            sides.append(stack.enter_context(api("beside", options.beside.resolve(), url, homes["beside"])))
        kept = measure(sides, ids)
        for side in sides[1:]:
            crowd(side, ids)
        return 0 if crowd(sides[0], ids) and kept else 1


if __name__ == "__main__":
    sys.exit(main())
