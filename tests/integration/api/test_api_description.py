"""The API answers as its description says, whatever it is asked: schemathesis makes up the requests."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.api.conftest import Served
from tests.integration.api.played_sweep import SPEC, finish, play
from tests.model_folders import write_model
from trainers.catalog.add_from_disk import add_local_model


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_whatever_is_asked_the_answer_is_one_that_the_description_allows(served: Served, tmp_path: Path) -> None:
    ended = served.service.submit(SPEC)[0].id
    finish(served.store, play(served.store, ended))
    waiting = served.service.submit(SPEC)[0].id
    add_local_model(write_model(tmp_path / "model"), served.service.settings.cache, "tiny")
    settings = Path(__file__).with_name("schemathesis.toml").read_text()
    (tmp_path / "schemathesis.toml").write_text(
        settings.replace("SWEEP_ENDED", ended).replace("SWEEP_WAITING", waiting)
    )
    command = [sys.executable, "-m", "schemathesis.cli", "--no-color", "run", "--checks", "all"]
    command += ["--header", f"Authorization: Bearer {served.token}", f"{served.url}/openapi.json"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout[-20_000:] + ran.stderr[-2000:]
