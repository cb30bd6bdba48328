"""Says everything that is wrong at once."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from trainers.errors import ConfigError

T = TypeVar("T")


def all_of(calls: Iterable[Callable[[], T]]) -> list[T]:
    """The results of all calls.

    Raises: ConfigError, with the problems of all that raised one, each once.
    """
    results, problems = list[T](), dict[str, None]()
    for call in calls:
        try:
            results.append(call())
        except ConfigError as error:
            problems.update(dict.fromkeys(error.problems))
    if problems:
        raise ConfigError(*problems)
    return results
