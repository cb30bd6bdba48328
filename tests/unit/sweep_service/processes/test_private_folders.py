import os
from pathlib import Path

import pytest

from sweep_service.processes.private_folders import NotPrivate, make_private, open_paths


def test_what_lies_two_folders_deep_is_shut_too(tmp_path: Path) -> None:
    home = tmp_path / "home"
    deep = home / "mlflow" / "artifacts"
    deep.mkdir(parents=True, mode=0o700)
    (home / "mlflow").chmod(0o700)
    home.chmod(0o700)
    (deep / "model").touch()
    (deep / "model").chmod(0o644)
    assert make_private(home) == [deep / "model"]
    assert list(open_paths(home)) == []


@pytest.mark.parametrize("home", ["strangers", "strangers/home", "ours/home"])
def test_no_symbolic_link_of_a_stranger_leads_to_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    strangers, ours, target = tmp_path / "strangers", tmp_path / "ours", tmp_path / "target"
    target.mkdir()
    strangers.symlink_to(target)
    ours.symlink_to("strangers")
    make_private(tmp_path / home)
    owners(monkeypatch, {strangers: 65533})
    with pytest.raises(NotPrivate, match=f"{strangers} is a symbolic link of user 65533.*set SWEEPS_HOME"):
        make_private(tmp_path / home)
    owners(monkeypatch, {strangers: 0, ours: os.geteuid()})
    make_private(tmp_path / home)


def test_nothing_is_made_where_a_strangers_link_leads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to("target")
    owners(monkeypatch, {tmp_path / "link": 65533})
    with pytest.raises(NotPrivate):
        make_private(tmp_path / "link" / "home")
    assert list((tmp_path / "target").iterdir()) == []


def test_a_link_that_leads_to_itself_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(f"../{tmp_path.name}/link")
    with pytest.raises(OSError, match="link"):
        make_private(tmp_path / "link")


def owners(monkeypatch: pytest.MonkeyPatch, users: dict[Path, int]) -> None:
    lstat = Path.lstat

    def shown(path: Path) -> os.stat_result:
        status = lstat(path)
        return os.stat_result((*status[:4], users.get(path, status.st_uid), *status[5:]))

    monkeypatch.setattr(Path, "lstat", shown)
