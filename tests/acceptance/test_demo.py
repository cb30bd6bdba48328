"""The demo ends with a verdict, the scores on benchmarks and a report, and leaves nothing running."""

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from sweep_service.settings import Settings
from sweep_service.store import open_store
from tests.sweep_stack import SMALL_TRAINING, command_of, processes_of, small_sweep
from tests.waiting import PATIENT_S

DEMO = (sys.executable, "-m", "sweep_service.cli.demo")
MODEL = {"warm_start_steps": 120, "hidden_size": 32, "num_layers": 1}
"""Enough to be right now and then."""


@pytest.mark.long
def test_the_demo_tells_verdict_and_benchmarks_and_leaves_nothing_running(tmp_path: Path) -> None:
    raw = small_sweep(
        "shown",
        training=SMALL_TRAINING | {"model": MODEL},
        seeds={"tune": [0], "confirm": {"top_k": 1, "seeds": [7, 8, 9]}},
        benchmarks={"names": ["expressions"], "samples": 4},
    )
    spec, home = tmp_path / "sweep.yaml", tmp_path / "h"
    spec.write_text(json.dumps(raw))  # JSON is YAML
    words = [*DEMO, "--spec", str(spec), "--home", str(home)]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=PATIENT_S)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    with closing(open_store(Settings(home=home).database_url)) as store:
        (sweep,) = store.list_sweeps(limit=2)
        sentence = json.loads(store.get_report(sweep.id, "json"))["benchmarks"]["sentence"]
        assert (home / "report.html").read_bytes() == store.get_report(sweep.id, "html")
    assert sentence.split()
    assert f"benchmark {sentence}" in " ".join(ran.stderr.split())
    assert [command for process in processes_of(home) if (command := command_of(process))] == []
