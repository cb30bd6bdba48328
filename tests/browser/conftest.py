"""A Chromium that is installed on this machine, and pages in it that are watched. `make browser` runs these tests."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = ("--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync")
expect.set_options(timeout=30_000)  # milliseconds: a busy machine is slow, not wrong


def chromium() -> str | None:
    """Return the path of $CHROMIUM, or of the first known browser on PATH."""
    return shutil.which(os.environ.get("CHROMIUM", "")) or next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = chromium()
    if path is None:
        pytest.exit(
            f"The browser tests need an installed Chromium: none of {', '.join(NAMES)} is on PATH. "
            "Install one (on Debian: apt install chromium), or name it: make browser CHROMIUM=/opt/chrome/chrome",
            returncode=1,
        )
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield started
        started.close()


@dataclass
class Visit:
    """A page, and what happened on it that must not."""

    page: Page
    requests: list[str] = field(default_factory=list[str])
    """Addresses asked for, other than files and data inside the page."""
    errors: list[str] = field(default_factory=list[str])
    dialogs: list[str] = field(default_factory=list[str])

    def assert_clean(self) -> None:
        assert self.requests == []
        assert self.errors == []
        assert self.dialogs == []

    def scroll_through(self) -> None:
        """Go down the page a screen at a time, as a reader does."""
        self.page.evaluate("document.documentElement.style.scrollBehavior = 'auto'")
        self.page.evaluate(
            """async () => {
              const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 30)));
              const height = () => document.documentElement.scrollHeight;
              for (let y = 0; y < height(); y += innerHeight / 2) { scrollTo(0, y); await frame(); }
            }"""
        )


class Open(Protocol):
    def __call__(self, content: bytes, **context: Any) -> Visit: ...


@pytest.fixture
def visit(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Open a page from a file with the network off."""
    contexts: list[Any] = []

    def open_page(content: bytes, **context: Any) -> Visit:
        file = tmp_path / f"page{len(contexts)}.html"
        file.write_bytes(content)
        made = browser.new_context(offline=True, **context)
        contexts.append(made)
        found = Visit(made.new_page())
        page = found.page
        page.on("request", lambda request: _note_request(found, request.url))
        page.on("pageerror", lambda error: found.errors.append(str(error)))
        page.on("console", lambda line: found.errors.append(line.text) if line.type in ("error", "warning") else None)
        page.on("dialog", lambda dialog: (found.dialogs.append(dialog.message), dialog.dismiss()))
        page.goto(file.as_uri())
        return found

    yield open_page
    for context in contexts:
        context.close()


def _note_request(found: Visit, url: str) -> None:
    if not url.startswith(("file://", "data:", "blob:")):
        found.requests.append(url)
