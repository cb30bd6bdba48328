"""The published JSON Schema of the report, and real reports held against it."""

import json
from pathlib import Path
from typing import Any

import pytest

from sweep_service.report import Report, report_json
from sweep_service.report.build import build
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.schema import schema_text
from sweep_service.sweep.records import SweepState, TrialState
from tests.unit.sweep_service.report.report_benchmarks import measured_inputs
from tests.unit.sweep_service.report.report_sweeps import on_seeds, sweep_inputs

WAITS = {"state": TrialState.PENDING, "step": 0, "started_at": None, "ended_at": None, "attempts": 0}
PUBLISHED = Path(__file__).parents[4] / "docs" / "report.schema.json"


def test_the_published_schema_is_that_of_the_model() -> None:
    assert PUBLISHED.read_text() == schema_text(), "run python -m sweep_service.report.schema > docs/report.schema.json"


def unconfirmed() -> ReportInputs:
    return sweep_inputs(on_seeds((0,), confirm=()) | {"baselines": {"ppo_clip": False}})


def across_losses() -> ReportInputs:
    return sweep_inputs({"space": {"loss.name": ["ce_gppo", "cispo", "gspo"], "optimizer.learning_rate": [1e-4, 1e-3]}})


def half_done() -> ReportInputs:
    fates = [
        {"state": TrialState.SUCCEEDED, "step": 240},
        {"state": TrialState.DIVERGED, "step": 200, "message": "the loss is NaN"},
        {"state": TrialState.FAILED, "step": 10, "message": "no memory"},
        {"state": TrialState.RUNNING, "step": 100, "ended_at": None},
        WAITS,
    ]
    return sweep_inputs(
        fate=lambda _, trial: trial.model_copy(update=fates[trial.seed % 10 % len(fates)]),
        state=SweepState.RUNNING,
        spec=on_seeds(range(5), confirm=()),
    )


def nothing() -> ReportInputs:
    return sweep_inputs(fate=lambda _, trial: trial.model_copy(update=WAITS), state=SweepState.QUEUED, confirmed=False)


@pytest.mark.parametrize("make", [sweep_inputs, measured_inputs, unconfirmed, across_losses, half_done, nothing])
def test_reports_are_as_the_schema_says_and_can_be_read_back(make: Any) -> None:
    report = build(make())
    written = report_json(report)
    assert faults(json.loads(written)) == []
    assert Report.model_validate_json(written) == report
    assert report_json(Report.model_validate_json(written)) == written


def test_what_the_schema_does_not_allow_is_found() -> None:
    document = json.loads(report_json(build(sweep_inputs())))
    document["verdict"]["outcome"] = "BEST"
    document["trials"][0]["seed"] = "7"
    del document["sweep"]["name"]
    document["curves"][0]["unit"] = "nats"
    document["method"] = None
    assert faults(document) == [
        "/curves/0/unit is not described",
        "/method is no array",
        "/sweep/name is missing",
        "/trials/0/seed is no integer",
        "/verdict/outcome is none of BETTER, WORSE, EQUIVALENT, AHEAD IN SOUND RUNS, BEHIND IN SOUND RUNS, "
        "ALIKE IN SOUND RUNS, AHEAD ON THESE PROBLEMS, BEHIND ON THESE PROBLEMS, ALIKE ON THESE PROBLEMS, UNDECIDED, "
        "INSUFFICIENT, EXPLORATORY",
    ]


_TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": int | float, "boolean": bool}
_TYPES |= {"null": type(None)}


def faults(document: Any) -> list[str]:
    """Return what the published schema does not allow, in order."""
    schema = json.loads(PUBLISHED.read_text())
    return sorted(_faults(document, schema, schema["$defs"], ""))


def _faults(value: Any, schema: dict[str, Any], known: dict[str, Any], path: str) -> list[str]:
    """Check the keywords that pydantic writes."""
    if "$ref" in schema:
        return _faults(value, known[schema["$ref"].removeprefix("#/$defs/")], known, path)
    if "anyOf" in schema:
        found = [_faults(value, option, known, path) for option in schema["anyOf"]]
        return min(found, key=len)
    if "const" in schema:
        return [] if value == schema["const"] else [f"{path} is not {schema['const']}"]
    if "enum" in schema:
        return [] if value in schema["enum"] else [f"{path} is none of {', '.join(schema['enum'])}"]
    kind = schema.get("type")
    if kind and (not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")):
        return [f"{path} is no {kind}"]
    if kind == "array":
        return [text for i, item in enumerate(value) for text in _faults(item, schema["items"], known, f"{path}/{i}")]
    if kind != "object":
        return []
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", False)
    found = [f"{path}/{name} is missing" for name in schema.get("required", ()) if name not in value]
    for name, item in value.items():
        if name in properties:
            found += _faults(item, properties[name], known, f"{path}/{name}")
        elif others is False:
            found.append(f"{path}/{name} is not described")
        elif others is not True:
            found += _faults(item, others, known, f"{path}/{name}")
    return found
