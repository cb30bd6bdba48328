"""docs/losses.md lists every loss and its parameters with their defaults, and its pictures are of today's functions."""

import re
import runpy
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from trainers.losses import (
    LOSSES,
    AdvantageParams,
    AggregationParams,
    BetaSwitch,
    CriticParams,
    EntropyAdvantageParams,
    EntropyBonusParams,
    EntropyRewardParams,
    ERCMask,
    ERCPenalty,
    OverlongParams,
    PositiveWeightParams,
    ReferenceKLParams,
    TermsParams,
)
from trainers.losses.contract import RULES

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "losses.md").read_text()
PLAIN_TABLES: dict[str, type[BaseModel]] = {
    "`erc`, mask": ERCMask,
    "`erc`, penalty": ERCPenalty,
    "`loss.schedule[…]`": BetaSwitch,
    "`aggregation`": AggregationParams,
    "`terms`": TermsParams,
    "`terms.entropy_bonus`": EntropyBonusParams,
    "`terms.kl`": ReferenceKLParams,
    "`critic`": CriticParams,
    "`advantage`": AdvantageParams,
    "`advantage.entropy`": EntropyAdvantageParams,
    "`advantage.entropy_reward`": EntropyRewardParams,
    "`advantage.positive_weight`": PositiveWeightParams,
    "`rollout.overlong`": OverlongParams,
}


def table(corner: str) -> list[list[str]]:
    """Cells of the table whose first one reads `corner`, without the line below its head."""
    following = dropwhile(lambda line: not line.startswith(f"| {corner} |"), PAGE.splitlines())
    rows = list(takewhile(bool, following))
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in (rows[0], *rows[2:])]


def defaults(kind: type[BaseModel]) -> dict[str, Any]:
    values = {name: field.default for name, field in kind.model_fields.items()}
    return {
        f"`{name}`": None if value is PydanticUndefined or isinstance(value, BaseModel) else [value]
        for name, value in values.items()
    }


def cell(text: str) -> Any:
    """A default in brackets, so that none at all and null differ."""
    if not text:
        return None
    value = yaml.safe_load(text)
    return [() if value == [] else value]


@pytest.mark.parametrize("name", LOSSES)
def test_the_table_of_losses_lists_every_parameter(name: str) -> None:
    head, *rows = table("`loss`")
    column = head.index(f"`{name}`")
    expected = defaults(LOSSES[name].params)
    assert expected.pop("`name`") == [name]
    assert {row[0]: cell(row[column]) for row in rows if row[column]} == expected
    assert f"\n## `{name}`\n" in PAGE
    assert head[1:-1] == [f"`{name}`" for name in LOSSES]


@pytest.mark.parametrize("corner", PLAIN_TABLES)
def test_the_other_tables_list_every_parameter(corner: str) -> None:
    _, *rows = table(corner)
    assert {row[0]: cell(row[1]) for row in rows} == defaults(PLAIN_TABLES[corner])


def test_the_rules_for_losses_of_any_origin_are_listed_in_their_order() -> None:
    _, *rows = table("rule")
    assert [row[0] for row in rows] == [f"`{name}`" for name in RULES]


def test_the_pictures_are_those_that_the_script_draws(tmp_path: Path) -> None:
    runpy.run_path(str(DOCS / "plots" / "gradient_weights.py"))["main"](tmp_path)
    drawn = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    kept = {path.name: path.read_bytes() for path in (DOCS / "images" / "losses").iterdir()}
    assert drawn == kept, "run docs/plots/gradient_weights.py"
    assert (
        set(re.findall(r"\(images/losses/(.*?)\)", PAGE)) == set(drawn) == {f"{name}.svg" for name in (*LOSSES, "erc")}
    )
