"""What a fresh interpreter loads: the API, the client and the command line stay light."""

import json
import subprocess
import sys

import pytest

HEAVY = ("datasets", "mlflow", "optuna", "pandas", "plotly", "ray", "torch", "transformers", "trl")


@pytest.mark.parametrize(
    "module",
    [
        "sweep_service.api",
        "sweep_service.client",
        "sweep_service.cli.app",
        "sweep_service.sweep.spec",
        "trainers.config",
        "trainers.tasks.word_problems",
    ],
)
def test_importing_loads_nothing_heavy(module: str) -> None:
    code = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
    assert [name for name in HEAVY if name in loaded] == []
    if module == "sweep_service.client":
        assert "sqlalchemy" not in loaded
    if module == "sweep_service.cli.app":  # all that help needs
        assert not {"pydantic", "httpx"} & set(loaded)
