"""An option that a command lacks is answered with the whole name of what it may stand for."""

import pytest
from typer.testing import CliRunner

from sweep_service.cli.app import app

KEPT = "; a submitted sweep keeps its {}: submit a new sweep, and join both with `sweeps compare`"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("extend x --steps 64", KEPT.format("training.steps")),
        ("extend x --loss.beta1 0", KEPT.format("training.loss.beta1")),
        ("extend x --lr 1", KEPT.format("training.optimizer.learning_rate")),
        ("extend x --num-configs 9", "; did you mean --configs?"),
        ("extend x --n-trials 9", "; did you mean --configs?"),
        ("extend x --tune 1", "; did you mean --tune-seeds?"),
        ("extend x --budget 1", "; did you mean --max-gpu-hours or --max-trial-hours or --max-wait-hours?"),
        ("extend x --max-crashes 1", "(Possible options: --max-parallel, --max-trial-hours, --max-wait-hours)"),
        ("extend x --confirm-sees 1", "(Possible options: --configs, --confirm-seeds, --tune-seeds)"),
        ("plan a.yaml --gpu 2", "; set resources.gpus in the spec's file"),
        ("submit a.yaml --stpes 2", "; set training.steps or trainer.steps in the spec's file"),
        ("submit a.yaml --pas-k 2", "; set training.evaluation.pass_k in the spec's file"),
        ("best x --steps 2", "No such option: --steps"),
    ],
)
def test_an_unknown_option_is_answered_with_what_it_may_stand_for(arguments: str, told: str) -> None:
    result = CliRunner(env={"COLUMNS": "300"}).invoke(app, arguments.split())
    assert result.exit_code == 2
    assert f"No such option: {arguments.split()[2]}{'' if told.startswith(';') else ' '}" in result.output
    assert told in result.output
