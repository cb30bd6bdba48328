import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sweep_service.errors import InvalidSpec, StillReading
from sweep_service.intake import data_check
from sweep_service.intake.data_check import DataReader
from sweep_service.intake.preview import check_data, with_data
from sweep_service.intake.spec_check import parse_spec
from sweep_service.sweep.plan import make_plan
from sweep_service.sweep.plan_warnings import groups_warning
from sweep_service.sweep.spec import SweepSpec
from tests.refusals import refusals
from tests.unit.trainers.tasks.chats import add_dataset
from tests.waiting import PATIENT_S, wait_until
from trainers.tasks.data_record import DataRecord, Groups, Preview, Problems

NOTHING = Problems(problems=9, sha256="0" * 64)
SEEN = Preview(
    prompts=(), data=DataRecord(training=NOTHING, validation=NOTHING), chat_template=False, ends=(), answers=None
)


def spec_of(ref: str = "mine", **changes: Any) -> SweepSpec:
    """A spec whose data a trainer must read."""
    task = {"name": "word_problems", "data": {"ref": ref}, "reward": "number"}
    return parse_spec({"name": "a", "space": {"loss.beta1": [0, 1]}, "training": {"task": task}} | changes)


class Trainer:
    """Takes the place of the process that reads: it answers when the test lets it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = list[str]()
        self.may_end = threading.Event()
        self.answer: Preview | str | Exception = SEEN
        monkeypatch.setattr(data_check, "_read", self.read)

    def read(self, config: Any, _cache: Path, _limit_s: float) -> Preview | str:
        self.begun.append(config.task.data.ref)
        assert self.may_end.wait(PATIENT_S)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def trainer(monkeypatch: pytest.MonkeyPatch) -> Trainer:
    return Trainer(monkeypatch)


def test_reading_goes_on_when_a_request_has_waited_and_is_remembered(tmp_path: Path, trainer: Trainer) -> None:
    reader = DataReader(wait_s=0.01)
    for _ in range(2):
        with pytest.raises(StillReading, match="still reading the data of this sweep; ask again"):
            check_data(spec_of(), tmp_path, reader)
    trainer.may_end.set()
    wait_until("it is read", lambda: all(reading.done() for reading in reader._readings.values()))
    other = spec_of(space={"loss.beta1": [0.5, 1]}, seeds={"tune": [7]})
    for spec in (spec_of(), other):  # plan and submit, and a sweep of the same data
        assert check_data(spec, tmp_path, reader) == (SEEN, [])
    assert trainer.begun == ["mine"]


def test_data_are_read_one_at_a_time_and_few_requests_wait(tmp_path: Path, trainer: Trainer) -> None:
    reader = DataReader(wait_s=PATIENT_S)
    refs, answers = [f"data-{number}" for number in range(data_check.MAX_WAITING)], list[object]()
    threads = [
        threading.Thread(target=lambda ref=ref: answers.append(check_data(spec_of(ref), tmp_path, reader)))
        for ref in refs
    ]
    for thread in threads:
        thread.start()
    wait_until("all places are taken", lambda: not reader._places._value)
    with pytest.raises(StillReading, match="the data of other sweeps; ask again"):
        check_data(spec_of(), tmp_path, reader)
    assert len(trainer.begun) == 1
    trainer.may_end.set()
    for thread in threads:
        thread.join(PATIENT_S)
    assert answers == [(SEEN, [])] * len(refs)
    assert check_data(spec_of(), tmp_path, reader) == (SEEN, [])
    assert sorted(trainer.begun) == sorted([*refs, "mine"])


def test_there_are_no_more_readings_than_are_soon_done(tmp_path: Path, trainer: Trainer) -> None:
    reader = DataReader(wait_s=0)
    for number in range(data_check._MAX_PENDING):
        with pytest.raises(StillReading, match="of this sweep"):
            check_data(spec_of(f"data-{number}"), tmp_path, reader)
    with pytest.raises(StillReading, match="the data of many sweeps to read"):
        check_data(spec_of(), tmp_path, reader)
    trainer.may_end.set()
    wait_until("they are read", lambda: len(trainer.begun) == data_check._MAX_PENDING)


def test_what_the_trainer_refuses_is_told_and_read_anew(tmp_path: Path, trainer: Trainer) -> None:
    reader, errors = DataReader(), [data_check.SpecError("/training/task", "no")]
    trainer.may_end.set()
    trainer.answer = InvalidSpec(errors)
    with pytest.raises(InvalidSpec):
        check_data(spec_of(), tmp_path, reader)
    trainer.answer = SEEN
    assert check_data(spec_of(), tmp_path, reader) == (SEEN, [])


def test_all_data_of_a_space_are_waited_for_together_and_refusals_told_at_once(
    tmp_path: Path, trainer: Trainer
) -> None:
    trainer.answer = InvalidSpec([data_check.SpecError("/training/task", "no")])
    reader, spec = DataReader(wait_s=0), spec_of(space={"task.data.ref": ["one", "two", "three"]})
    with pytest.raises(StillReading):
        check_data(spec, tmp_path, reader)
    trainer.may_end.set()
    wait_until("all are read", lambda: all(reading.done() for reading in reader._readings.values()))
    with pytest.raises(InvalidSpec):
        check_data(spec, tmp_path, reader)
    assert sorted(trainer.begun) == ["mine", "one", "three", "two"]


@pytest.mark.parametrize(
    ("space", "baselines", "place"),
    [
        ({"task.data.ref": ["one", "two"]}, False, "/space/task.data.ref"),
        ({"task.data.ref": ["one", "two"]}, True, "/training/task/data"),  # the base has the same fault
        ({"task.data.ref": ["mine", "one"]}, False, "/space/task.data.ref"),
        ({"task.data": [{"ref": "one"}, {"ref": "two"}]}, False, "/space/task.data"),
        ({"task.reward": ["exact", "math"]}, False, "/training/task/data"),
    ],
)
def test_a_refusal_of_swept_data_leads_into_the_space(
    tmp_path: Path, trainer: Trainer, space: dict[str, Any], baselines: bool, place: str
) -> None:
    trainer.may_end.set()
    trainer.answer = InvalidSpec([data_check.SpecError("/training/task/data", "task.data: no")])
    spec = spec_of(space=space, baselines=dict.fromkeys(["ppo_clip", "dapo", "matched"], baselines))
    assert refusals(spec, tmp_path, DataReader(), check=check_data) == {place: "task.data: no"}


def test_that_data_could_not_be_read_is_forgotten_after_a_while(
    tmp_path: Path, trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_check, "_KEPT_UNREAD_S", 0.0)
    reader, trainer.answer = DataReader(), "too much"
    trainer.may_end.set()
    assert check_data(spec_of(), tmp_path, reader).unchecked == ["too much"]
    wait_until("it is forgotten", lambda: not reader._readings)


def test_what_could_not_be_read_is_no_warning_but_unchecked(tmp_path: Path, trainer: Trainer) -> None:
    reader, trainer.answer = DataReader(), "reading data and tokenizer took longer than 900 s"
    trainer.may_end.set()
    plan = make_plan(spec_of(), None)
    for _ in range(2):
        shown = with_data(plan, spec_of(), check_data(spec_of(), tmp_path, reader), tmp_path)
        assert (shown.unchecked, shown.warnings, shown.prompts) == ([trainer.answer], plan.warnings, ())
    assert len(trainer.begun) == 1


@pytest.mark.parametrize(
    ("columns", "prompt", "warned"),
    [
        (("instruction", "input"), "input", True),
        (("instruction", "input"), "Do it: {instruction}", True),
        (("instruction", "input"), "{instruction}\n\n{input}", False),
        (("instruction", "input"), "text", False),
        (("instruction",), "instruction", False),
    ],
)
def test_a_prompt_of_half_of_alpacas_columns_is_warned_of(
    tmp_path: Path, trainer: Trainer, columns: Sequence[str], prompt: str, warned: bool
) -> None:
    trainer.may_end.set()
    add_dataset(tmp_path, "mine", {"train": [dict.fromkeys((*columns, "text", "answer"), "1")]})
    task = {"name": "word_problems", "data": {"ref": "mine", "prompt": prompt}}
    spec = spec_of(training={"task": task})
    shown = with_data(make_plan(spec, None), spec, check_data(spec, tmp_path, DataReader()), tmp_path)
    assert any("shows only one of them" in warning for warning in shown.warnings) is warned


def test_a_plan_tells_validation_problems_that_are_alike(tmp_path: Path, trainer: Trainer) -> None:
    trainer.may_end.set()
    data = SEEN.data.model_copy(update={"validation_groups": Groups(groups=4, largest=6)})
    trainer.answer = SEEN.model_copy(update={"data": data})
    shown = with_data(make_plan(spec_of(), None), spec_of(), check_data(spec_of(), tmp_path, DataReader()), tmp_path)
    assert groups_warning(spec_of(), data) in shown.warnings


def test_all_data_of_a_space_are_read_and_the_first_are_shown(tmp_path: Path, trainer: Trainer) -> None:
    trainer.may_end.set()
    space = {"task.data.ref": ["one", "two", "mine"], "loss.beta1": [0, 1], "evaluation.samples_per_problem": [8, 16]}
    assert check_data(spec_of(space=space), tmp_path, DataReader()) == (SEEN, [])
    assert (trainer.begun[0], sorted(trainer.begun)) == ("mine", ["mine", "one", "two"])
    trainer.begun.clear()
    alone = {"space": {"task.data.ref": ["one", "two"]}, "baselines": {"dapo": False, "ppo_clip": False}}
    assert check_data(spec_of(**alone), tmp_path, DataReader()) == (SEEN, [])
    assert sorted(trainer.begun) == ["one", "two"]  # no trial has the data of the base
    many = spec_of(space={"task.data.ref": [f"d-{number}" for number in range(9)]})
    said = "2 more combinations of data and model in the space are not read here"
    assert check_data(many, tmp_path, DataReader()) == (SEEN, [said])
    own = {"task": {"name": "expressions"}}
    assert check_data(parse_spec({"name": "a", "space": {"loss.beta1": [0]}, "training": own}), tmp_path) == (None, [])


@pytest.mark.parametrize("change", ["rows", "answer"])
def test_other_rows_or_columns_are_read_anew(tmp_path: Path, trainer: Trainer, change: str) -> None:
    trainer.may_end.set()
    reader = DataReader()
    add_dataset(tmp_path / "a", "mine", {"train": [{"problem": "1?", "answer": "1"}]})
    add_dataset(tmp_path / "b", "mine", {"train": [{"problem": "1?", "answer": "2"}]})
    check_data(spec_of(), tmp_path / "a", reader)
    if change == "rows":
        check_data(spec_of(), tmp_path / "b", reader)
    else:
        task = {"name": "word_problems", "data": {"ref": "mine", "answer": "solution"}, "reward": "number"}
        check_data(spec_of(training={"task": task}), tmp_path / "a", reader)
    assert trainer.begun == ["mine"] * 2


# the process


def test_a_task_that_would_make_more_problems_than_there_are_is_refused(tmp_path: Path) -> None:
    few = spec_of(training={"task": {"name": "countdown", "numbers": 2}})
    with pytest.raises(InvalidSpec) as refused:
        check_data(few, tmp_path, DataReader())
    ((place, detail),) = [(error.pointer, error.detail) for error in refused.value.errors]
    assert (place, "only 506 different ones were found" in detail) == ("/training/task/problems", True)


def test_a_trainer_that_reads_gets_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = list[dict[str, str]]()

    def refuse(*_: object, env: dict[str, str], **__: object) -> None:
        given.append(env)
        raise OSError("no process")

    monkeypatch.setattr(data_check.subprocess, "Popen", refuse)
    for name in ("SWEEPS_DATABASE_URL", "MLFLOW_TRACKING_PASSWORD", "RAY_AUTH_TOKEN_PATH", "HF_TOKEN"):
        monkeypatch.setenv(name, "secret")
    with pytest.raises(OSError, match="no process"):
        check_data(spec_of(), tmp_path, DataReader())
    assert "secret" not in given[0].values()


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"LIMIT_BYTES": 2**25}, "reading data and tokenizer took more than 0.03125 GiB"),
        ({"limit_s": 0.0}, "reading data and tokenizer took longer than 0 s"),
    ],
)
def test_a_trainer_that_reads_has_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: dict[str, Any], said: str
) -> None:
    limit_s = limits.pop("limit_s", PATIENT_S)
    for name, limit in limits.items():
        monkeypatch.setattr(data_check, name, limit)
    assert check_data(spec_of("shop-sums"), tmp_path, DataReader(limit_s=limit_s)) == (None, [said])
