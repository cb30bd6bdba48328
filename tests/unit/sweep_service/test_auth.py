"""The token file: made once, readable by its owner only, demanded off loopback."""

from pathlib import Path

import pytest

import sweep_service
from sweep_service.auth import (
    TokenError,
    cookie,
    ensure_token,
    is_loopback,
    open_to_others,
    read_token,
    same,
    server_token,
)
from sweep_service.settings import Settings
from tests.waiting import in_threads


def test_the_first_serve_makes_a_token_that_later_ones_keep(tmp_path: Path) -> None:
    path = tmp_path / "home" / "token"
    token = ensure_token(path)
    assert len(token) >= 43
    assert ensure_token(path) == read_token(path) == token
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [child.name for child in path.parent.iterdir()] == ["token"]
    assert not open_to_others(path)


def test_processes_that_start_at_once_agree(tmp_path: Path) -> None:
    assert len(set(in_threads(16, lambda _: ensure_token(tmp_path / "token")))) == 1


def test_off_loopback_a_token_must_be_there_and_long(tmp_path: Path) -> None:
    path = tmp_path / "token"
    with pytest.raises(TokenError, match=r"refusing to listen on 0\.0\.0\.0"):
        server_token(path, "0.0.0.0")
    assert not path.exists()
    path.write_text("short\n")
    with pytest.raises(TokenError, match="5 characters"):
        server_token(path, "10.1.2.3")
    path.write_text("x" * 32 + "\n")
    assert server_token(path, "10.1.2.3") == "x" * 32
    assert server_token(tmp_path / "new", "127.0.0.1")


def test_a_token_that_cannot_be_read_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(TokenError, match="sweeps serve"):
        read_token(tmp_path / "missing")
    with pytest.raises(TokenError, match="cannot be read"):
        read_token(tmp_path)
    (tmp_path / "empty").touch()
    with pytest.raises(TokenError, match="empty"):
        read_token(tmp_path / "empty")


@pytest.mark.parametrize(
    ("hosts", "loopback"),
    [
        ("127.0.0.1 127.9.9.9 ::1 localhost LOCALHOST. ip6-localhost 127.1 2130706433 ::ffff:127.0.0.1", True),
        ("10.1 0.0.0.0 a.example", False),
    ],
)
def test_which_addresses_only_this_machine_reaches(hosts: str, loopback: bool) -> None:
    for host in hosts.split():
        assert is_loopback(host) is loopback, host


def test_comparing_takes_any_text() -> None:
    assert same("tökén", "tökén")
    assert not same("tökén", "token")


def test_a_childs_settings_name_no_token_of_the_hub(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hf_canary")
    settings = Settings.model_validate({"home": tmp_path, "hub_token_file": tmp_path / "token"})
    assert settings.hub_token_file == tmp_path / "token"
    assert not [name for name in settings.environment() if "HUB" in name]


@pytest.mark.parametrize(
    ("headers", "value"),
    [
        ([], ""),
        (["sweeps_80=1.ab"], "1.ab"),
        (["x=1; sweeps_80=1.ab;y=2"], "1.ab"),
        (["x=1", "sweeps_80=2"], "2"),
        (["sweeps_8080=1; xsweeps_80=2; sweeps_80"], ""),
        (['sweeps_80="a\\"b"'], '"a\\"b"'),  # nothing is undone
    ],
)
def test_a_cookie_is_taken_as_it_stands(headers: list[str], value: str) -> None:
    assert cookie(headers, "sweeps_80") == value


def test_nobody_uses_the_parser_of_cookies_that_takes_quadratic_time() -> None:
    package = Path(sweep_service.__file__).parent
    assert not [path for path in package.rglob("*.py") if ".cookies" in path.read_text()]
