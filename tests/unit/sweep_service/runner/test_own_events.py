"""What a trainer of one's own may write, what follows from it, and how each mistake is told."""

import json
import os
import posixpath
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep_service.intake.spec_check import parse_spec
from sweep_service.runner import own_record
from sweep_service.runner.own_events import MAX_LINE, BadEvent, OwnEvents, _Any
from sweep_service.runner.own_record import OwnRecord
from sweep_service.runner.own_trainer_process import recorded_end
from sweep_service.runner.trainer_process import EVENTS_FILE, MAX_PART, EventChunk, OwnJob, attempt_end
from sweep_service.sweep.endings import Ending
from trainers.config import EvaluationConfig
from trainers.evaluation.evaluate import evaluate
from trainers.evaluation.problem_counts import problem_name
from trainers.evaluation.problem_parts import problem_group
from trainers.tasks.base import Completion, Judgement, Problem
from trainers.yaml_text import read_yaml

METRIC = "eval/avg_at_k"


def line(**event: Any) -> bytes:
    return json.dumps(event).encode() + b"\n"


def took(*events: dict[str, Any], steps: int = 10, metric: str = METRIC, after_step: int = 0) -> list[dict[str, Any]]:
    taken = OwnEvents(steps, metric, after_step)
    return [one for event in events for one in taken.take(line(**event))]


def test_an_event_is_passed_on_as_our_trainer_writes_it() -> None:
    (step,) = took({"type": "step", "step": 1, "metrics": {"loss": 0.5, "entropy": None, "n": 3}, "time": 7.5})
    assert step == {"type": "step", "step": 1, "metrics": {"loss": 0.5, "entropy": None, "n": 3}, "time": 7.5}
    first = {"type": "step", "step": 4}
    checkpoint, warning, finished = took(
        first,
        {"type": "checkpoint", "step": 4, "path": "/x"},
        {"type": "warning", "code": "ODD", "message": "look"},
        {"type": "finished"},
    )[1:]
    assert checkpoint["step"] == 4
    assert (warning["step"], warning["evidence"]) == (4, {})
    assert (finished["outcome"], finished["summary"]) == ("SUCCEEDED", {})
    assert all(event["time"] > 1e9 for event in (checkpoint, warning, finished))


def test_scores_follow_from_counts_as_those_of_our_evaluations_do() -> None:
    """The same judgements, counted by a program or evaluated by our trainer, give the same numbers."""
    dice, k = random.Random(0), 6
    problems = [Problem(f"{index}=", str(index)) for index in range(21)]
    outcomes = {problem.prompt: [dice.random() < 0.4 for _ in range(k)] for problem in problems}
    left = {prompt: list(rights) for prompt, rights in outcomes.items()}

    def sample(asked: Any) -> list[tuple[Completion, Judgement]]:
        judged = [left[problem.prompt].pop() for problem in asked]
        return [(Completion("x", 1, truncated=False), Judgement(float(right), right)) for right in judged]

    ours = evaluate(sample, problems, EvaluationConfig(samples_per_problem=k, pass_k=2))
    counted = {problem_name(problem): (sum(outcomes[problem.prompt]), k) for problem in problems}
    names, evaluation = took({"type": "evaluation", "step": 0, "problems": counted})
    scores = ("eval/avg_at_k", "eval/avg_at_k_se", "eval/avg_at_k_problem_se", "eval/problems")
    for name in scores:
        assert evaluation["metrics"][name] == pytest.approx(ours.metrics[name]), name
    assert evaluation["problems"]["judged"] == k
    assert sorted(names["names"]) == names["names"]  # a problem's half follows from its name alone
    half = len(problems) // 2 + 1
    by_name = dict(zip(names["names"], evaluation["problems"]["right"], strict=True))
    tune = [by_name[name] / k for name in names["names"][:half]]
    assert evaluation["metrics"]["eval/tune_part/avg_at_k"] == pytest.approx(sum(tune) / len(tune))
    confirm = [by_name[name] / k for name in names["names"][half:]]
    assert evaluation["metrics"]["eval/confirm_part/avg_at_k"] == pytest.approx(sum(confirm) / len(confirm))


