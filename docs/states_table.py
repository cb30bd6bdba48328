"""Writes the tables of `docs/states.md` from the code's tables of states and endings: python docs/states_table.py."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from sweep_service.sweep.endings import MEANINGS, Meaning
from sweep_service.sweep.state_table import SHOWN_LIFE, SWEEP_LIFE, TRIAL_LIFE, Life

PAGE: Final = Path(__file__).with_name("states.md")
MARK: Final = "<!-- From here on made by docs/states_table.py. -->"
_WISHES: Final = (
    "Two words are shown while a wish is carried out (the API answers the state before, with `desired_state`):"
)


def with_tables(page: str) -> str:
    """The page with everything after `MARK` made anew."""
    text, mark, _ = page.partition(MARK)
    assert mark, f"{PAGE} has no line {MARK}"
    parts = [
        f"## Of a sweep\n\n{_lives(SWEEP_LIFE)}",
        f"{_WISHES}\n\n{_lives(SHOWN_LIFE)}",
        f"## Of a trial or an evaluation\n\n{_lives(TRIAL_LIFE)}",
        f"## How attempts end\n\n{_endings()}",
    ]
    return text + "\n\n".join([MARK, *parts]) + "\n"


def _lives(lives: Mapping[Any, Life[Any]]) -> str:
    rows = ["| state | meaning | ends | then | when somebody gives it more to do |", "|---|---|---|---|---|"]
    for state, life in lives.items():
        rows.append(f"| {state} | {life.meaning} | {life.until} | {_names(life.next)} | {_names(life.opened)} |")
    return "\n".join(rows)


def _names(states: Iterable[str]) -> str:
    return ", ".join(sorted(states))


def _endings() -> str:
    rows = ["| ending | meaning | tried again | the trial is otherwise | remedy |", "|---|---|---|---|---|"]
    rows += [f"| {end} | {m.text} | {_tries(m)} | {m.state} | {m.remedy} |" for end, m in MEANINGS.items()]
    return "\n".join(rows)


def _tries(meaning: Meaning) -> str:
    if meaning.is_crash:
        return "`retries.max_crashes` times in a row"
    return "yes, and it does not count against the trial" if meaning.retried else "no"


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
