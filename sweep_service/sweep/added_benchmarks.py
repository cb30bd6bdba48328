"""Benchmarks that are added to a sweep after its end: what a user asks for, and what is stored of it. Pure."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field

from sweep_service.errors import SpecError
from sweep_service.sweep.spec import BenchmarkSettings

if TYPE_CHECKING:
    from sweep_service.sweep.records import Config, Trial

BEST, EVERY = "best", "all"
"""Words that name configs beside the words of roles and the ids of configs."""
REFUSED: Final = "the benchmarks cannot be added"
"""The head of all reasons why a request is refused."""


class BenchmarksRequest(BenchmarkSettings):
    """What a user asks to have measured of a finished sweep."""

    of: tuple[Annotated[str, Field(min_length=1, max_length=100)], ...] = Field(
        default=(BEST, "baseline"),
        min_length=1,
        max_length=1000,
        description="Configs: best, baseline, dapo, matched, all, or ids of configs.",
    )


class AddedBenchmarks(BenchmarkSettings):
    """Benchmarks on which the last models of some trials are measured, though the sweep's spec does not ask for it.

    One that the spec or an earlier request names is sampled as there.
    """

    trials: tuple[str, ...]
    """Ids of the trials."""


def models_to_measure(
    of: Sequence[str], configs: Sequence["Config"], trials: Sequence["Trial"], best: str | None
) -> tuple[list["Trial"], list[SpecError]]:
    """Return the trials whose last models are meant, and what names none.

    Args:
        of: words and ids of configs. A config stands for its confirm trials; one that has none, for its tune trials.
        configs, trials: all of the sweep.
        best: id of the best config; None if there is none.
    """
    meant, errors = dict[str, None](), list[SpecError]()
    for word in of:
        found = _named(word, configs, best)
        if word == BEST and best is None:
            errors.append(SpecError("/of", "no config of this sweep has a result, so none is best; name other configs"))
        elif not found:
            words = [BEST, *dict.fromkeys(role.value for config in configs for role in config.roles), EVERY]
            errors.append(
                SpecError("/of", f"{word} is no config of this sweep; name {', '.join(words)}, or a config's id")
            )
        meant |= dict.fromkeys(found)
    return [trial for config_id in meant for trial in _last_models(config_id, trials)], errors


def _named(word: str, configs: Sequence["Config"], best: str | None) -> list[str]:
    if word == BEST:
        return [] if best is None else [best]
    return [config.id for config in configs if word in (EVERY, config.id, *config.roles)]


def _last_models(config_id: str, trials: Sequence["Trial"]) -> Iterator["Trial"]:
    """Yield a config's trials with a last model, of the confirm stage where it has any."""
    own = [trial for trial in trials if trial.config_id == config_id]
    confirmed = [trial for trial in own if trial.stage == "confirm"]
    yield from (trial for trial in confirmed or own if trial.state == "SUCCEEDED")