def test_a_program_that_counts_no_problems_may_give_the_errors_of_its_scores() -> None:
    metrics = {METRIC: 0.5, "eval/avg_at_k_se": 0.1, "eval/pass_at_k_se": 0.0, "eval/reward_mean_se": None}
    (evaluation,) = took({"type": "evaluation", "step": 0, "metrics": metrics})
    assert evaluation["metrics"] == metrics


def test_progress_may_count_tokens_and_a_warning_may_be_of_any_step() -> None:
    progress, warning = took(
        {"type": "progress", "phase": "tokens", "done": 1_000_001, "total": 10**12},
        {"type": "warning", "code": "ODD", "message": "look", "step": 10},
    )
    assert (progress["done"], progress["total"], warning["step"]) == (1_000_001, 10**12, 10)


@pytest.mark.parametrize("when", [0.0, 1.7e9, 4e9, 1e11])
def test_an_event_keeps_its_time(when: float) -> None:
    assert [event["time"] for event in took({"type": "step", "step": 1, "time": when})] == [when]


def test_names_are_told_once_and_problems_without_a_judgement_count_for_nothing() -> None:
    one = COUNTED | {"problems": {"a": [1, 2], "b": [0, 0]}}
    events = took(one, {"type": "step", "step": 1}, one | {"step": 1})
    assert [event["type"] for event in events] == ["problems", "evaluation", "step", "evaluation"]
    assert events[1]["metrics"]["eval/avg_at_k"] == 0.5
    assert "eval/tune_part/avg_at_k" not in events[1]["metrics"]  # too few problems for halves
    assert sorted(events[1]["problems"]["judged"]) == [0, 2]


@pytest.mark.parametrize(
    "name",
    ["a//b", "a/", "/a", "a/../b", "a/./b", "a/..", "a/.", "a/.b", "a/-b", "", "1a", "a b", "é", "a\n", "a" * 101],
)
def test_names_of_metrics_that_mlflow_would_refuse_are_refused(name: str) -> None:
    for event in ({"type": "step", "step": 1, "metrics": {name: 1}}, {"type": "finished", "summary": {name: 1}}):
        with pytest.raises(BadEvent, match=r"is no name of a metric; begin with a letter|String should have at most"):
            took(event)
    for evaluated in ("eval/", "eval//x", "eval/../x"):
        with pytest.raises(BadEvent, match=r"is no name of a metric"):
            took({"type": "evaluation", "step": 0, "metrics": {METRIC: 0.5, evaluated: 1}})


def test_names_of_metrics_may_have_parts() -> None:
    names = ["a", "a/b", "a/1", "a/_b", "Actor/pg.loss-0_x/y..z", "a" * 100]
    (step,) = took({"type": "step", "step": 1, "metrics": dict.fromkeys(names, 1.0)})
    assert list(step["metrics"]) == names
    assert [posixpath.normpath(name) for name in names] == names  # which is what MLflow asks for


