"""Whose cluster is connected to, and how many trials fit its nodes."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sweep_service.runner import cluster
from sweep_service.runner.cluster import Slots, connect
from sweep_service.settings import Settings
from sweep_service.sweep.shares import Part, fit
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
def test_so_many_trials_fit_and_no_more(resources: Resources, nodes: list[dict[str, float]], count: int) -> None:
    assert fit([Part.of(resources)] * count, nodes)
    assert not fit([Part.of(resources)] * (count + 1), nodes)


@pytest.mark.parametrize(
    ("trials", "evaluations", "fits"),
    [(2, 0, True), (2, 1, False), (1, 2, True), (1, 3, False), (0, 4, True), (0, 5, False), (3, 0, False)],
)
def test_trials_and_evaluations_share_a_node(trials: int, evaluations: int, fits: bool) -> None:
    """Two GPUs and eight CPUs for trials of one GPU and evaluations of half of one."""
    parts = [Part(0.5, 0.5)] * evaluations + [Part(2, 1)] * trials
    assert fit(parts, [{"CPU": 8.0, "GPU": 2.0}]) is fits


def test_evaluations_without_gpus_run_beside_trials_that_have_them_all() -> None:
    nodes = [{"CPU": 8.0, "GPU": 2.0}, {"CPU": 4.0}]
    trials = [Part(2, 1)] * 2
    assert fit([*trials, *[Part(4, 0)] * 2], nodes)
    assert not fit([*trials, *[Part(4, 0)] * 3], nodes)
    assert not fit([*trials, Part(5, 0)], nodes)  # each on one node


def test_one_alone_may_always_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster.ray, "nodes", lambda: [{"Alive": True, "Resources": {"CPU": 4.0}}])
    large = Slots(Resources(cpus=9), Resources(cpus=9))
    assert (large(1, 0), large(0, 1), large(1, 1)) == (True, True, False)
