"""A plan reads data with rewards of packages, whatever their code does."""

import os
from pathlib import Path
from typing import Any

import pytest

from sweep_service.errors import InvalidSpec
from sweep_service.service import SweepService
from sweep_service.settings import Settings
from sweep_service.store import Store
from sweep_service.sweep.plan import SweepPlan

CODE = """
import os, sys

class Plain:
    def __init__(self):
        self.begin()
    def begin(self):
        pass
    def judge(self, problems, completions):
        return []
    def close(self):
        pass

class Printing(Plain):
    def begin(self):
        print("printed by the reward")
        os.write(1, b"and past Python\\n")

class Exiting(Plain):
    def begin(self):
        sys.exit(0)

class Raising(Plain):
    def begin(self):
        raise ValueError("of several\\nlines" + "x" * 3000)

class Dying(Plain):
    def begin(self):
        os.kill(os.getpid(), 9)

class Reading(Plain):
    columns = ("level",)
"""


@pytest.fixture(autouse=True)
def _installed(_forked_previews: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    info = site / "odd_rewards-1.dist-info"
    info.mkdir(parents=True)
    (site / "odd_rewards.py").write_text(CODE)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd_rewards\nVersion: 1\n")
    names = ("Printing", "Exiting", "Raising", "Dying", "Reading")
    entries = "\n".join(f"{name.lower()} = odd_rewards:{name}" for name in names)
    (info / "entry_points.txt").write_text(f"[sweeps.rewards]\n{entries}\n")
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", f"{os.environ['PYTHONPATH']}{os.pathsep}{site}")


def plan(store: Store, home: Path, **task: Any) -> SweepPlan:
    training = {"task": {"name": "word_problems"} | task}
    raw = {"name": "odd", "training": training, "space": {"loss.beta1": [0, 0.5]}, "seeds": {"tune": [0]}}
    return SweepService(store, Settings(home=home)).plan(raw)


def refused(store: Store, home: Path, **task: Any) -> tuple[str, str]:
    with pytest.raises(InvalidSpec) as refusal:
        plan(store, home, **task)
    (error,) = refusal.value.errors
    return error.pointer, error.detail


def test_what_a_reward_prints_is_no_part_of_the_plan(store: Store, tmp_path: Path) -> None:
    found = plan(store, tmp_path, reward="printing")
    assert len(found.prompts) == 3
    assert found.data is not None


def test_a_reward_that_ends_the_process_or_raises_is_named_where_it_stands(store: Store, tmp_path: Path) -> None:
    place, said = refused(store, tmp_path, reward="number", further_rewards={"exiting": {}})
    assert place == "/training/task/further_rewards/exiting"
    assert "cannot be made: SystemExit: 0" in said
    place, said = refused(store, tmp_path, reward="raising")
    assert place == "/training/task/reward"
    assert "ValueError: of several linesxxx" in said
    assert len(said) < 1100
    place, said = refused(store, tmp_path, reward="dying")
    assert said.endswith("(ended by signal 9)")


def test_a_column_that_no_row_has_is_told_by_a_plan_of_a_policy_from_scratch(store: Store, tmp_path: Path) -> None:
    place, said = refused(store, tmp_path, reward="number", further_rewards={"reading": {}})
    assert (place, "the reward reading reads the column 'level'" in said) == ("/training/task/data", True)
