"""The words of reports, world by world, held against golden files."""

from collections.abc import Callable, Mapping
from pathlib import Path

from sweep_service.report.build import build
from sweep_service.report.model import Report
from tests.golden import matches_golden
from tests.unit.sweep_service.report.report_worlds import (
    CAUTIONS,
    VERDICTS,
    World,
    best_text,
    cautions_text,
    verdict_text,
)

GOLDEN = Path(__file__).parent / "golden"


def told(worlds: Mapping[str, World], words: Callable[[Report], str]) -> str:
    return "\n".join(f"## {name}\n\n{words(build(make()))}\n" for name, make in worlds.items())


def test_the_words_of_the_verdict() -> None:
    matches_golden(GOLDEN / "verdicts.md", told(VERDICTS, verdict_text))


def test_the_words_of_the_best_config() -> None:
    names = (
        "the two cannot be told apart",
        "one half of the problems chose, the other measures",
        "a candidate failed on every confirm seed",
        "one run of the baseline collapsed",
        "a learning rate varies as well, without a confirm stage",
    )
    matches_golden(GOLDEN / "best_configs.md", told({name: VERDICTS[name] for name in names}, best_text))


def test_the_words_of_warnings() -> None:
    matches_golden(GOLDEN / "warnings.md", told(CAUTIONS, cautions_text))
