"""The events that a trainer of one's own writes: their fields, their order, and what follows from them. Pure.

docs/own_trainer.md specifies them for the authors of such trainers. What breaks a rule is a `BadEvent` that says how to
repair it; what keeps them all becomes events as our trainer writes them.
"""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any, Final, Literal, cast

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from trainers.evaluation.estimates import Counts, average_pass_at_k
from trainers.evaluation.problem_counts import ProblemCounts
from trainers.evaluation.problem_parts import PARTS, digest_name, part_metric, split_problems
from trainers.json_text import RepeatedKey, unique_keys

MAX_LINE: Final = 1 << 20
"""Most bytes of one line."""
MAX_METRICS: Final = 500
"""Most different metrics of one attempt."""
LARGEST: Final = 3.4e38
"""Largest value of a metric, as of a float32: squares and sums of what is larger overflow."""
_OF_THE_SERVICE: Final = ("final/", "benchmark/")
_COUNTED: Final = ("eval/avg_at_k", "eval/avg_at_k_se", "eval/avg_at_k_problem_se", "eval/problems")
_SHARES: Final = ("eval/avg_at_k", "eval/pass_at_k")
_HALVES: Final = tuple(f"eval/{part}/" for part in PARTS)
_NAME_DIGITS: Final = 16

_METRIC: Final = r"^[A-Za-z][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$"
"""Names that MLflow takes, too, for which they are paths: no part of one is empty, or begins with a dot."""
_RULE_OF_NAMES: Final = "begin with a letter, take letters, digits and _ . / -, and a letter, digit or _ after each /"
_Metric = Annotated[str, StringConstraints(pattern=_METRIC, max_length=100)]


def _moderate(value: float) -> float:
    """Refuse a value with which sums and squares overflow."""
    if abs(value) > LARGEST:
        raise ValueError(f"its magnitude is above {LARGEST:g}; write null where there is no value")
    return value


_Value = Annotated[float, AfterValidator(_moderate)]
_Metrics = Annotated[dict[_Metric, _Value | None], Field(max_length=MAX_METRICS)]
_Count = Annotated[int, Field(ge=0, le=1_000_000)]
_Amount = Annotated[int, Field(ge=0, le=10**12)]
_Step = Annotated[int, Field(ge=0)]


class BadEvent(Exception):
    """A line that is no event, or a file of events that breaks a rule; the message says how to repair it."""


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    time: float | None = Field(default=None, ge=0, le=1e11)


class _Started(_Event):
    type: Literal["started"]
    versions: dict[str, str] = Field(default={}, max_length=500)


class _StepEvent(_Event):
    type: Literal["step"]
    step: _Step
    metrics: _Metrics = {}


class _EvaluationEvent(_Event):
    type: Literal["evaluation"]
    step: _Step
    metrics: _Metrics = {}
    problems: dict[str, tuple[_Count, _Count]] | None = Field(default=None, min_length=1)
    groups: dict[str, str] = {}


class _CheckpointEvent(_Event):
    type: Literal["checkpoint"]
    step: _Step
    path: str = Field(min_length=1, max_length=4096)


class _Progress(_Event):
    type: Literal["progress"]
    phase: str = Field(min_length=1, max_length=100)
    done: _Amount = 0
    total: _Amount = 0


class _Warning(_Event):
    type: Literal["warning"]
    code: Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]{0,63}$")]
    message: str = Field(min_length=1, max_length=2000)
    evidence: dict[str, float | str | None] = Field(default={}, max_length=100)
    step: _Step | None = None


class _Finished(_Event):
    type: Literal["finished"]
    outcome: Literal["SUCCEEDED", "DIVERGED"] = "SUCCEEDED"
    message: str | None = Field(default=None, max_length=2000)
    summary: _Metrics = {}


class _Failed(_Event):
    type: Literal["failed"]
    message: str


_Any = _Started | _StepEvent | _EvaluationEvent | _CheckpointEvent | _Progress | _Warning | _Finished | _Failed
_EVENTS: Final[TypeAdapter[_Any]] = TypeAdapter(Annotated[_Any, Field(discriminator="type")])


