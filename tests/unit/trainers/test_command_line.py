import errno
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sweep_service.settings import Settings
from tests.kept_signals import kept_signals
from tests.waiting import wait_until
from trainers import command_line
from trainers.benchmarks.__main__ import _parser as benchmarks_parser
from trainers.command_line import _parser, load_config, main
from trainers.config import TrainingConfig
from trainers.errors import ConfigError
from trainers.process.events import EventWriter, read_events
from trainers.training import train

BENCHMARK = ["--model", "model", "--benchmark", "gsm8k", "--output", "out"]


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text("seed: 3\nloss: {beta2: 0.5}\n", encoding="utf-8")
    return path


def test_settings_change_a_file_and_are_read_as_yaml(config_file: Path) -> None:
    config = load_config(config_file, ["loss.beta1=0.3", "optimizer.learning_rate=1e-4", "loss.dual_clip=null"])
    assert config.seed == 3
    assert config.loss.model_dump(include={"name", "beta1", "beta2", "dual_clip"}) == {
        "name": "ce_gppo",
        "beta1": 0.3,
        "beta2": 0.5,
        "dual_clip": None,
    }
    assert config.optimizer.learning_rate == 1e-4


Run = Callable[..., int]


@pytest.fixture
def run(config_file: Path, tmp_path: Path) -> Iterator[Run]:
    """Return a function that runs the command line with further words, in the folder `run`."""

    def command(*words: str, output: Path = tmp_path / "run") -> int:
        return main([str(config_file), *words, "--output", str(output), "--cache", str(tmp_path)])

    with kept_signals():
        yield command


