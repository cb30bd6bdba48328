"""Builds one report after another. `python -m sweep_service.worker.reports.process`: started by the worker.

    in    {"sweep_id": "swp_…", "interim": false, "patient": false}
    out   {"kept": true}, {"failure": "KeyError: 'loss'"}, or {"away": "why the database did not answer"}

It ends at the end of its input, and may be ended at any time: a report is kept whole or not at all. What it prints on
standard error is for the worker's log.
"""

import faulthandler
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

from sqlalchemy.exc import InterfaceError, OperationalError

from sweep_service.settings import Settings
from sweep_service.store import DatabaseAway, open_store
from trainers.process.imports import without_collections
from trainers.process.lifeline import ORPHANED_EXIT_CODE, die_with_parent

_NICE: Final = 10
"""Niceness of the thread that builds a patient report, so that trainers go first; Linux has one for each thread."""


def main() -> None:
    """Build reports until standard input ends."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ends it at once, as SIGTERM does
    faulthandler.enable()
    with suppress(OSError):  # if memory runs out, this process is the one to end, not the worker or a trainer
        Path("/proc/self/oom_score_adj").write_text("1000")
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints is no answer
    requests: SimpleQueue[str] = SimpleQueue()

    def read() -> None:  # while a report is built, so that the end of the input ends this process at once
        for line in sys.stdin:
            requests.put(line)
        os._exit(ORPHANED_EXIT_CODE)

    threading.Thread(target=read, name="requests", daemon=True).start()
    settings = Settings()
    while True:
        request = json.loads(requests.get())
        with ThreadPoolExecutor(1, initializer=os.nice, initargs=(_NICE if request["patient"] else 0,)) as builder:
            answer = builder.submit(_answer, settings, request["sweep_id"], interim=request["interim"]).result()
        answers.write(json.dumps(answer) + "\n")


def _answer(settings: Settings, sweep_id: str, *, interim: bool) -> Mapping[str, Any]:
    """Build and store a report; return the answer for the worker."""
    try:
        store = open_store(settings.database_url)
        with without_collections():
            from sweep_service.report.render.html import page_script  # brings plotly, scipy and matplotlib: seconds
            from sweep_service.worker.reports.contents import build_report

        put = store.put_interim_report if interim else store.put_report
        built = build_report(store, sweep_id, settings)
        put(sweep_id, built.inputs_digest, built.contents, page_script(), compares=built.compares)
        store.close()
    except (DatabaseAway, InterfaceError, OperationalError) as error:
        return {"away": str(error)}
    except Exception as error:  # noqa: BLE001 the worker is told, whatever it was
        traceback.print_exc()
        return {"failure": traceback.format_exception_only(error)[-1].strip()}
    return {"kept": True}


if __name__ == "__main__":
    main()
