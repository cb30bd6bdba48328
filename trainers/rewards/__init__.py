"""Rewards by name: ours in `REWARDS`, and those of installed packages, by their entry points.

A package adds a reward with an entry point of the group `sweeps.rewards`; docs/tasks.md has a complete one.
"""

from importlib.metadata import EntryPoint, entry_points
from typing import Final

from trainers.errors import ConfigError
from trainers.rewards.base import CheckedReward, Reward

GROUP: Final = "sweeps.rewards"

REWARDS: Final = {
    "exact": "trainers.rewards.exact:ExactReward",
    "math": "trainers.rewards.math:MathReward",
    "number": "trainers.rewards.number:NumberReward",
}


def known_names() -> list[str]:
    """List the names that `make_reward` takes on this machine, in order."""
    return sorted({*REWARDS, *(entry.name for entry in entry_points(group=GROUP))})


def make_reward(name: str) -> Reward:
    """Make the reward of this name; whoever calls this closes it.

    Raises: ConfigError, if there is no reward of this name or more than one, or if it cannot be loaded.
    """
    ours = [EntryPoint(name, REWARDS[name], GROUP)] if name in REWARDS else []
    entries = [*ours, *entry_points(group=GROUP, name=name)]
    if not entries:
        raise ConfigError(
            f"task.reward: there is no reward {name!r} on this machine; known are {', '.join(known_names())}. "
            f"A package adds its own by an entry point of the group {GROUP}"
        )
    if len(entries) > 1:
        places = ", ".join(f"{_package(entry)} ({entry.value})" for entry in entries)
        raise ConfigError(f"task.reward: several rewards are named {name!r}: {places}; rename or uninstall one")
    (entry,) = entries
    try:
        return CheckedReward(name, entry.load()())
    except Exception as error:
        raise ConfigError(
            f"task.reward: {name!r} of {_package(entry)} ({entry.value}) cannot be made: {type(error).__name__}: "
            f"{error}; it must be importable, and callable without arguments"
        ) from error


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else "this package"


__all__ = ["GROUP", "REWARDS", "CheckedReward", "Reward", "known_names", "make_reward"]
