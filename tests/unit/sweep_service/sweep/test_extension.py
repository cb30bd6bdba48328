"""Looks: every choice of further results, or of fewer, after a report has compared confirm results."""

from typing import Any

import pytest

from sweep_service.sweep.extension import draws_more, looks
from sweep_service.sweep.records import Event
from sweep_service.sweep.spec import SweepSpec

SHOWN = "sweep.confirm_results_compared"
CONFIRM, TUNE = ({"type": "trials.added", "data": {"stages": [stage]}} for stage in ("confirm", "tune"))
BENCHMARKS = {"type": "sweep.benchmarks_added", "data": {"names": ["gsm8k"], "trials": 1}}
STOP = {"type": "trial.stop_requested", "data": {"trial_id": "trl_1", "counts": False}}
CANCEL = {"type": "sweep.cancel_requested", "data": {"by": None}}
PAUSE = {"type": "sweep.pause_requested", "data": {"by": None}}


def extended(*parts: str) -> dict[str, Any]:
    return {"type": "sweep.extended", "data": {"changes": {"resources": {}}, "draws_more": [*parts]}}


def extended_before(changes: dict[str, Any]) -> dict[str, Any]:
    """An extension in a store of before, whose event does not say what it draws."""
    return {"type": "sweep.extended", "data": {"changes": changes, "more_confirm_seeds": [9]}}


def retried(*ids: str) -> dict[str, Any]:
    return {"type": "sweep.trials_retried", "data": {"trials": [*ids]}}


def events(*kinds: str | dict[str, Any]) -> list[Event]:
    """Return events: a word is a state, or the type of an event with its data left out."""
    full = [
        kind if isinstance(kind, dict) else {"type": kind, "data": {}} if "." in kind
        else {"type": "sweep.state_changed", "data": {"state": kind}}
        for kind in kinds
    ]  # fmt: skip
    return [Event(sweep_id="swp", seq=seq, time=0.0, **kind) for seq, kind in enumerate(full, 1)]


@pytest.mark.parametrize("choice", ["space", "search", "seeds", "budget.max_gpu_hours", "trials"])
def test_whatever_an_extension_draws_after_a_comparison_makes_a_look(choice: str) -> None:
    assert looks(events("RUNNING", CONFIRM, SHOWN, "SUCCEEDED", extended(choice), "RUNNING")) == 2


@pytest.mark.parametrize(
    ("number", "history"),
    [
        (1, []),
        (1, ["RUNNING", TUNE, CONFIRM, "FINALIZING", SHOWN, "SUCCEEDED"]),
        (1, ["RUNNING", CONFIRM, extended("seeds"), "FINALIZING", SHOWN, "SUCCEEDED"]),  # nobody had a report
        (1, ["RUNNING", TUNE, "SUCCEEDED", extended("seeds"), CONFIRM, SHOWN, "SUCCEEDED"]),  # adds the confirm stage
        (2, ["RUNNING", CONFIRM, SHOWN, extended("seeds"), "SUCCEEDED"]),  # an interim report
        (2, ["RUNNING", CONFIRM, SHOWN, CANCEL, "CANCELLED", SHOWN]),
        (1, ["RUNNING", CONFIRM, CANCEL, "CANCELLED", SHOWN]),
        (1, ["RUNNING", CONFIRM, SHOWN, PAUSE, "PAUSED", "RUNNING", SHOWN, "SUCCEEDED"]),
        (2, ["RUNNING", CONFIRM, SHOWN, STOP, STOP, SHOWN, "SUCCEEDED"]),
        (1, ["RUNNING", STOP, SHOWN, "SUCCEEDED"]),
        (2, ["FAILED", SHOWN, retried("trl_1", "evl_1"), "RUNNING"]),
        (1, ["FAILED", SHOWN, retried("evl_1"), "RUNNING"]),
        (1, ["SUCCEEDED", SHOWN, extended(), BENCHMARKS, "RUNNING", "SUCCEEDED"]),
        (2, [SHOWN, "SUCCEEDED", extended("space"), retried("trl_1"), extended("seeds"), CANCEL, SHOWN]),
        (3, [SHOWN, "SUCCEEDED", extended("space"), SHOWN, "SUCCEEDED", extended("search")]),
        (2, [CONFIRM, "SUCCEEDED", extended_before({"seeds": {"confirm": {"seeds": [9]}}}), "SUCCEEDED"]),
        (2, [CONFIRM, "SUCCEEDED", extended_before({"space": {"loss.beta1": [0.5]}})]),
        (1, [CONFIRM, "SUCCEEDED", extended_before({"resources": {"max_parallel": 1}})]),
        (1, ["SUCCEEDED", extended_before({"seeds": {"confirm": {"seeds": [9]}}})]),  # it had no confirm trial yet
    ],
)  # fmt: skip
def test_a_look_is_a_choice_after_results_were_compared(number: int, history: list[Any]) -> None:
    assert looks(events(*history)) == number


def test_only_what_a_spec_has_more_of_is_drawn() -> None:
    spec = SweepSpec.model_validate(
        {
            "name": "extended",
            "training": {"loss": {"name": "ce_gppo"}},
            "space": {"loss.beta1": [0.25, 0.5]},
            "seeds": {"tune": [0], "confirm": {"top_k": 1, "seeds": [7, 8]}},
        }
    )
    changes: dict[str, tuple[dict[str, Any], list[str]]] = {
        "nothing": ({}, []),
        "slots": ({"resources": {"max_parallel": 1}, "retries": {"max_crashes": 9}}, []),
        "values": ({"space": {"loss.beta1": [0.25, 0.5, 0.75]}}, ["space"]),
        "tune seeds": ({"seeds": {"tune": [0, 1], "confirm": {"top_k": 1, "seeds": [7, 8]}}}, ["seeds"]),
        "top_k": ({"seeds": {"tune": [0], "confirm": {"top_k": 2, "seeds": [7, 8]}}}, ["seeds"]),
        "hours": ({"budget": {"max_gpu_hours": 3}}, ["budget.max_gpu_hours"]),
        "hours of a trial": ({"budget": {"max_trial_hours": 3}}, ["budget.max_trial_hours"]),
        "hours of waiting": ({"budget": {"max_wait_hours": 3}}, []),
    }
    document = spec.model_dump(mode="json")
    for name, (changed, parts) in changes.items():
        assert (name, draws_more(spec, SweepSpec.model_validate(document | changed))) == (name, parts)