STEP: dict[str, Any] = {"type": "step", "step": 3}
EVALUATED: dict[str, Any] = {"type": "evaluation", "step": 3, "metrics": {METRIC: 0.5}}
COUNTED: dict[str, Any] = {"type": "evaluation", "step": 0, "problems": {"a": [1, 2]}}
SAVED: dict[str, Any] = {"type": "checkpoint", "step": 3, "path": "x"}
BAD = [
    ([STEP, STEP], "step 3 does not come after step 3, the one before; steps only go up"),
    ([STEP, {"type": "step", "step": 2}], "step 2 does not come after step 3"),
    ([{"type": "step", "step": 11}], "step 11 is beyond trainer.steps 10"),
    ([{"type": "step", "step": 0}], "step 0 is none; the first step is 1"),
    ([{"type": "step"}], "step: Field required"),
    ([{"type": "step", "step": "3"}], "step ('3'): Input should be a valid integer"),
    ([{"type": "step", "step": 2.5}], "step (2.5): Input should be a valid integer"),
    ([{"type": "step", "step": True}], "step (True): Input should be a valid integer"),
    ([STEP | {"metrics": {"loss": float("inf")}}], "metrics.loss (inf): Input should be a finite number"),
    ([STEP | {"metrics": {"loss": float("nan")}}], "metrics.loss (nan): Input should be a finite number"),
    ([STEP | {"metrics": {"loss": 1e39}}], "metrics.loss (1e+39): its magnitude is above 3.4e+38"),
    ([STEP | {"metrics": {"loss": -1e308}}], "metrics.loss (-1e+308): its magnitude is above 3.4e+38"),
    ([{"type": "finished", "summary": {"eval/x": 1e39}}], "summary.eval/x (1e+39): its magnitude"),
    ([STEP | {"metrics": {"final/objective": 1}}], "the metric final/objective has a name that only the service gives"),
    ([STEP | {"metrics": {"benchmark/mean": 1}}], "the metric benchmark/mean has a name that only the service gives"),
    ([STEP | {"metrics": {"loss": "0.5"}}], "metrics.loss ('0.5'): Input should be a valid number"),
    ([STEP | {"metrics": {'a"b': 1}}], "metrics: 'a\"b' is no name of a metric; begin with a letter"),
    ([STEP | {"metrics": {"eval/x": 1}}], "the metric eval/x is in the wrong event"),
    ([STEP | {"metrics": {f"m{number}": 1 for number in range(501)}}], "at most 500 items"),
    (
        [{"type": "step", "step": step, "metrics": {f"m/{step}/{n}": 1 for n in range(300)}} for step in (1, 2)],
        "more than 500 different metrics",
    ),
    ([STEP | {"time": 1e300}], "time (1e+300): Input should be less than or equal to"),
    ([STEP | {"metric": {"loss": 1}}], "metric: Extra inputs are not permitted"),
    ([{"type": "evalution", "step": 3}], "does not match any of the expected tags"),
    ([{"step": 3}], "it has no `type`, which says what the event is"),
    ([EVALUATED], "the evaluation at step 3 comes before the event of that step"),
    ([STEP, EVALUATED, EVALUATED], "the evaluation at step 3 comes after one at step 3"),
    ([STEP, EVALUATED | {"metrics": {}}], "it has no eval/avg_at_k, by which this sweep compares configs"),
    ([STEP, EVALUATED | {"metrics": {METRIC: None}}], "it has no eval/avg_at_k"),
    ([STEP, EVALUATED | {"metrics": {METRIC: 50}}], "eval/avg_at_k 50.0 is no share"),
    ([STEP, EVALUATED | {"metrics": {METRIC: 0.5, "loss": 1}}], "the metric loss is in the wrong event"),
    ([STEP, EVALUATED | {"problems": {"a": [1, 2]}}], "eval/avg_at_k follow from `problems`"),
    *(
        ([STEP, EVALUATED | {"metrics": {name: 0.5}, "problems": {"a": [1, 2]}}], f"{name} follow from `problems`")
        for name in ("eval/avg_at_k_se", "eval/avg_at_k_problem_se", "eval/problems")
    ),
    *(
        ([STEP, EVALUATED | {"metrics": {METRIC: 0.5, name: 0.5}}], f"{name}: scores of halves follow from")
        for name in ("eval/tune_part/avg_at_k", "eval/confirm_part/reward_mean", "eval/confirm_part/avg_at_k_se")
    ),
    (
        [COUNTED | {"metrics": {"eval/tune_part/avg_at_k": 0.5}}],
        "eval/tune_part/avg_at_k: scores of halves follow from",
    ),
    *(
        ([STEP, EVALUATED | {"metrics": {METRIC: 0.5, name: -0.5}}], f"{name} -0.5 is below 0")
        for name in ("eval/avg_at_k_se", "eval/avg_at_k_problem_se", "eval/pass_at_k_se", "eval/problems")
    ),
    ([STEP, EVALUATED | {"metrics": {}, "problems": {"a": [3, 2]}}], "problem 'a' has 3 right samples of 2"),
    ([STEP, EVALUATED | {"metrics": {}, "problems": {"a": [1]}}], "problems.a.1: Field required"),
    ([STEP, EVALUATED | {"metrics": {}, "problems": {}}], "at least 1 item"),
    (
        [COUNTED, STEP, COUNTED | {"step": 3, "problems": {"b": [1, 2]}}],
        "problems or groups are not those of the evaluation before",
    ),
    (
        [COUNTED, STEP, COUNTED | {"step": 3, "groups": {next(iter(COUNTED["problems"])): "g"}}],
        "problems or groups are not those of the evaluation before",
    ),
    (
        [COUNTED | {"groups": {"no such": "g", "nor this": "g"}}],
        "`groups` names 'no such' and 1 more, which `problems` does not; give names of problems",
    ),
    ([STEP, EVALUATED | {"groups": {"a": "g"}}], "it has `groups` but no `problems`, which these are groups of"),
    ([COUNTED | {"groups": {"a": 1}}], "groups.a (1): Input should be a valid string"),
    ([COUNTED, STEP, EVALUATED], "it has no `problems`, as the evaluation before had"),
    ([STEP, EVALUATED | {"metrics": {}, "problems": {"a": [0, 0]}}], "of none of its problems a sample was judged"),
    ([STEP, EVALUATED | {"metrics": {METRIC: 0.5, "eval/pass_at_k": 50}}], "eval/pass_at_k 50.0 is no share"),
    ([SAVED], "the checkpoint at step 3 comes before the event"),
    ([STEP, SAVED, SAVED | {"path": "y"}], "the checkpoint at step 3 comes after one at step 3; each has a later step"),
    ([STEP, {"type": "checkpoint", "step": 3}], "path: Field required"),
    ([STEP, {"type": "warning", "code": "odd", "message": "x"}], "code ('odd'): String should match"),
    ([STEP, {"type": "warning", "code": "ODD", "message": "x", "step": 11}], "step 11 is beyond trainer.steps 10"),
    ([{"type": "progress", "phase": "x", "done": 10**12 + 1}], "done (1000000000001): Input should be less than"),
    ([{"type": "progress", "phase": "x", "total": -1}], "total (-1): Input should be greater than"),
    ([{"type": "finished"}, STEP], "an event follows `finished`"),
    ([{"type": "finished", "outcome": "DIVERGED"}, {"type": "failed", "message": "x"}], "an event follows `finished`"),
    ([{"type": "failed", "message": "x"}, {"type": "finished"}], "an event follows `failed`; write that one last"),
    ([{"type": "finished", "outcome": "GREAT"}], "outcome ('GREAT'): Input should be 'SUCCEEDED' or 'DIVERGED'"),
]


