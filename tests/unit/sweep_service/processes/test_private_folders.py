from pathlib import Path

from sweep_service.processes.private_folders import make_private, open_paths


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
