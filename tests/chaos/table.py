"""The table at the end of a run."""

import statistics
from collections.abc import Iterator, Sequence

from tests.chaos.nemesis import Tally
from tests.chaos.watch import Recovery


def table(seed: int, tally: Tally, recoveries: Sequence[Recovery]) -> Iterator[str]:
    """Yield the lines: faults with the time to the next progress, verbs with their answers."""
    yield f"seed {seed}: {sum(tally.faults.values())} faults of {len(tally.faults)} kinds, {_asked(tally)} verbs"
    yield ""
    yield f"{'fault':<22}{'number':>7}   seconds until work got further: median, worst (measured)"
    for kind in sorted(tally.faults):
        yield f"{kind:<22}{tally.faults[kind]:>7}   {_times([one for one in recoveries if one.strike.kind == kind])}"
    yield f"{'all':<22}{sum(tally.faults.values()):>7}   {_times(recoveries)}"
    yield ""
    yield f"{'verb':<22}{'number':>7}   answers"
    for name, answers in sorted(tally.verbs.items()):
        told = ", ".join(f"{answer} {number}" for answer, number in answers.most_common())
        yield f"{name:<22}{answers.total():>7}   {told}"


def _asked(tally: Tally) -> int:
    return sum(answers.total() for answers in tally.verbs.values())


def _times(recoveries: Sequence[Recovery]) -> str:
    """Return median and worst; a fault that came when nothing was left to do has no time."""
    seconds = [one.seconds for one in recoveries if one.seconds is not None]
    if not seconds:
        return "nothing was left to do"
    return f"{statistics.median(seconds):6.1f} {max(seconds):7.1f} ({len(seconds)} of {len(recoveries)})"