def test_problems_of_one_group_lie_in_one_half_and_an_empty_group_is_none() -> None:
    problems = {f"p{number}": [number, 20] for number in range(20)}
    plain, _ = took({"type": "evaluation", "step": 0, "problems": problems})
    groups = {f"p{number}": "family" for number in range(3)} | {"p3": ""}
    names, evaluation = took({"type": "evaluation", "step": 0, "problems": problems, "groups": groups})
    sizes = Counter(map(problem_group, names["names"]))
    assert sorted(sizes.values()) == [1] * 17 + [3]
    assert len(set(names["names"]) - set(plain["names"])) == 3  # p3 is on its own, as without groups
    assert evaluation["metrics"]["eval/confirm_part/avg_at_k"] is not None
    family = next(group for group, size in sizes.items() if size == 3)
    by_name = dict(zip(names["names"], evaluation["problems"]["right"], strict=True))
    assert sorted(right for name, right in by_name.items() if problem_group(name) == family) == [0, 1, 2]
    few = {f"p{number}": f"{number % 15}" for number in range(20)}
    _, evaluation = took({"type": "evaluation", "step": 0, "problems": problems, "groups": few})
    assert "eval/tune_part/avg_at_k" not in evaluation["metrics"]  # 15 groups are too few for halves


@pytest.mark.parametrize(
    ("events", "reason"), BAD, ids=[f"{number} {reason[:40]}" for number, (_, reason) in enumerate(BAD)]
)
def test_a_mistake_is_named_with_its_field_and_value(events: list[dict[str, Any]], reason: str) -> None:
    taken = OwnEvents(10, METRIC)
    for event in events[:-1]:
        taken.take(line(**event))
    with pytest.raises(BadEvent) as found:
        taken.take(line(**events[-1]))
    assert reason in str(found.value)


@pytest.mark.parametrize(
    "text", [b"step 1\n", b"\n", b"[1]\n", b'"step"\n', b"null\n", b'{"type": "step", "st\n', b"\xff\n"]
)
def test_what_is_no_object_of_json_is_told(text: bytes) -> None:
    with pytest.raises(BadEvent):
        OwnEvents(10, METRIC).take(text)


def test_a_key_that_comes_twice_is_told() -> None:
    with pytest.raises(BadEvent, match="the key 'loss' appears twice in one object; give it once"):
        OwnEvents(10, METRIC).take(b'{"type": "step", "step": 1, "metrics": {"loss": 1.0, "loss": 2.0}}\n')


