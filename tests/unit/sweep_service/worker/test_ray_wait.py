import json
import socket
from collections.abc import Generator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from sweep_service.settings import Settings
from sweep_service.worker import ray_wait
from sweep_service.worker.ray_wait import RayWait


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of a clock that only this module reads, in seconds."""
    seconds = [0.0]
    monkeypatch.setattr(ray_wait, "time", SimpleNamespace(monotonic=lambda: seconds[0]))
    return seconds


@pytest.fixture
def listening() -> Generator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def looks(wait: RayWait, now: list[float], until_s: float, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the moments at which it looked for Ray."""
    moments = list[float]()
    really = ray_wait.check_port

    def check_port(*arguments: object) -> None:
        moments.append(now[0])
        really(*arguments)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(ray_wait, "check_port", check_port)
    while now[0] < until_s:
        wait.answers  # noqa: B018
        now[0] += 0.5
    return moments


def test_the_pauses_between_looks_grow_to_a_minute(
    now: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = RayWait(Settings(home=tmp_path, ray_address="127.0.0.1:9"))
    moments = looks(wait, now, 300, monkeypatch)
    assert [later - before for before, later in pairwise(moments)] == [
        1, 2, 4, 8, 16, 32, 60, 60, 60,
    ]  # fmt: skip


def test_a_runner_that_lost_its_ray_begins_a_pause_and_one_that_worked_forgets_them(
    now: list[float], tmp_path: Path, listening: str
) -> None:
    wait = RayWait(Settings(home=tmp_path, ray_address=listening))
    assert wait.answers
    for pause_s in (1, 2, 4):
        wait.begin()
        now[0] += pause_s - 0.5
        assert not wait.answers
        now[0] += 0.5
        assert wait.answers
    wait.forget()
    wait.begin()
    now[0] += 1
    assert wait.answers


def test_another_address_is_found_where_serve_notes_it(now: list[float], tmp_path: Path, listening: str) -> None:
    wait = RayWait(Settings(home=tmp_path, ray_address="127.0.0.1:9"))
    assert (wait.answers, wait.address) == (False, "127.0.0.1:9")
    for broken in ("", "{", "[]", '{"ray_address": null}'):
        (tmp_path / "address.json").write_text(broken)
        now[0] += 60
        assert not wait.answers
    (tmp_path / "address.json").write_text(json.dumps({"ray_address": listening}))
    now[0] += 60
    assert (wait.answers, wait.address) == (True, listening)


def test_an_address_that_cannot_be_read_is_left_to_the_runner_to_complain_of(tmp_path: Path) -> None:
    assert RayWait(Settings(home=tmp_path, ray_address="head")).answers
    assert RayWait(Settings(home=tmp_path, ray_address="head:port")).answers


def test_nobody_waits_for_a_ray_that_nobody_has_named(now: list[float], tmp_path: Path) -> None:
    assert RayWait(Settings(home=tmp_path)).answers
