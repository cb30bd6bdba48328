from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sweep_service.intake import preview
from sweep_service.intake.spec_check import parse_spec
from sweep_service.sweep.plan import make_plan
from sweep_service.sweep.spec import SweepSpec
from tests.waiting import PATIENT_S, wait_until


@pytest.fixture
def spec() -> SweepSpec:
    """A spec whose prompts a trainer must read."""
    model = {"name": "pretrained", "model": "mine"}
    return parse_spec({"name": "a", "space": {"loss.beta1": [0, 1]}, "training": {"model": model}})


def test_a_plan_does_not_wait_long_for_the_prompts_of_others(
    tmp_path: Path, spec: SweepSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan(spec, None)
    monkeypatch.setattr(preview, "WAIT_S", 0.0)
    with preview._ONE_AT_A_TIME:
        shown = preview.with_prompts(plan, spec, tmp_path)
    said = "no prompts are shown: the server is reading those of another plan; plan again in a minute"
    assert shown == plan.model_copy(update={"warnings": [*plan.warnings, said]})


def test_few_plans_wait_for_the_prompts_of_others(
    tmp_path: Path, spec: SweepSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan(spec, None)
    monkeypatch.setattr(preview, "WAIT_S", 2 * PATIENT_S)  # who waits does so until the test has failed
    with preview._ONE_AT_A_TIME, ThreadPoolExecutor(preview.MAX_WAITING + 1) as threads:
        waiting = [
            threads.submit(preview.with_prompts, plan, spec, tmp_path, 0.0) for _ in range(preview.MAX_WAITING + 1)
        ]
        wait_until("all places are taken", lambda: not preview._PLACES._value)
        assert "plan again in a minute" in preview.with_prompts(plan, spec, tmp_path).warnings[-1]
        preview._ONE_AT_A_TIME.release()
        said = {future.result().warnings[-1] for future in waiting}
        preview._ONE_AT_A_TIME.acquire()
    assert said == {"no prompts are shown: reading data and tokenizer took longer than 0 s"}


def test_a_trainer_that_reads_gets_no_secret(tmp_path: Path, spec: SweepSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    given = list[dict[str, str]]()

    def refuse(*_: object, env: dict[str, str], **__: object) -> None:
        given.append(env)
        raise OSError("no process")

    monkeypatch.setattr(preview.subprocess, "Popen", refuse)
    for name in ("SWEEPS_DATABASE_URL", "MLFLOW_TRACKING_PASSWORD", "RAY_AUTH_TOKEN_PATH", "HF_TOKEN"):
        monkeypatch.setenv(name, "secret")
    with pytest.raises(OSError, match="no process"):
        preview.with_prompts(make_plan(spec, None), spec, tmp_path)
    assert "secret" not in given[0].values()


def test_a_trainer_that_reads_has_a_limit_of_memory(
    tmp_path: Path, spec: SweepSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preview, "LIMIT_BYTES", 2**25)
    shown = preview.with_prompts(make_plan(spec, None), spec, tmp_path)
    assert shown.warnings[-1] == "no prompts are shown: reading data and tokenizer took more than 0.03125 GiB"
