"""Names the config that leads, never without the report's verdict on it."""

import time
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sweep_service.cli.output import fact_line, span
from sweep_service.client import Client
from sweep_service.errors import NotReady
from sweep_service.schemas import Best, Judged, SweepView

_WHERE = "IN SOUND RUNS", "ON THESE PROBLEMS"
_PARTLY = tuple(f"{word} {where}" for word in ("AHEAD", "BEHIND", "ALIKE") for where in _WHERE)
_STYLES = {
    "BETTER": "bold green",
    "WORSE": "bold red",
    **dict.fromkeys(("EQUIVALENT", "UNDECIDED", *_PARTLY), "bold cyan"),
}
"""Colour of a verdict; every other one is yellow."""


def best_so_far(client: Client, sweep_id: str) -> Best | None:
    """Return the config that leads a sweep; None while none has a result."""
    try:
        return client.best(sweep_id)
    except NotReady:
        return None


def best_text(best: Best, params: Mapping[str, str]) -> Text:
    """Return the parameters and the objective of the config that leads; if all are equal, a remark on that.

    Args:
        params: parameters of configs in words, by config id.
    """
    value = f"{best.metric} {best.objective:.3f}, mean over {best.stage} seeds"
    if best.all_equal:
        return Text(f"{best.remarks[0]}: {value}")
    return Text.assemble(
        (params.get(best.config_id) or best.config_id, "bold"), "; ".join([f"  {value}", *best.remarks])
    )


def verdict_line(judged: Judged) -> Text:
    """Return the verdict, in the report's words; without one, the reason."""
    if (verdict := judged.verdict) is None:
        return Text(judged.verdict_text, "bright_black")
    rest = verdict.sentence.removeprefix(verdict.outcome)
    age = span(time.time() - verdict.created_at)
    note = f" (an interim report, {age} old)" * verdict.interim
    note += f" (the report from before the sweep went on, {age} old; a new one comes at its end)" * verdict.outdated
    return Text.assemble((verdict.outcome, _STYLES.get(verdict.outcome, "bold yellow")), rest, (note, "bright_black"))


def winner_facts(best: Best | None, sweep: SweepView, params: Mapping[str, str]) -> dict[str, Text]:
    """Return the config that leads, if one has a result, and the verdict, by the name of the fact."""
    leads = {"best" if sweep.state.is_over else "best so far": best_text(best, params)} if best else {}
    return {**leads, "verdict": verdict_line(sweep)}


def winner_lines(
    best: Best | None, sweep: SweepView, params: Mapping[str, str], console: Console
) -> list[Text | Table]:
    """Return the facts of `winner_facts` as lines for a console."""
    facts = winner_facts(best, sweep, params)
    width = max(map(len, facts))
    return [fact_line(f"  {name.ljust(width)}  ", text, console) for name, text in facts.items()]