def test_another_objective_than_avg_at_k_must_be_in_every_evaluation() -> None:
    taken = OwnEvents(10, "eval/reward_mean")
    taken.take(line(type="evaluation", step=0, metrics={"eval/reward_mean": 0.5}))
    taken.take(line(type="step", step=1))
    with pytest.raises(BadEvent, match=r"it has no eval/reward_mean.*give it in `metrics`$"):
        taken.take(line(type="evaluation", step=1, metrics={METRIC: 0.5}))


def test_what_lies_on_a_limit_is_taken() -> None:
    taken = OwnEvents(10, METRIC)
    taken.take(line(type="step", step=10, metrics={f"m{number}": 1 for number in range(498)}))
    taken.take(line(type="evaluation", step=10, metrics={METRIC: 1.0, "eval/pass_at_k": 1.0}))
    (warning,) = taken.take(line(type="warning", code="ODD", message="x", step=0))
    assert warning["step"] == 0


@pytest.mark.parametrize("what", ["evaluation", "checkpoint"])
def test_after_a_resume_nothing_of_a_step_before_the_checkpoint_comes_again(what: str) -> None:
    more = {"metrics": {METRIC: 0.9}} if what == "evaluation" else {"path": "x"}
    for step in (0, 4):
        with pytest.raises(
            BadEvent, match=rf"the {what} at step {step} comes again after a resume .* at step 5; write"
        ):
            OwnEvents(10, METRIC, after_step=5).take(line(type=what, step=step, **more))
    assert OwnEvents(10, METRIC, after_step=5).take(line(type=what, step=5, **more))


def test_where_an_attempt_went_on_is_said_only_at_its_start() -> None:
    taken = OwnEvents(10, METRIC, after_step=5)
    with pytest.raises(BadEvent, match="step 5 does not come after step 5, which the checkpoint"):
        taken.take(line(type="step", step=5))
    taken.take(line(type="step", step=7))
    with pytest.raises(BadEvent, match="step 7 does not come after step 7, the one before"):
        taken.take(line(type="step", step=7))


DOCS = Path(__file__).parents[4] / "docs" / "own_trainer.md"
MODELS = {get_args(model.model_fields["type"].annotation)[0]: model for model in get_args(_Any)}


def test_the_docs_name_every_event_with_its_fields() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|.*\|$", DOCS.read_text(), re.MULTILINE)
    told = {name: set(re.findall(r"`(\w+)`", fields)) - {"metrics"} for name, fields in rows}
    fields = {name: model.model_fields.keys() - {"type", "time", "metrics"} for name, model in MODELS.items()}
    assert told == fields | {"type": set()}  # the head of the table


def test_the_sweeps_in_the_docs_can_be_submitted() -> None:
    shown = re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)
    assert [parse_spec(read_yaml(text, "docs")).trainer is not None for text in shown] == [True]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)
FIELDS = sorted({field for model in MODELS.values() for field in model.model_fields} - {"type"})
EVENTS = st.dictionaries(st.sampled_from(FIELDS), JSON | st.just({METRIC: 0.5}) | st.just({"a": [1, 2]}), max_size=4)


@given(st.lists(st.tuples(st.sampled_from([*MODELS]), EVENTS), max_size=5), st.binary(max_size=20))
def test_whatever_is_written_is_taken_or_refused(events: list[tuple[str, dict[str, Any]]], raw: bytes) -> None:
    """Nothing else is raised, so that no program brings down the actor above it; and what is taken can be written."""
    taken = OwnEvents(10, METRIC)
    for text in [*(line(**event | {"type": kind}) for kind, event in events), raw]:
        try:
            found = taken.take(text)
        except BadEvent:
            continue
        assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_what_is_missing_at_the_end() -> None:
    def missing(*events: dict[str, Any], after_step: int = 0, metric: str = METRIC) -> str | None:
        taken = OwnEvents(3, metric, after_step)
        for event in events:
            taken.take(line(**event))
        return taken.missing

    assert missing(STEP, EVALUATED) is None
    assert "after step 2 of 3" in (missing({"type": "step", "step": 2}) or "")
    assert "wrote no evaluation" in (missing(STEP) or "")
    assert missing(after_step=3) is None  # its last checkpoint was that of the last step, and nothing was left to do
    assert missing(STEP, after_step=2) is None  # the attempt before has evaluated


