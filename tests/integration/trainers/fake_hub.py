"""A Hub on this machine: what huggingface_hub asks for, answered as the Hub does, with its faults on demand.

Large files are not sent by the Hub itself: it redirects to another server, as it does to its content network.
"""

import hashlib
import json
import re
import socket
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

LARGE = 2000
"""Files from this size on are kept apart, with a sha256, as by Git LFS."""
COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER_COMMIT = "89abcdef0123456789abcdef0123456789abcdef"


@dataclass
class FakeHub:
    """What the server holds and does; the fields may be changed while it runs."""

    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    """Files by `models/OWNER/NAME` or `datasets/OWNER/NAME`."""
    token: str | None = None
    """Who sends another one, or none, finds nothing."""
    gated: bool = False
    status: int | None = None
    """Answers this to everything."""
    cut_after: int | None = None
    """A large file's connection breaks after so many bytes of one answer."""
    ranges: bool = True
    """Without them a file always comes from its beginning."""
    stall_after: int | None = None
    """After so many bytes of a large file nothing more comes, until the other side has gone."""
    damaged: str | None = None
    """The name of a file that arrives with other content."""
    moved: bool = False
    """`main` is another commit by now."""
    sent: list[tuple[str, int, int]] = field(default_factory=list)
    """Name, first byte and number of bytes of each file that was sent."""
    authorizations: dict[str, set[str | None]] = field(default_factory=lambda: {"hub": set(), "cdn": set()})
    url: str = ""

    def add(self, name: str, source: Path | dict[str, bytes]) -> None:
        files = source if isinstance(source, dict) else {p.name: p.read_bytes() for p in source.iterdir()}
        self.repositories[name] = files

    def sent_of(self, name: str) -> list[tuple[int, int]]:
        return [(begin, size) for sent, begin, size in self.sent if sent == name]

    @property
    def commit(self) -> str:
        return OTHER_COMMIT if self.moved else COMMIT


@contextmanager
def fake_hub() -> Generator[FakeHub]:
    hub = FakeHub()
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub, part)) for part in ("cdn", "hub")]
    hub.url = f"http://127.0.0.1:{servers[1].server_port}"
    hub_cdn = f"http://127.0.0.1:{servers[0].server_port}"
    for server in servers:
        server.cdn_url = hub_cdn  # pyright: ignore[reportAttributeAccessIssue]
        server.daemon_threads = True
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield hub
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


def _handler(hub: FakeHub, part: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None: ...

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            hub.authorizations[part].add(self.headers.get("Authorization"))
            path = self.path.partition("?")[0]
            if hub.status:
                return self.answer(hub.status, b"")
            if part == "cdn":
                _, kind, owner, repo, name = path.split("/", 4)
                return self.send_file(f"{kind}/{owner}/{repo}", name)
            if match := re.fullmatch(r"/api/(models|datasets)/([^/]+/[^/]+)/(revision|tree)/([^/]+)", path):
                kind, repo, what, revision = match.groups()
                if self.refused(f"{kind}/{repo}", revision.replace("%2F", "/")):
                    return None
                return self.answer_json(self.info(repo) if what == "revision" else self.tree(f"{kind}/{repo}"))
            if match := re.fullmatch(r"/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
                kind, repo, revision, name = match.groups()
                full = f"{(kind or 'models/').rstrip('/')}/{repo}"
                if self.refused(full, revision):
                    return None
                if len(hub.repositories[full][name]) < LARGE:
                    return self.send_file(full, name)
                location = f"{self.server.cdn_url}/{full}/{name}?signature=1"  # pyright: ignore[reportAttributeAccessIssue]
                return self.answer(302, b"", {"Location": location})
            return self.answer(404, b"")

        def refused(self, full: str, revision: str) -> bool:
            known = full in hub.repositories and (
                not hub.token or self.headers.get("Authorization") == f"Bearer {hub.token}"
            )
            if not known:
                wrong = self.headers.get("Authorization") and hub.token
                message = {"X-Error-Message": "Invalid credentials in Authorization header"} if wrong else {}
                self.answer(401, b"", message or {"X-Error-Code": "RepoNotFound"})
            elif hub.gated:
                self.answer(403, b"", {"X-Error-Code": "GatedRepo"})
            elif revision not in ("main", "v1", COMMIT, OTHER_COMMIT):
                self.answer(404, b"", {"X-Error-Code": "RevisionNotFound"})
            else:
                return False
            return True

        def info(self, repo: str) -> Any:
            return {"id": repo, "sha": hub.commit, "siblings": [], "private": False, "downloads": 0, "tags": []}

        def tree(self, full: str) -> Any:
            return [_listed(name, content) for name, content in hub.repositories[full].items()]

        def send_file(self, full: str, name: str) -> None:
            content = hub.repositories[full][name]
            if name == hub.damaged:
                content = b"#" * len(content)
            asked = self.headers.get("Range", "bytes=0-") if hub.ranges else "bytes=0-"
            begin = int(re.fullmatch(r"bytes=(\d+)-", asked).group(1))
            rest = content[begin:]
            cut = hub.cut_after if len(content) >= LARGE else None
            headers = {"Accept-Ranges": "bytes", "Content-Length": str(len(rest))}
            if begin:
                headers["Content-Range"] = f"bytes {begin}-{len(content) - 1}/{len(content)}"
            part_sent = rest if cut is None else rest[:cut]
            if hub.stall_after is not None and len(content) > hub.stall_after:
                self.answer(200, rest[: hub.stall_after], headers)
                self.wfile.flush()
                self.rfile.read(1)  # returns when the other side has gone
                return
            hub.sent.append((name, begin, len(part_sent)))
            self.answer(206 if begin else 200, part_sent, headers)
            if len(part_sent) < len(rest):
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)

        def answer_json(self, value: Any) -> None:
            self.answer(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

        def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for name, value in (
                {"Content-Length": str(len(body))} | (headers or {}) | {"X-Repo-Commit": hub.commit}
            ).items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    return Handler


def _listed(name: str, content: bytes) -> dict[str, Any]:
    git_hash = hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()
    listed = {"type": "file", "path": name, "size": len(content), "oid": git_hash}
    if len(content) >= LARGE:
        digest = hashlib.sha256(content).hexdigest()
        listed["lfs"] = {"oid": digest, "size": len(content), "pointerSize": 130}
    return listed
