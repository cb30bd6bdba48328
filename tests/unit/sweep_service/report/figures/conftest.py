"""The sweep whose figures most tests look at."""

import pytest

from sweep_service.report import Report
from sweep_service.report.build import build
from tests.unit.sweep_service.report.report_benchmarks import measured_inputs
from tests.unit.sweep_service.report.report_sweeps import sweep_inputs


@pytest.fixture(scope="session")
def report() -> Report:
    return build(sweep_inputs())


@pytest.fixture(scope="session")
def measured() -> Report:
    """The same with every model measured on two benchmarks."""
    return build(measured_inputs())
