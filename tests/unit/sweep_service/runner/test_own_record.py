"""What a program says beside its results is thinned, and counted; its results never are."""

from typing import Any

from sweep_service.runner.own_record import LEFT_OUT, MAX_STARTED, MAX_WARNINGS, OwnNotes


def thinned(notes: OwnNotes, *events: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for event in events for one in notes.thinned(event)]


def test_of_many_warnings_the_first_are_kept_and_the_others_counted() -> None:
    flood = [
        {"type": "warning", "code": f"W{n}", "message": "x", "evidence": {}, "step": n, "time": 1.0}
        for n in range(5000)
    ]
    events = thinned(OwnNotes(), *flood)
    assert events[:MAX_WARNINGS] == flood[:MAX_WARNINGS]
    told = events[MAX_WARNINGS:]
    assert {event["code"] for event in told} == {LEFT_OUT}
    assert [event["evidence"]["left_out"] for event in told] == [2**n for n in range(13)]
    assert told[-1]["message"] == "of an attempt's warnings the first 100 are kept; at least 4096 more were left out"
    assert (told[-1]["step"], told[-1]["time"]) == (4096 + MAX_WARNINGS - 1, 1.0)


def test_progress_is_kept_once_a_second_and_more_rarely_the_longer_it_takes() -> None:
    now = [1000.0]
    notes = OwnNotes(lambda: now[0])
    times = list[float]()
    while now[0] < 1600:
        if notes.thinned({"type": "progress", "phase": "p", "done": 1, "total": 2}):
            times.append(now[0] - 1000)
        now[0] += 0.25
    assert times[:3] == [0, 1, 2]
    assert 150 < len(times) < 250
    assert 10 < times[-1] - times[-2] < 13


def test_results_are_never_left_out_and_a_program_begins_a_few_times() -> None:
    notes = OwnNotes(lambda: 0.0)
    for type_ in ("step", "evaluation", "checkpoint", "finished", "failed"):
        assert len(thinned(notes, *[{"type": type_, "step": n} for n in range(3000)])) == 3000
    assert len(thinned(notes, *[{"type": "started"}] * 50)) == MAX_STARTED
