"""Answers that no MLflow gives."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from sweep_service.tracking.mlflow_api import MlflowApi
from sweep_service.tracking.tracker import TrackerAway


class SignIn(http.server.BaseHTTPRequestHandler):
    """The page of something that stands before MLflow."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>sign in</html>")


@pytest.fixture
def page() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), SignIn) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_page_in_place_of_an_answer_may_be_gone_soon(page: str) -> None:
    with closing(MlflowApi(page)) as tracker, pytest.raises(TrackerAway, match="no JSON, but '<html>sign in</html>'"):
        tracker.experiment("sweeps")
