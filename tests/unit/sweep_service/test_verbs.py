"""The table of verbs: which rows it takes, where they lead, and which sweeps' pages offer their buttons."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from sweep_service.intake.spec_check import parse_spec
from sweep_service.sweep.added_benchmarks import AddedBenchmarks
from sweep_service.sweep.deletion import DeletionState
from sweep_service.sweep.records import DesiredState, SweepState
from sweep_service.verbs import VERBS, Button, Command, Shown, Verb
from tests.stored_sweeps import SPEC, make_sweep

DOCS = Path("docs")
STEER = {"pause", "cancel"}
MEASURED = {"added_benchmarks": (AddedBenchmarks(names=("gsm8k",), trials=("trl_0",)),)}
OFFERED: dict[str, tuple[dict[str, Any], dict[str, Any], set[str]]] = {
    "it waits": ({"state": SweepState.QUEUED}, {}, STEER),
    "it runs": ({"state": SweepState.RUNNING}, {"failed_trials": 1, "report_stands": True}, STEER),
    "it saves": ({"state": SweepState.RUNNING, "desired_state": DesiredState.PAUSE}, {}, {"resume", "cancel"}),
    "it is paused": ({"state": SweepState.PAUSED, "desired_state": DesiredState.PAUSE}, {}, {"resume", "cancel"}),
    "it is to end": ({"state": SweepState.RUNNING, "desired_state": DesiredState.CANCEL}, {}, set()),
    "its report is made": ({"state": SweepState.FINALIZING}, {}, {"cancel"}),
    "all succeeded": ({"state": SweepState.SUCCEEDED}, {"report_stands": True}, {"renew_report"}),
    "some failed": (
        {"state": SweepState.SUCCEEDED},
        {"report_stands": True, "failed_trials": 1},
        {"renew_report", "retry_failed"},
    ),
    "its report is made anew": ({"state": SweepState.SUCCEEDED}, {"failed_trials": 1}, {"retry_failed"}),
    "it failed": ({"state": SweepState.FAILED}, {"failed_trials": 3}, {"retry_failed"}),
    "it was measured on more": (
        {"state": SweepState.SUCCEEDED, **MEASURED},
        {"report_stands": True, "failed_trials": 1},
        {"renew_report"},
    ),
    "it was cancelled": (
        {"state": SweepState.CANCELLED, "desired_state": DesiredState.CANCEL},
        {"report_stands": True, "failed_trials": 1},
        {"renew_report"},
    ),
    "it is archived": (
        {"state": SweepState.SUCCEEDED},
        {"report_stands": True, "deletion": DeletionState.ARCHIVED},
        set(),
    ),
}
"""A sweep's fields, what its page knows besides, and the verbs that are offered."""


@pytest.mark.parametrize(("fields", "facts", "offered"), OFFERED.values(), ids=OFFERED)
def test_a_button_is_offered_where_its_verb_makes_sense(
    fields: dict[str, Any], facts: dict[str, Any], offered: set[str]
) -> None:
    known = {"failed_trials": 0, "report_stands": False, "deletion": None} | facts
    shown = Shown(sweep=make_sweep(parse_spec(SPEC), **fields), **known)
    names = set[str]().union(*(names for _, _, names in OFFERED.values()))
    assert {name for name in names if (button := VERBS[name].button) and button.offered(shown)} == offered


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_a_row_leads_to_states_models_and_sections_that_exist(verb: Verb) -> None:
    if verb.command and verb.command.goal:
        assert SweepState(verb.command.goal)
    if verb.request:
        assert issubclass(verb.request_model, BaseModel)
        assert verb.request_model.model_validate_json(verb.body)
    page, _, section = verb.more.partition("#")
    text = (DOCS / (page or "api.md")).read_text()
    headings = {re.sub(r"[^a-z0-9 -]", "", line.lower()) for line in re.findall(r"(?m)^#+ (.+)$", text)}
    places = {line.replace(" ", "-") for line in headings} | set(re.findall(r'<a id="([^"]+)"', text))
    assert not section or section in places


BODY = {"request": "a:B", "body": "{}", "refused": "no"}
COMMAND = Command(example="", doing="")
BUTTON = Button(text="Star", offered=lambda shown: True, refusal="It cannot")
ROW: dict[str, Any] = {"name": "star", "path": "sweeps/{sweep_id}/star", "does": "", "conflict": "", "more": ""}
WRONG = {
    "a button of a trial": {"path": "trials/{trial_id}/star", "button": BUTTON},
    "a command of a trial": {"path": "trials/{trial_id}/star", "command": COMMAND},
    "a button with a body": BODY | {"button": BUTTON},
    "a command with a body": BODY | {"command": COMMAND},
    "a body without an example": BODY | {"body": ""},
    "a body without a refusal": BODY | {"refused": ""},
    "a command about reports": {"answer": "ReportsView", "command": COMMAND},
    "a warning without a second button": {"button": replace(BUTTON, warning="It shines")},
}


@pytest.mark.parametrize("changes", WRONG.values(), ids=WRONG)
def test_a_row_that_no_route_command_or_button_could_serve_is_refused(changes: dict[str, Any]) -> None:
    assert Verb(**ROW)
    with pytest.raises(AssertionError):
        Verb(**ROW | changes)
