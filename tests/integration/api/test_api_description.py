"""The API answers as its description says, whatever it is asked: schemathesis makes up the requests."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.api.conftest import Served
from tests.integration.api.played_sweep import SPEC, finish, play
from tests.model_folders import write_model
from trainers.catalog.add_from_disk import add_local_model


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "examples", [pytest.param(5, marks=pytest.mark.long), pytest.param(60, marks=pytest.mark.hunt)]
)  # a thousand find no more
def test_whatever_is_asked_the_answer_is_one_that_the_description_allows(
    served: Served, tmp_path: Path, examples: int
) -> None:
    ended = served.service.submit(SPEC)[0].id
    finish(served.store, play(served.store, ended))
    waiting = served.service.submit(SPEC)[0].id
    add_local_model(write_model(tmp_path / "model"), served.service.settings.cache, "tiny")
    settings = Path(__file__).with_name("schemathesis.toml").read_text()
    for word, value in {"SWEEP_ENDED": ended, "SWEEP_WAITING": waiting, "EXAMPLES": str(examples)}.items():
        settings = settings.replace(word, value)
    (tmp_path / "schemathesis.toml").write_text(settings)
    command = [sys.executable, "-m", "schemathesis.cli", "--no-color", "run", "--checks", "all"]
    command += ["--header", f"Authorization: Bearer {served.token}", f"{served.url}/openapi.json"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr[-2000:]
