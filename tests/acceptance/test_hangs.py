"""Whatever stands still is killed and started again, though it has not ended."""

import signal

import psutil
import pytest

import sweep_service.serve.services as serve_services
from sweep_service.serve import Stack
from sweep_service.settings import Settings
from tests.sweep_stack import one_of
from tests.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]


def listeners(url: str) -> list[psutil.Process]:
    """Return the processes that listen where a server of the stack is reached."""
    port = int(url.rpartition(":")[2])
    found = [one for one in psutil.net_connections("tcp") if one.laddr and one.laddr[1] == port]
    return [psutil.Process(one.pid) for one in found if one.status == psutil.CONN_LISTEN and one.pid]


def test_serve_starts_again_what_stands_still(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, patience_s in (("SILENT_S", 10.0), ("STILL_S", 15.0)):
        monkeypatch.setattr(serve_services, name, patience_s)
    said = list[str]()
    with Stack(settings, cpus=1, gpus=0, say=said.append) as stack:
        vigils = [service.vigil for service in stack._services if service.vigil is not None]
        wait_until("all have shown life", lambda: all(vigil.has_seen_life for vigil in vigils))
        urls = [stack.settings.url, stack.settings.mlflow_url]
        stopped = [*(one for url in urls for one in listeners(url)), one_of(settings.home, "sweep_service", "worker")]
        assert len(stopped) == 3
        for process in stopped:
            process.send_signal(signal.SIGSTOP)
        for process in stopped:
            wait_until(f"{process} has ended", lambda process=process: not process.is_running())
        wait_until("all are back", lambda: all(service.is_ready() for service in stack._services))
        assert one_of(settings.home, "sweep_service", "worker").status() != psutil.STATUS_STOPPED
    assert {line.partition(" has shown no life")[0] for line in said if "shown no life" in line} == {
        "mlflow",
        "api",
        "worker",
    }