class OwnEvents:
    """Takes the lines of one attempt in their order.

    Args:
        steps: number of the last step.
        metric: the objective's, which every evaluation must give, as a metric or by its problems.
        after_step: step of the checkpoint from which the attempt goes on; the next step is a later one.
    """

    def __init__(self, steps: int, metric: str, after_step: int = 0) -> None:
        self._steps, self._metric, self._after_step = steps, metric, after_step
        self.step = after_step
        """The last step so far."""
        self.finished: Literal["SUCCEEDED", "DIVERGED"] | None = None
        """The outcome that the program has announced."""
        self.message: str | None = None
        """Why it has that outcome, in the program's words."""
        self.failed: str | None = None
        """Why it has failed, as it has announced."""
        self._has_evaluated = False
        self._evaluated = self._saved = after_step - 1  # what was before the checkpoint is recorded already
        self._names: tuple[str, ...] | None = None
        self._metrics = set[str]()

    @property
    def missing(self) -> str | None:
        """The missing part of a program that says it is done; None if nothing is missing."""
        if self.step != self._steps:
            return (
                f"the program ended with exit code 0 after step {self.step} of {self._steps}; write an event of every "
                "step to the last (trainer.steps), or end with 3 (diverged), 4 (stopped) or 1 (failed)"
            )
        if not self._has_evaluated and not self._after_step:
            return f"the program ended with exit code 0 and wrote no evaluation; configs are compared by {self._metric}"
        return None

    def take(self, line: bytes) -> list[dict[str, Any]]:
        """Return the events that follow from a line.

        Raises: BadEvent.
        """
        if not line.strip():
            raise BadEvent("the line is empty; write one event on each")
        with suppress(ValueError, RecursionError):  # a line that is no JSON is told below
            try:
                json.loads(line, object_pairs_hook=unique_keys)
            except RepeatedKey as error:
                raise BadEvent(f"{error}; give it once") from None
        try:
            event = _EVENTS.validate_json(line.removesuffix(b"\n"))
        except ValidationError as error:
            raise BadEvent("; ".join(_reasons(error))) from None
        if self.finished is not None or self.failed is not None:
            last = "finished" if self.failed is None else "failed"
            raise BadEvent(f"an event follows `{last}`; write that one last")
        moment = time.time() if event.time is None else event.time
        return [{**fields, "time": moment} for fields in self._events(event)]

    def _events(self, event: _Any) -> list[dict[str, Any]]:
        plain = event.model_dump(exclude={"time"})
        match event:
            case _StepEvent():
                self._check_step(event.step)
                self._check_names(event.metrics, of_evaluation=False)
                self.step = event.step
            case _EvaluationEvent():
                return self._evaluation(event)
            case _CheckpointEvent():
                self._check_place("checkpoint", event.step, self._saved)
                self._saved = event.step
            case _Warning():
                plain["step"] = self.step if event.step is None else event.step
                self._check_bound(plain["step"])
            case _Finished():
                self.finished, self.message = event.outcome, event.message
            case _Failed():
                self.failed = event.message
            case _:
                pass
        return [plain]

    def _check_step(self, step: int) -> None:
        if step <= self.step:
            if self.step == 0:
                raise BadEvent(f"step {step} is none; the first step is 1")
            at_start = self.step == self._after_step
            whose = "which the checkpoint from which this attempt went on has" if at_start else "the one before"
            raise BadEvent(f"step {step} does not come after step {self.step}, {whose}; steps only go up")
        self._check_bound(step)

    def _check_bound(self, step: int) -> None:
        if step > self._steps:
            raise BadEvent(f"step {step} is beyond trainer.steps {self._steps}, the last one; end there, or raise it")

    def _check_place(self, what: str, step: int, last: int) -> None:
        if step < self._after_step:
            raise BadEvent(
                f"the {what} at step {step} comes again after a resume from the checkpoint at step {self._after_step}; "
                "write only later ones, the one at that step included"
            )
        if step <= last:
            raise BadEvent(f"the {what} at step {step} comes after one at step {last}; each has a later step")
        if step > self.step:
            raise BadEvent(f"the {what} at step {step} comes before the event of that step (the last is {self.step})")

    def _check_names(self, metrics: Mapping[str, Any], *, of_evaluation: bool) -> None:
        for name in metrics:
            if name.startswith("eval/") is not of_evaluation:
                rule = "begin with eval/" if of_evaluation else "do not begin with eval/, which is for evaluations"
                raise BadEvent(f"the metric {name} is in the wrong event: names of this one's {rule}")
            if name.startswith(_OF_THE_SERVICE):
                raise BadEvent(f"the metric {name} has a name that only the service gives; take another one")
        self._metrics.update(metrics)
        if len(self._metrics) > MAX_METRICS:
            raise BadEvent(f"there are more than {MAX_METRICS} different metrics by now; leave numbers out of names")

    def _evaluation(self, event: _EvaluationEvent) -> list[dict[str, Any]]:
        self._check_place("evaluation", event.step, self._evaluated)
        self._check_names(event.metrics, of_evaluation=True)
        self._evaluated, self._has_evaluated = event.step, True
        metrics = dict(event.metrics)
        _check_given(metrics, counted=event.problems is not None)
        written: dict[str, Any] = {"type": "evaluation", "step": event.step, "metrics": metrics}
        events = [written]
        if event.problems is None and event.groups:
            raise BadEvent("it has `groups` but no `problems`, which these are groups of; give both, or neither")
        if event.problems is None and self._names is not None:
            raise BadEvent("it has no `problems`, as the evaluation before had; give the same ones each time")
        if event.problems is not None:
            counts = _counts(event.problems, event.groups)
            if self._names not in (None, tuple(counts.names)):
                raise BadEvent(
                    "its problems or groups are not those of the evaluation before; use the same ones each time"
                )
            if self._names is None:
                events.insert(0, {"type": "problems", "digest": counts.digest, "names": counts.names})
            self._names = tuple(counts.names)
            metrics |= _scores(counts)
            written["problems"] = counts.event
        if metrics.get(self._metric) is None:
            if event.problems is not None and self._metric == "eval/avg_at_k":
                raise BadEvent("of none of its problems a sample was judged; [right, judged] must be above [0, 0] once")
            how = " or `problems`" if self._metric == "eval/avg_at_k" else ""
            raise BadEvent(f"it has no {self._metric}, by which this sweep compares configs; give it in `metrics`{how}")
        for name in _SHARES:
            if not 0 <= (metrics.get(name) or 0) <= 1:
                raise BadEvent(f"{name} {metrics[name]} is no share; give a number from 0 to 1")
        return events


