"""Whose cluster is connected to, and how many trials fit its nodes."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sweep_service.runner import cluster
from sweep_service.runner.cluster import connect, fitting
from sweep_service.settings import Settings
from sweep_service.sweep.spec import Resources


def test_ray_gets_its_token_from_us_and_from_trusted_users_alone(
    tmp_path: Path, strangers_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"127.0.0.1:{strangers_port}"
    asked: list[Any] = []
    monkeypatch.setattr(cluster.ray, "init", lambda **options: asked.append(options["address"]))
    monkeypatch.setattr(cluster, "global_worker", SimpleNamespace(node=None))
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    with pytest.raises(ConnectionError, match="listens on"):
        connect(Settings(home=tmp_path, ray_address=address), "sweep")
    assert asked == []
    connect(Settings(home=tmp_path, ray_address=address, trusted_users="65533"), "sweep")
    assert asked == [address]


@pytest.mark.parametrize(
    ("resources", "nodes", "count"),
    [
        (Resources(cpus=1), [{"CPU": 2.0}], 2),
        (Resources(cpus=3), [{"CPU": 2.0}, {"CPU": 2.0}], 0),
        (Resources(cpus=0.25), [{"CPU": 2.0}], 8),
        (Resources(cpus=0.1), [{"CPU": 1.0}], 10),
        (Resources(cpus=1, gpus=2), [{"CPU": 8.0, "GPU": 5.0}], 2),
        (Resources(cpus=1, gpus=0.5), [{"CPU": 8.0, "GPU": 2.0}], 4),
        (Resources(cpus=1, gpus=0.4), [{"CPU": 8.0, "GPU": 2.0}], 4),
        (Resources(cpus=1, gpus=1), [{"CPU": 8.0}], 0),
        (Resources(cpus=4, gpus=1), [{"CPU": 8.0, "GPU": 8.0}, {}], 2),
    ],
)
def test_fitting(resources: Resources, nodes: list[dict[str, float]], count: int) -> None:
    assert fitting(resources, nodes) == count
