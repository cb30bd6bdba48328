"""Rewards by name: ours in `REWARDS`, and those of installed packages, by their entry points.

A package adds a reward with an entry point of the group `sweeps.rewards`; docs/tasks.md has a complete one.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from trainers.config import WordProblemsTask
from trainers.config.reward_config import REWARDS, RewardSettings, reward_settings
from trainers.config.task_config import reward_parts
from trainers.errors import ConfigError, Faults
from trainers.extensions import package
from trainers.rewards.checked import CheckedReward
from trainers.rewards.weighted import WeightedRewards
from trainers.tasks.base import Reward


def make_reward(
    name: str,
    settings: Mapping[str, Any] | None = None,
    correct_from: float | None = None,
    setting: str = REWARDS.setting,
) -> CheckedReward:
    """Make the reward of this name; whoever calls this closes it.

    Args:
        settings: changes to the defaults of the reward's own settings.
        correct_from: reward from which a completion counts as correct; None: as the reward says.
        setting: the setting that names the reward; errors begin with it.
    Raises: ConfigError, if there is no reward of this name or more than one, or if it cannot be made like this.
    """
    entry = REWARDS._replace(setting=setting).entry(name)
    try:
        own = reward_settings(name, settings or {})
        return CheckedReward(name, entry.load()() if own is None else entry.load()(own), correct_from)
    except ValidationError as error:
        faults = (f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors())
        raise ConfigError(*(f"{setting}: the settings of {name}: {fault}" for fault in faults)) from error
    except ConfigError as error:
        raise ConfigError(*(f"{setting}: {problem}" for problem in error.problems)) from error
    except (Exception, SystemExit) as error:  # whatever code of a package does
        raise ConfigError(
            f"{setting}: {name!r} of {package(entry)} ({entry.value}) cannot be made: {type(error).__name__}: "
            f"{error}; it must be importable, and callable without arguments, or with the settings of its class"
        ) from error


def make_rewards(config: WordProblemsTask) -> CheckedReward | WeightedRewards:
    """Make the rewards of a task, as one; whoever calls this closes it.

    Raises: ConfigError, if one of them cannot be made, or if all completions, or none, would be correct.
    """
    faults, made = Faults(), dict[str, CheckedReward]()
    with faults.noted():
        _check_correct_from(config)
    for place, reward in enumerate(config.rewards):
        setting = f"task.further_rewards.{reward.name}" if place else REWARDS.setting
        correct_from = None if place else config.correct_from
        with faults.noted():
            made[reward.name] = make_reward(reward.name, reward.settings, correct_from, setting)
    if faults:
        for reward in made.values():
            reward.close()
    faults.raise_all()
    if not reward_parts(config):
        return made[config.judging.name]
    return WeightedRewards(made, {reward.name: reward.weight for reward in config.rewards})


def _check_correct_from(config: WordProblemsTask) -> None:
    least, name = config.correct_from, config.judging.name
    if name in REWARDS.ours and least is not None and not 0 < least <= 1:
        share = "no" if least > 1 else "every"
        raise ConfigError(
            f"task.correct_from {least:g}: the reward {name} gives 1 or 0, so {share} completion would be correct; "
            "give at most 1 and more than 0, or leave it out"
        )


__all__ = ["REWARDS", "CheckedReward", "Reward", "RewardSettings", "make_reward", "make_rewards"]
