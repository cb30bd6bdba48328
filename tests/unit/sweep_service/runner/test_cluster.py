"""How many trials fit a cluster's nodes."""

import pytest

from sweep_service.runner.cluster import fitting
from sweep_service.sweep.spec import Resources


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
