from pathlib import Path

import pytest

from sweep_service.intake import preview
from sweep_service.intake.spec_check import parse_spec
from sweep_service.sweep.plan import make_plan


def test_a_plan_does_not_wait_long_for_the_prompts_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = {"name": "pretrained", "model": "mine"}
    spec = parse_spec({"name": "a", "space": {"loss.beta1": [0, 1]}, "training": {"model": model}})
    plan = make_plan(spec, None)
    monkeypatch.setattr(preview, "WAIT_S", 0.0)
    with preview._ONE_AT_A_TIME:
        shown = preview.with_prompts(plan, spec, tmp_path)
    said = "no prompts are shown: the server is reading those of another plan; plan again in a minute"
    assert shown == plan.model_copy(update={"warnings": [*plan.warnings, said]})
