"""What a report costs in the database and on the wire, beside how it was kept before: whole and uncompressed.

    python bench/report_store.py                      on SQLite, in a temporary folder
    python bench/report_store.py --database URL       on an empty PostgreSQL database

The reports are of a made-up sweep of 40 trials. Bytes are those of the contents' columns. Times are medians of GETs of
the page on loopback, one way after the other in turns, so that a busy machine slows all alike.
"""

import argparse
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

import httpx
import report_scale
from sqlalchemy import func, select, update

from sweep_service.api.server import listen, make_server
from sweep_service.report.render.html import page_script
from sweep_service.service import SweepService
from sweep_service.settings import Settings
from sweep_service.store import Store, open_store, tables
from sweep_service.worker.reports.contents import build_report

REPORTS: Final = 20
ROUNDS: Final = 30
SPEC: Final[dict[str, Any]] = report_scale.SPEC | {
    "space": {"loss.beta1": [0.0, 0.5], "loss.beta2": [0.5, 1.0], "loss.epsilon": [0.2]},
    "seeds": {"tune": [0, 1, 2, 3], "confirm": {"top_k": 4, "seeds": [100, 101]}},
}
WAYS: Final = (("before", "before", "identity"), ("now", "now", "identity"), ("now, gzip", "now", "gzip"))
"""Name of each way to get a page, the sweeps that are asked, and what the client accepts."""


def fill(store: Store, settings: Settings) -> dict[str, list[str]]:
    """Keep the same report for many sweeps, of which half are kept as before; return their ids by way."""
    url = settings.database_url
    report_scale.generate(url, SPEC)
    digest, contents, _ = build_report(store, report_scale.SWEEP, settings)
    sweep = store.get_sweep(report_scale.SWEEP)
    ids = {way: [f"swp_{way}{number}" for number in range(REPORTS)] for way in ("before", "now")}
    for sweep_id in [*ids["before"], *ids["now"]]:
        store.create_sweep(sweep.model_copy(update={"id": sweep_id}), [], [])
        store.put_report(sweep_id, digest, contents, page_script())
    with store.engine.begin() as connection:
        for format_, content in contents.items():
            r = tables.reports.c
            mine = update(tables.reports).where(r.sweep_id.in_(ids["before"]), r.format == format_)
            connection.execute(mine.values(content=content, gzipped=False, part=None, part_at=None))
    return ids


def stored(store: Store, ids: list[str]) -> float:
    """Return the bytes of a report, all its formats together."""
    r = tables.reports.c
    with store.engine.connect() as connection:
        total = select(func.sum(func.length(r.content))).where(r.sweep_id.in_(ids))
        return float(connection.execute(total).scalar_one()) / len(ids)


def measure(url: str, token: str, ids: dict[str, list[str]]) -> None:
    """Print the median time of a GET, and the bytes on the wire, by way."""
    seconds: dict[str, list[float]] = {name: [] for name, _, _ in WAYS}
    sent: dict[str, int] = {}
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, trust_env=False) as http:
        for number in range(ROUNDS):
            for name, way, encoding in WAYS:
                path = f"/v1/sweeps/{ids[way][number % REPORTS]}/report"
                began = time.perf_counter()
                with http.stream("GET", path, headers={"Accept-Encoding": encoding}) as answer:
                    sent[name] = sum(len(chunk) for chunk in answer.iter_raw())
                seconds[name].append(time.perf_counter() - began)
    for name, times in seconds.items():
        print(f"GET, {name:12} {1000 * statistics.median(times):8.1f} ms {sent[name] / 1e6:8.2f} MB on the wire")


def main() -> None:
    """Fill a store, serve it, and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", metavar="URL", default="", help="an empty PostgreSQL database")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sweeps-report-store-") as folder:
        settings = Settings(home=Path(folder), database_url=options.database)
        store = open_store(settings.database_url)
        ids = fill(store, settings)
        with store.engine.connect() as connection:
            part = connection.execute(select(func.sum(func.length(tables.report_parts.c.deflated)))).scalar_one()
        for way in ("before", "now"):
            print(f"a report, {way:8} {stored(store, ids[way]):12,.0f} bytes")
        print(f"the script that all pages share {part:,} bytes, once")
        server, listener = make_server(SweepService(store, settings), "token"), listen("127.0.0.1", 0)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        measure(f"http://127.0.0.1:{listener.getsockname()[1]}", "token", ids)
        server.should_exit = True
        thread.join()
        store.close()


if __name__ == "__main__":
    main()
