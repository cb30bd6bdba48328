"""A rule of the report: a condition on the facts, with a name, and the evidence that a sweep meets it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sweep_service.report.model import Holds
from sweep_service.report.statistics.differences import Interval
from sweep_service.report.sweep_facts import Facts


@dataclass(frozen=True)
class Evidence:
    """The figures with which a sweep meets a rule, in words, and where."""

    text: str
    trials: Sequence[str] = ()
    """Ids of the trials that met it."""
    condition: str | None = None
    """The rule's condition in this sweep's own figures; None where the rule's words say it."""
    outcome: Holds | None = None
    """The sweep's answer to a claim; None for a warning."""
    figures: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Estimate, bounds and number of pairs of a claim; empty for a warning."""


@dataclass(frozen=True)
class Rule:
    """One row of a table of rules."""

    code: str
    condition: str
    """The condition in words, with its threshold; of a claim, what the paper says."""
    look: Callable[[Facts], Evidence | None]
    """Returns the evidence that the condition is met; None if it is not."""


def figures_of(result: Interval) -> dict[str, Any]:
    """Return the figures of a claim that rests on an interval."""
    return {"estimate": result.mean, "low": result.low, "high": result.high, "num_pairs": result.n}
