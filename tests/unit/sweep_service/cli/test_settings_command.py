"""The command `settings`."""

from pathlib import Path

from typer.testing import CliRunner

from sweep_service.cli.app import app
from tests.golden import matches_golden
from trainers.config import TrainingConfig
from trainers.config.setting_schemas import setting_facts


def run(*arguments: str) -> tuple[int, list[str], str]:
    result = CliRunner().invoke(app, ["settings", *arguments], env={"COLUMNS": "1000"})
    return result.exit_code, [" ".join(line.split()) for line in result.stdout.splitlines()], result.stderr


def test_it_lists_the_settings_with_a_text_in_their_names() -> None:
    code, (heading, *rows), _ = run("beta1")
    assert (code, heading) == (0, "SETTING DEFAULT ALLOWED OF MEANING")
    assert (
        rows[0] == "loss.beta1 0.5 number >= 0, <= 100 ce_gppo Gradient scale where A < 0 and ratio < 1 - epsilon_low."
    )
    assert {row.split()[0] for row in rows} == {
        "loss.beta1",
        "loss.schedule.beta1",
        "loss.schedule[].beta1",
        "optimizer.adam_beta1",
    }
    assert len(run()[1]) > 150


def test_settings_have_the_defaults_and_the_bounds_that_they_had() -> None:
    lines = [" | ".join(fact[:4]) for fact in setting_facts(TrainingConfig)]
    matches_golden(Path(__file__).parent / "golden" / "settings.txt", "\n".join(lines) + "\n")


def test_a_word_of_the_field_leads_to_the_setting() -> None:
    code, rows, remark = run("clip_ratio")
    assert (code, rows) == (2, [])
    assert "no setting has 'clip_ratio' in its name; did you mean loss.epsilon?" in remark
    assert "did you mean rollout.temperature or evaluation.temperature?" in run("temprature")[2]
    assert "did you mean evaluation.temperature?" in run("evaluation.temprature")[2]
    assert "list all: sweeps settings" in run("frobnicate")[2]
