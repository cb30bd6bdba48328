"""Adapts MLflow's page to our readers without changing MLflow: settings kept by the browser, and a style sheet.

Their names are those of MLflow 3.17. The tests in `tests/browser/test_mlflow_page.py` fail when it renames one.
"""

import json
from typing import Any, Final

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Scope, Send

_SETTINGS: Final[dict[str, Any]] = {
    # The assistant opens by itself on a local server, and takes a quarter of the page.
    "mlflow.assistant.fab.autoOpenedOnFirstLoad_v1": True,
    "mlflow.assistant.panelOpen_v1": False,
    "mlflow.workflowType_v1": "machine_learning",  # or a link to a run shows it among evaluations
    "mlflow.home.getting-started.collapsed_v1": True,
    "mlflow.telemetry.info.alert.dismissed_v1": True,
}
_ITEMS: Final = json.dumps([[name, json.dumps(value)] for name, value in _SETTINGS.items()])
SCRIPT: Final = f"<script>for (const item of {_ITEMS}) localStorage.setItem(...item)</script>"
"""Writes the settings that MLflow's page keeps in the browser; a page of the same origin must run it."""

_STYLE: Final = b"""<style>
[role=alert][data-component-id="mlflow.experiment_page.shared_view.banner"], button[data-assistant-ui] {
  display: none !important }
@media (max-width: 600px) { aside, :has(> .is-table-comparing-runs-mode) { display: none !important } }
</style>"""
"""Hides the banner over every sweep's charts, the assistant's button and, on a phone, everything beside the charts."""


def whole(scope: Scope) -> Scope:
    """Return the request without its conditions: a browser's copy of the page may lack the present style sheet."""
    conditions = (b"if-none-match", b"if-modified-since")
    return {**scope, "headers": [header for header in scope["headers"] if header[0] not in conditions]}


def styled(send: Send) -> Send:
    """Return a channel that adds our style sheet to the head of the page that passes through."""
    start: Message = {}
    page = bytearray()

    async def pass_on(message: Message) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
            return
        page.extend(message.get("body", b""))
        if not message.get("more_body"):
            body = page.replace(b"</head>", _STYLE + b"</head>", 1)
            MutableHeaders(raw=start["headers"])["content-length"] = str(len(body))
            await send(start)
            await send({"type": "http.response.body", "body": bytes(body)})

    return pass_on
