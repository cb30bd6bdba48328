"""The table of search strategies. Specs, checks, help and refusals ask it; `sampling`, which loads Optuna, draws."""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

Strategy = Literal["grid", "random", "tpe"]


class StrategyRow(NamedTuple):
    """A way to go through a space."""

    meaning: str
    """Its points, in words that follow its name and a colon."""
    is_grid: bool = False
    """True if it needs a finite space and tries all points; others draw as many as the user asks for, one by one."""


STRATEGIES: Final[Mapping[Strategy, StrategyRow]] = {
    "grid": StrategyRow("every point of a finite space", is_grid=True),
    "random": StrategyRow("points drawn at random, whatever the results so far"),
    "tpe": StrategyRow("points where the results so far promise most, by Optuna's TPE"),
}
DRAWING: Final = tuple(name for name, row in STRATEGIES.items() if not row.is_grid)
"""Strategies that draw points."""


def drawing_strategies(word: str) -> str:
    """Name the strategies that draw points in a sentence, with this word before the last: `random or tpe`."""
    *names, last = DRAWING
    return f"{', '.join(names)} {word} {last}"
