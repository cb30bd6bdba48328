"""A local Ray for the tests that need one, started on first use."""

from collections.abc import Iterator, Mapping

import pytest

from tests.sweep_stack import ray_head


@pytest.fixture(scope="session")
def ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """The variables with which runners reach a Ray of 2 CPUs and 8 logical GPUs."""
    with ray_head(tmp_path_factory.mktemp("r"), cpus=2, gpus=8) as environment:
        yield environment