def _check_given(metrics: Mapping[str, float | None], *, counted: bool) -> None:
    """Refuse metrics of an evaluation that the service computes, or that cannot be what their names say."""
    if computed := sorted(set(metrics) & set(_COUNTED if counted else ())):
        raise BadEvent(f"{', '.join(computed)} follow from `problems`; leave them out of `metrics`")
    if halves := sorted(name for name in metrics if name.startswith(_HALVES)):
        raise BadEvent(f"{', '.join(halves)[:200]}: scores of halves follow from `problems` alone; leave them out")
    for name, value in metrics.items():
        if value is not None and value < 0 and (name.endswith("_se") or name == "eval/problems"):
            raise BadEvent(f"{name} {value} is below 0; give a number from 0 on, or leave it out")


def _counts(problems: Mapping[str, tuple[int, int]], groups: Mapping[str, str]) -> ProblemCounts:
    """Name problems by a digest, as ours are, so that no order of the names decides which half one is in.

    Args:
        problems: right and judged samples by name.
        groups: groups by name; a problem that has none, or an empty one, is on its own.
    """
    if unknown := sorted(set(groups) - set(problems)):
        more = f" and {len(unknown) - 1} more" if unknown[1:] else ""
        raise BadEvent(f"`groups` names {unknown[0][:100]!r}{more}, which `problems` does not; give names of problems")
    for name, (right, judged) in problems.items():
        if right > judged:
            raise BadEvent(f"problem {name[:100]!r} has {right} right samples of {judged}; give [right, judged]")
    named = {_digest(name, groups.get(name, "")): counts for name, counts in problems.items()}
    names = sorted(named)
    return ProblemCounts(names, [named[name][1] for name in names], [named[name][0] for name in names])


def _digest(name: str, group: str) -> str:
    if group:
        return digest_name(group, name, grouped=True)
    return hashlib.sha256(name.encode()).hexdigest()[:_NAME_DIGITS]


def _scores(counts: ProblemCounts) -> dict[str, float | None]:
    """Return avg@k, its errors, and both of each half of the problems, as evaluations of ours have them."""
    pairs = [Counts(judged, right) for judged, right in zip(counts.judged, counts.right, strict=True)]
    whole = average_pass_at_k(pairs, 1)  # with one sample each, the chance that one is right is avg@k
    scores: dict[str, float | None] = {
        "eval/avg_at_k": whole.mean,
        "eval/avg_at_k_se": whole.sampling_se,
        "eval/avg_at_k_problem_se": whole.problem_se,
        "eval/problems": float(len(pairs)),
    }
    parts = split_problems(counts.names)
    for part in PARTS if parts else ():
        half = average_pass_at_k([pairs[index] for index in parts[part]], 1)
        scores[part_metric("eval/avg_at_k", part)] = half.mean
        scores[part_metric("eval/avg_at_k_se", part)] = half.sampling_se
    return scores


def _reasons(error: ValidationError) -> Iterator[str]:
    """Yield each mistake in a line, with its field."""
    details = error.errors(include_url=False, include_context=False)
    for detail in details[:5]:
        place = ".".join(str(part) for part in detail["loc"][1:])
        value = cast("object", detail.get("input"))
        has_value = not isinstance(value, dict | bytes) and detail["type"] not in ("json_invalid", "missing")
        shown = f" ({value!r:.60})" if has_value else ""
        if detail["type"] == "union_tag_not_found":
            yield "it has no `type`, which says what the event is, such as step or evaluation"
        elif detail["type"] == "string_pattern_mismatch" and detail["loc"][-1] == "[key]":
            yield f"metrics: {value!r:.110} is no name of a metric; {_RULE_OF_NAMES}"
        else:
            reason = detail["msg"].removeprefix("Value error, ")
            yield f"{place}{shown}: {reason}" if place else reason
    if len(details) > 5:
        yield f"and {len(details) - 5} more reasons"
