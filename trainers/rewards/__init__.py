"""Rewards by name: ours in `REWARDS`, and those of installed packages, by their entry points.

A package adds a reward with an entry point of the group `sweeps.rewards`; docs/tasks.md has a complete one.
"""

import hashlib
import importlib.util
from collections.abc import Sequence
from importlib.metadata import EntryPoint, entry_points
from math import isfinite
from pathlib import Path
from typing import Final

from trainers.errors import ConfigError, GraderError
from trainers.tasks.base import Completion, Judgement, Problem, Reward

GROUP: Final = "sweeps.rewards"

REWARDS: Final = {
    "exact": "trainers.rewards.exact:ExactReward",
    "expression": "trainers.rewards.expression:ExpressionReward",
    "math": "trainers.rewards.math:MathReward",
    "number": "trainers.rewards.number:NumberReward",
}


class CheckedReward:
    """A reward whose mistakes end the run instead of training on them.

    Args:
        correct_from: reward from which a completion counts as correct; None: as the reward says.
    """

    def __init__(self, name: str, reward: Reward, correct_from: float | None = None) -> None:
        self._name, self._reward, self.close = name, reward, reward.close
        self._correct_from = correct_from

    def judge(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[Judgement]:
        """Judge as the reward does; a reward that is not finite is a failed judgement.

        Raises: GraderError, if the reward raises or does not return one judgement for each completion.
        """
        try:
            judgements = self._reward.judge(problems, completions)
        except GraderError:
            raise
        except Exception as error:
            raise GraderError(f"the reward {self._name} raised {type(error).__name__}: {error}; correct it") from error
        fault = _fault(judgements, len(completions))
        if fault:
            raise GraderError(f"the reward {self._name} returned {fault}; correct its judge()")
        return [self._counted(_finite(judgement)) for judgement in judgements]

    def _counted(self, judgement: Judgement) -> Judgement:
        if self._correct_from is None or judgement.reward is None:
            return judgement
        return judgement._replace(correct=judgement.reward >= self._correct_from)


def _fault(judgements: object, expected: int) -> str | None:
    if not isinstance(judgements, list):
        return f"{type(judgements).__name__}, not a list"
    if len(judgements) != expected:
        return f"{len(judgements)} judgements of {expected} completions"
    for judgement in judgements:
        if not isinstance(judgement, Judgement):
            return f"{judgement!r:.100}, not a Judgement"
        try:
            isfinite(0.0 if judgement.reward is None else judgement.reward)
        except (TypeError, ValueError, OverflowError):
            return f"the reward {judgement.reward!r:.100}, not a float or None"
    return None


def _finite(judgement: Judgement) -> Judgement:
    if judgement.reward is None or not isfinite(judgement.reward):
        return judgement._replace(reward=None, correct=False)
    return judgement._replace(reward=float(judgement.reward), correct=bool(judgement.correct))


def known_names() -> list[str]:
    """List the names that `make_reward` takes on this machine, in order."""
    return sorted({*REWARDS, *(entry.name for entry in entry_points(group=GROUP))})


def unknown_reward(name: str) -> str | None:
    """Say that there is no reward of this name on this machine; None, if there is one."""
    if name in (known := known_names()):
        return None
    return (
        f"task.reward: there is no reward {name!r} on this machine; known are {', '.join(known)}. A package adds its "
        f"own by an entry point of the group {GROUP}"
    )


def make_reward(name: str, correct_from: float | None = None) -> Reward:
    """Make the reward of this name; whoever calls this closes it.

    `correct_from` is the reward from which a completion counts as correct; None: as the reward says.

    Raises: ConfigError, if there is no reward of this name or more than one, or if it cannot be loaded.
    """
    entries = _entries(name)
    if complaint := unknown_reward(name):
        raise ConfigError(complaint)
    if len(entries) > 1:
        places = ", ".join(f"{_package(entry)} ({entry.value})" for entry in entries)
        raise ConfigError(f"task.reward: several rewards are named {name!r}: {places}; rename or uninstall one")
    (entry,) = entries
    try:
        return CheckedReward(name, entry.load()(), correct_from)
    except Exception as error:
        raise ConfigError(
            f"task.reward: {name!r} of {_package(entry)} ({entry.value}) cannot be made: {type(error).__name__}: "
            f"{error}; it must be importable, and callable without arguments"
        ) from error


def reward_code(name: str) -> list[str]:
    """Return what names the code of a reward: its package with the version, and the digest of its Python files.

    Evaluations that are kept follow from it: another version of a package judges otherwise under the same name. Ours
    have the version alone, which the libraries' versions hold.
    """
    found = list[str]()
    for entry in _entries(name):
        if entry.dist is not None:
            digest = hashlib.sha256()
            for path in _sources(entry.module.partition(".")[0]):
                digest.update(path.read_bytes())
            found.append(f"{entry.dist.name} {entry.dist.version} {digest.hexdigest()}")
    return found


def _sources(module: str) -> list[Path]:
    """Return the Python files of a module or package, in order."""
    spec = importlib.util.find_spec(module)
    if spec is None:
        return []
    if places := spec.submodule_search_locations:
        return sorted(path for place in places for path in Path(place).rglob("*.py"))
    return [Path(spec.origin)] if spec.origin else []


def _entries(name: str) -> list[EntryPoint]:
    ours = [EntryPoint(name, REWARDS[name], GROUP)] if name in REWARDS else []
    return [*ours, *entry_points(group=GROUP, name=name)]


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else "this package"


__all__ = ["GROUP", "REWARDS", "CheckedReward", "Reward", "known_names", "make_reward", "reward_code", "unknown_reward"]