def test_a_process_that_was_told_to_stop_and_lost_the_others_has_stopped(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose_the_others(*_: object, stopping: Callable[[], bool], **__: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        wait_until("it is told", stopping)
        raise RuntimeError("Connection closed by peer")

    monkeypatch.setattr(train, "train", lose_the_others)
    monkeypatch.setenv("RANK", "1")
    assert run() == 4


def test_training_collects_garbage(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    collects = list[bool]()
    monkeypatch.setattr(train, "train", lambda *_, **__: collects.append(gc.isenabled()) or "SUCCEEDED")
    run()
    assert collects == [True]


def full(*_: object, **__: object) -> None:
    raise ConfigError("the data cannot be read") from OSError(errno.ENOSPC, "No space left on device")


def broken_disk(*_: object, **__: object) -> None:
    raise OSError(errno.EIO, "Input/output error")


def full_record(*_: object, events: EventWriter, **__: object) -> None:
    os.dup2(os.open("/dev/full", os.O_WRONLY), events._file.fileno())
    events.write("step")


@pytest.mark.parametrize(
    ("place", "name", "fault"),
    [
        (train, "train", full),
        (train, "train", full_record),
        (command_line, "load_config", full),
        (Path, "mkdir", broken_disk),
    ],
    ids=["training", "record", "configuration", "folder"],
)
def test_what_the_machine_cannot_do_is_no_wrong_setting(
    place: Any, name: str, fault: Any, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(place, name, fault)
    assert run() == 6
    assert "the same command goes on" in capsys.readouterr().err
    if (place, fault) == (train, full):
        (*_, last) = read_events(tmp_path / "run" / "events.jsonl")
        assert (last["type"], last["code"]) == ("failed", "MACHINE_FAULT")
        assert "No space left" in last["message"]


def test_nobody_can_be_told_when_the_log_is_full_too(config_file: Path, tmp_path: Path) -> None:
    words = [str(config_file), "--output", str(config_file / "run"), "--cache", str(tmp_path)]
    command = "import sys; from trainers import command_line; command_line._run = fail; sys.exit(command_line.main())"
    failing = "def fail(_): raise OSError(28, 'No space left on device')\n" + command
    with Path("/dev/full").open("w") as log:
        ended = subprocess.run([sys.executable, "-c", failing, *words], stdout=log, stderr=log, check=False)
    assert ended.returncode == 6


def test_an_empty_file_is_the_default_run(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").touch()
    assert load_config(tmp_path / "empty.yaml", []) == TrainingConfig()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["steps=81"], "steps 81 is not a multiple of the 8 updates per rollout.*; set steps to 80 or 88"),
        (["rollout.prompts_per_minibatch=32"], "keeps every ratio at 1"),
        (["seed"], "seed: expected dotted=value"),
        (["seed.deep=1"], "seed is a value, not a group of settings"),
        (["seed={"], "^seed={, line 1, column 2: not valid YAML: "),
        (["..=3"], r"^\.\.=3: expected dotted=value, such as loss\.beta1=0\.3"),
        (["seed=1", "seed=2"], "seed=2: seed is set twice; set it once"),
        (["=3"], "^=3: expected dotted=value"),
        (["loss.=3"], "^loss.=3: expected dotted=value"),
        (
            ["loss.nmae=gspo"],
            r"^loss\.nmae: there is no such setting; did you mean 'loss.name', as in loss: {name: gspo}\?",
        ),
        (["zzzz.q=1"], "^zzzz: there is no such setting; there are task, model, loss, "),
        (["loss.name=gspoo"], "^loss: there is no loss 'gspoo'; there are 'grpo', 'dapo'"),
        (["steps=8", "loss.schedule=[{step: 7, beta1: 0}, {step: 8, beta1: 1}]"], "step 8 comes after all 8 steps"),
        (["loss.name=grpo"], r"^loss\.beta2: only ce_gppo has this setting"),
        (["loss.erc={mode: penalty, high: 0.5}"], r"^loss\.erc\.high: .* \(given: 0\.5\)"),
        (["task.name=word_problems", "model={name: pretrained}"], r"^model\.model: this is required"),
    ],
)
def test_what_cannot_run_is_refused_with_the_reason(config_file: Path, settings: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(config_file, settings)


def test_a_bad_configuration_ends_with_code_2_and_a_record_of_every_error(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("loss.beta1=-1", "rollout.top_p=2", "nonsense=1", "seed=many", "steps=81") == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert {line.partition(":")[0] for line in told.err.splitlines()} >= {
        "loss.beta1",
        "rollout.top_p",
        "nonsense",
        "seed",
    }
    (event,) = read_events(tmp_path / "run" / "events.jsonl")
    assert (event["type"], event["code"]) == ("failed", "BAD_CONFIG")
    assert event["message"].splitlines() == told.err.splitlines()


def test_a_missing_package_ends_with_code_2_and_a_record(
    config_file: Path, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config_file.write_text("loss: {name: tempered}\n")
    assert run("--needs", "pydantic==0", "--needs", "tempered-loss==1.2") == 2
    assert capsys.readouterr().err.startswith("the package tempered-loss 1.2, which this configuration needs, is not")
    (event,) = read_events(tmp_path / "run" / "events.jsonl")
    assert (event["code"], event["message"].count("\n")) == ("BAD_CONFIG", 0)


def test_only_the_first_of_several_processes_records_a_bad_configuration(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    assert run("seed=-1") == 2
    assert not (tmp_path / "run" / "events.jsonl").exists()


def test_a_folder_that_holds_a_run_is_not_overwritten(
    config_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "run").mkdir(parents=True)
    record = tmp_path / "runs" / "run" / "events.jsonl"
    record.write_text('{"type": "started"}\n{"type": "st', encoding="utf-8")  # by a run at work, perhaps
    for arguments in ([], ["--output", "runs/run"], ["seed=-1", "--output", "runs/run"]):
        assert main([str(config_file), *arguments]) == 2
        assert "already holds a run" in capsys.readouterr().err
    assert record.read_text(encoding="utf-8") == '{"type": "started"}\n{"type": "st'


def test_a_refused_run_leaves_its_folder_free(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = tmp_path / "run" / "events.jsonl"
    for settings in ("seed=-1", "steps=7"):
        assert run(settings) == 2
        assert "already holds" not in capsys.readouterr().err
    (event,) = read_events(record)
    assert "steps 7" in event["message"]
    with record.open("a", encoding="utf-8") as lines:  # refused when it was to be continued
        lines.write('{"type":"step"}\n{"type":"failed","code":"BAD_CONFIG"}\n')
    assert run() == 2
    assert "already holds a run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variables", "cache"),
    [
        ({}, "~/.sweeps/cache"),
        ({"SWEEPS_HOME": "/data"}, "/data/cache"),
        ({"SWEEPS_HOME": "/data", "SWEEPS_CACHE": "~/big"}, "~/big"),
        ({"SWEEPS_HOME": "", "SWEEPS_CACHE": ""}, "~/.sweeps/cache"),
    ],
)
def test_the_cache_is_the_services_unless_named(
    variables: dict[str, str], cache: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SWEEPS_HOME", "SWEEPS_CACHE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    expected = Path(cache).expanduser()
    assert _parser().parse_args(["run.yaml"]).cache == expected
    assert benchmarks_parser().parse_args(BENCHMARK).cache == expected
    if all(variables.values()):
        assert Settings().cache == expected


@pytest.mark.parametrize("option", ["--output", "--cache"])
def test_a_folder_that_is_a_file_is_refused(
    config_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([str(config_file), option, str(config_file)]) == 2
    assert capsys.readouterr().err.startswith(f"{option} {config_file} cannot be used: ")


def test_help_teaches_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    text = capsys.readouterr().out
    for word in ("loss.beta1=0.3", "exit codes", "events.jsonl", "--resume-from"):
        assert word in text


def test_a_configuration_is_checked_without_torch() -> None:
    code = (
        "import sys, trainers.command_line; sys.exit(int(bool({'torch', 'transformers', 'trl'} & sys.modules.keys())))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_texts_that_the_help_prints_as_they_are_fit_a_terminal() -> None:
    for parser in (_parser(), benchmarks_parser()):
        assert max(map(len, (parser.epilog or "").splitlines()), default=0) < 80