def record(folder: Path, offset: int = 0, steps: int = 1000) -> OwnRecord:
    return OwnRecord(folder, OwnJob(command=("x",), steps=steps, metric=METRIC), offset)


def append(folder: Path, *lines: bytes) -> None:
    with (folder / EVENTS_FILE).open("ab") as file:
        file.write(b"".join(lines))


def test_a_file_is_read_as_it_grows_and_a_torn_line_waits(tmp_path: Path) -> None:
    reader = record(tmp_path)
    assert reader.next_part().lines == ""  # there is no file yet
    one, two = line(type="step", step=1), line(type="step", step=2)
    append(tmp_path, one, two[:5])
    part = reader.next_part()
    assert (part.start, part.end, [event["step"] for event in part.events]) == (0, len(one), [1])
    assert reader.next_part().lines == ""
    append(tmp_path, two[5:])
    part = reader.next_part()
    assert (part.start, part.end, [event["step"] for event in part.events]) == (len(one), len(one) + len(two), [2])


def test_what_precedes_a_bad_line_is_passed_on_and_nothing_after_it(tmp_path: Path) -> None:
    good, bad = line(type="step", step=1), b"progress: 10 %\n"
    append(tmp_path, good, bad, line(type="step", step=2))
    reader = record(tmp_path)
    part = reader.next_part()
    assert (part.end, [event["step"] for event in part.events]) == (len(good), [1])
    assert reader.problem is not None
    assert reader.problem.startswith("line 2 of events.jsonl, progress: 10 %: Invalid JSON")
    assert "docs/own_trainer.md" in reader.problem
    assert reader.next_part().lines == ""


@pytest.mark.parametrize("ended", [True, False])
def test_a_huge_line_is_refused_before_all_of_it_is_there(tmp_path: Path, ended: bool) -> None:
    good = line(type="step", step=1)
    append(tmp_path, good, b"x" * (MAX_LINE + 1) + (b"\n" if ended else b""))
    reader = record(tmp_path)
    while (part := reader.next_part()).lines:
        assert part.end == len(good)
    assert "more than 1048576 bytes" in (reader.problem or "")
    assert len(reader.problem or "") < 500


def test_many_events_come_in_parts_and_however_many_were_passed_on_before_the_rest_follows(tmp_path: Path) -> None:
    wide = {f"metric/{number}": 0.5 for number in range(400)}
    lines = [line(type="step", step=step, metrics=wide) for step in range(1, 301)]
    append(tmp_path, *lines)
    reader, steps, parts = record(tmp_path), list[int](), 0
    while (part := reader.next_part()).lines:
        steps += [event["step"] for event in part.events]
        parts += 1
    assert (steps, reader.problem) == (list(range(1, 301)), None)
    assert parts > 2
    offset = sum(map(len, lines[:-2]))
    assert offset > 2 * MAX_PART
    part = record(tmp_path, offset).next_part()
    assert (part.start, [event["step"] for event in part.events]) == (offset, [299, 300])


def test_what_was_passed_on_before_is_read_for_its_order_alone(tmp_path: Path) -> None:
    """After a crash of the runner the store has the first lines, and what follows must still fit them."""
    lines = [line(type="step", step=1), line(type="step", step=2), line(type="step", step=3), line(type="finished")]
    append(tmp_path, *lines)
    offset = len(lines[0]) + len(lines[1])
    reader = record(tmp_path, offset, steps=3)
    part = reader.next_part()
    assert (part.start, [event["type"] for event in part.events]) == (offset, ["step", "finished"])
    assert (reader.events.step, reader.events.finished) == (3, "SUCCEEDED")


