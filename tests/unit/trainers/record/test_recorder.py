from pathlib import Path
from typing import Any

import pytest

from trainers.evaluation.evaluate import EvaluationResult
from trainers.evaluation.problem_counts import ProblemCounts
from trainers.process.events import EventWriter, NoEvents, read_events
from trainers.record import recorder as recorder_module
from trainers.record.recorder import Recorder

COUNTS = ProblemCounts(["a", "b"], [4, 4], [1, 3])


def test_a_step_without_rewards_is_recorded(tmp_path: Path) -> None:
    """Such as one after a rollout on which the judge failed throughout."""
    with EventWriter(tmp_path / "events.jsonl") as events:
        recorder = Recorder(events, total_steps=3, first_step=0, state={})
        recorder.step(1, {"tokens/step": 7.0, "reward/mean": None, "entropy": 1.5})
        recorder.step(2, {"tokens/step": 5.0, "reward/mean": 0.5, "entropy": None})
        recorder.step(3, {"tokens/step": None, "reward/mean": 0.5, "entropy": None})
    events = read_events(tmp_path / "events.jsonl")
    assert [(event["type"], event["step"]) for event in events] == [("step", 1), ("step", 2), ("step", 3)]
    metrics = [event["metrics"] for event in events]
    assert [step["reward/mean"] for step in metrics] == [None, 0.5, 0.5]
    assert [step["tokens/total"] for step in metrics] == [7, 12, 12]


def test_tokens_and_evaluations_count_on_from_a_checkpoint(tmp_path: Path) -> None:
    state = {"tokens_total": 10.0, "evaluations": [0.1, 0.2, 0.3], "latest": {"eval/avg_at_k": 0.3}}
    with EventWriter(tmp_path / "events.jsonl") as events:
        recorder = Recorder(events, total_steps=2, first_step=1, state=state)
        recorder.step(2, {"tokens/step": 5.0, "reward/mean": 0.5, "entropy": 1.0})
        recorder.finished("STOPPED", 2)
    (finished,) = [event for event in read_events(tmp_path / "events.jsonl") if event["type"] == "finished"]
    assert finished["summary"]["tokens/total"] == 15
    assert finished["summary"]["eval/avg_at_k"] == 0.3
    assert finished["summary"]["eval/avg_at_k_last3"] == pytest.approx(0.2)


def test_the_summary_averages_the_last_three_evaluations(tmp_path: Path) -> None:
    with EventWriter(tmp_path / "events.jsonl") as events:
        recorder = Recorder(events, total_steps=8, first_step=0, state={})
        for step, value in enumerate((0.9, 0.1, None, 0.2, 0.6)):
            recorder.evaluation(step, EvaluationResult({"eval/avg_at_k": value}, [], COUNTS))
        recorder.finished("SUCCEEDED", 8)
    (finished,) = [event for event in read_events(tmp_path / "events.jsonl") if event["type"] == "finished"]
    assert finished["summary"]["eval/avg_at_k"] == 0.6
    assert finished["summary"]["eval/avg_at_k_last3"] == pytest.approx(0.3)


def test_the_problems_are_named_once_by_each_process_and_counted_at_every_evaluation(tmp_path: Path) -> None:
    failed = COUNTS._replace(judged=[4, 3])
    for counts in ([COUNTS, failed], [COUNTS]):
        with EventWriter(tmp_path / "events.jsonl") as events:
            recorder = Recorder(events, total_steps=8, first_step=0, state={})
            for step, counted in enumerate(counts):
                recorder.evaluation(step, EvaluationResult({"eval/avg_at_k": 0.5}, [], counted))
    events = [event for event in read_events(tmp_path / "events.jsonl") if event["type"] != "samples"]
    assert [event["type"] for event in events] == ["problems", "evaluation", "evaluation", "problems", "evaluation"]
    assert (events[0]["digest"], events[0]["names"]) == (COUNTS.digest, ["a", "b"])
    assert events[1]["problems"] == {"digest": COUNTS.digest, "judged": 4, "right": [1, 3]}
    assert events[2]["problems"] == {"digest": COUNTS.digest, "judged": [4, 3], "right": [1, 3]}


def test_the_progress_bar_shows_reward_and_entropy_and_ends_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list[tuple[Any, ...]]()

    class Bar:
        def __getattr__(self, name: str) -> Any:
            return lambda *args, **kwargs: calls.append((name, *args, kwargs))

    def bar(*args: Any) -> Bar:
        calls.append(("bar", *args))
        return Bar()

    monkeypatch.setattr(recorder_module, "bar", bar)
    recorder = Recorder(NoEvents(), total_steps=9, first_step=4, state={})
    recorder.finished("STOPPED", 4)
    assert calls == []  # nothing was shown
    recorder.step(5, {"tokens/step": 7.0, "reward/mean": 0.25, "entropy": 1.5})
    recorder.step(6, {"tokens/step": 7.0, "reward/mean": None, "entropy": 1.5})
    recorder.finished("STOPPED", 6)
    assert calls == [
        ("bar", "training", 9, 4),
        ("set_postfix_str", "reward 0.25, entropy 1.50", {"refresh": False}),
        ("update", {}),
        ("set_postfix_str", "entropy 1.50", {"refresh": False}),
        ("update", {}),
        ("close", {}),
    ]