def test_a_checkpoint_gets_its_whole_path_and_a_warning_where_it_is_not_there(tmp_path: Path) -> None:
    """An older one may be gone by the time at which its event is read, as of a program that keeps one only."""
    for step in (1, 2):
        append(tmp_path, line(type="step", step=step), line(type="checkpoint", step=step, path=f"saved-{step}"))
    (tmp_path / "saved-2").mkdir()
    events = record(tmp_path).next_part().events
    assert [event["path"] for event in events if event["type"] == "checkpoint"] == [
        str(tmp_path / "saved-1"),
        str(tmp_path / "saved-2"),
    ]
    assert events[-1]["type"] == "checkpoint"
    append(tmp_path, line(type="step", step=3), line(type="checkpoint", step=3, path="/gone/3"))
    reader = record(tmp_path)
    *_, warning = reader.next_part().events
    assert (warning["code"], warning["step"]) == ("CHECKPOINT_MISSING", 3)
    assert warning["message"].startswith("there is no /gone/3; announce a checkpoint once it is complete")
    assert reader.problem is None
    after = record(tmp_path, (tmp_path / EVENTS_FILE).stat().st_size)
    assert (after.next_part().lines, after.problem) == ("", None)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("a" * 256, "more than 255 bytes"),
        ("é" * 128, "more than 255 bytes"),
        ("/".join(["a" * 200] * 20), "more than 4000"),
        ("a\x00b", "holds the character 0"),
    ],
)
def test_a_path_that_no_file_can_have_is_a_mistake(tmp_path: Path, path: str, reason: str) -> None:
    append(tmp_path, line(type="step", step=1), line(type="checkpoint", step=1, path=path))
    reader = record(tmp_path)
    assert [event["type"] for event in reader.next_part().events] == ["step"]
    assert reason in (reader.problem or "")
    assert (reader.problem or "").startswith("line 2 of events.jsonl")


def test_a_path_may_have_names_as_long_as_the_disk_takes_and_lead_through_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    append(tmp_path, line(type="step", step=1), line(type="checkpoint", step=1, path="a" * 255))
    append(tmp_path, line(type="step", step=2), line(type="checkpoint", step=2, path="file/inside"))
    reader = record(tmp_path)
    assert reader.next_part().events[-1]["code"] == "CHECKPOINT_MISSING"
    assert reader.problem is None


def make_link(path: Path) -> None:
    (target := path.with_name("elsewhere")).write_bytes(line(type="step", step=1))
    path.symlink_to(target)


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, make_link], ids=["folder", "fifo", "link"])
def test_only_an_ordinary_file_is_read(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """Neither does a FIFO block whoever reads it, nor a folder raise again and again, nor is a link followed."""
    make(tmp_path / EVENTS_FILE)
    reader = record(tmp_path)
    for _ in range(2):
        assert reader.next_part().lines == ""
    assert f"{tmp_path / EVENTS_FILE} is no ordinary file that can be read" in (reader.problem or "")
    assert recorded_end(reader, tmp_path) == (Ending.FAILED, reader.problem)
    assert attempt_end(1, tmp_path) == (Ending.FAILED, "the trainer ended with exit code 1 and said nothing")


def test_a_flood_of_warnings_is_read_part_by_part_and_hardly_any_is_passed_on(tmp_path: Path) -> None:
    warning = line(type="warning", code="ODD", message="x" * 1900)
    (tmp_path / EVENTS_FILE).write_bytes(warning * 3000 + line(type="step", step=1))
    reader, parts = record(tmp_path), list[EventChunk]()
    while (part := reader.next_part()).end > part.start:
        parts.append(part)
    assert [part.start for part in parts[1:]] == [part.end for part in parts[:-1]]
    assert parts[-1].end == (tmp_path / EVENTS_FILE).stat().st_size
    assert max(part.end - part.start for part in parts) <= MAX_PART + 1
    events = [event for part in parts for event in part.events]
    assert events[-1]["type"] == "step"
    assert len(events) == 100 + 12 + 1  # 2,900 were left out, told at each power of two
    assert any(part.lines == "" for part in parts)


def test_a_program_that_writes_faster_than_it_is_read_is_told_and_what_was_read_before_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flood = line(type="progress", phase="x") * 100_000
    monkeypatch.setattr(own_record, "MAX_BEHIND", len(flood) - 1)
    (tmp_path / EVENTS_FILE).write_bytes(flood)
    reader = record(tmp_path)
    assert reader.next_part().lines == ""
    assert (reader.problem or "").startswith("events.jsonl grew faster than it is read")
    later = OwnRecord(tmp_path, OwnJob(command=("x",), steps=10, metric=METRIC), offset=len(flood) // 2)
    later.next_part()
    assert later.problem is None


def test_a_file_that_has_become_too_large_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_record, "MAX_FILE", 4 << 20)
    with (tmp_path / EVENTS_FILE).open("wb") as file:
        file.truncate((4 << 20) + 1)
    reader = record(tmp_path)
    assert reader.next_part().lines == ""
    assert (reader.problem or "").startswith("events.jsonl has more than 4 MiB; write less into it")
