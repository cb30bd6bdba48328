"""The confirmed configs that may be the best one: Hsu's multiple comparison with the best, on paired seeds.

It is made twice: on averages over all runs, and among sound runs.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean

from sweep_service.report.formatting import count, listed
from sweep_service.report.model import Comparison, ConfigRow, Outcome, TieMember, TieSet
from sweep_service.report.statistics.differences import MIN_SEEDS, Arm, Difference, Pairs
from sweep_service.report.verdict.ruin import RuinsOf

_LISTED = 6

_Bounds = Mapping[tuple[str, str], tuple[float, float] | None]
"""Bounds of (one config minus another) by pair; None for a pair with too few seeds."""


def tie_set(
    rows: Mapping[str, ConfigRow],
    arms: Sequence[Arm],
    sound_arms: Sequence[Arm],
    ruins: RuinsOf,
    confidence: float,
    comparisons: Sequence[Comparison] = (),
) -> TieSet | None:
    """Return the configs that cannot be told from the best; None with fewer than two, or without any interval.

    A config leaves the set if another one is surely better: the bounds have the confidence of the look and hold for all
    configs at once (one-sided, constrained so that an interval always contains zero). Too few seeds exclude nobody.

    Args:
        rows: results by config id.
        arms: all confirmed configs, comparators included.
        sound_arms: the same without their ruined runs.
        ruins: their ruined runs.
        confidence: of the look.
        comparisons: those that the report shows; what one of them shows to be beaten is not in the set of its kind.
    """
    compared = {arm.config_id: arm.values for arm in (*arms, *sound_arms) if arm.values}  # sound ones where there are
    means = {id_: fmean(values.values()) for id_, values in compared.items()}
    ids = sorted(means, key=lambda id_: (-means[id_], rows[id_].number))
    every, whole = Pairs(arms), Pairs(sound_arms)
    sound: dict[tuple[str, str], tuple[float, float] | None] = {}
    average: dict[tuple[str, str], tuple[float, float] | None] = {}
    family, counted = max(1, len(ids) - 1), True
    for pair in ((a, b) for a in ids for b in ids if a != b):
        among = whole.difference(*pair) if whole.has(*pair) else None
        few = among is None or among.num_seeds < MIN_SEEDS
        difference = every.difference(*pair) if few or among is None else among
        bounds = _bounds(difference, family, confidence)
        counted &= bounds is None or difference.num_problems is not None
        sound[pair] = None if few else bounds and ruins.sound(pair, bounds)
        average[pair] = bounds and ruins.average(pair, bounds, (1 - confidence) / family, among_all=few)
    if all(bounds is None for bounds in (*average.values(), *sound.values())):
        return None
    inside = _without(_beaten(comparisons, Outcome.BETTER, Outcome.WORSE), _inside(ids, average))
    num_sound = {arm.config_id: len(arm.values) for arm in sound_arms}
    having = [id_ for id_ in ids if num_sound.get(id_)]
    inside_sound = _without(_beaten(comparisons, Outcome.AHEAD, Outcome.BEHIND), _inside(having, sound))
    members: list[TieMember] = []
    for a in ids:
        rivals = [average[a, b] for b in inside if b != a]
        lows = [bounds[0] for bounds in rivals if bounds]
        highs = [bounds[1] for b in ids if b != a and (bounds := average[a, b])]
        members.append(
            TieMember(
                config_id=a,
                label=rows[a].label,
                mean=means[a],
                num_runs=num_sound.get(a, 0),
                left_out=(confirm.n if (confirm := rows[a].confirm) else 0) - num_sound.get(a, 0),
                in_set=a in inside,
                in_sound_set=a in inside_sound,
                low=None if len(lows) < len(rivals) else min([0.0, *lows]),
                high=max(0.0, min(highs)) if highs else None,
            )
        )
    return TieSet(
        members=members, text=_text(members) + ("" if counted else " All of this is about these problems alone.")
    )


def _bounds(difference: Difference, family: int, confidence: float) -> tuple[float, float] | None:
    if (parts := difference.parts) is None:
        return None
    width = parts.lower_width(family, confidence=confidence)
    return difference.difference - width, difference.difference + width


def _inside(ids: list[str], bounds: _Bounds) -> list[str]:
    """Return the configs that no other one surely beats; configs with equal results stay."""
    return [a for a in ids if all((found := bounds[a, b]) is None or found[1] >= 0 for b in ids if b != a)] or ids


def _beaten(comparisons: Sequence[Comparison], wins: Outcome, loses: Outcome) -> set[str]:
    """Return the ids of the configs that a comparison with one of these two outcomes shows to be beaten."""
    won = {one.comparator_id for one in comparisons if one.outcome is wins}
    return won | {one.config_id for one in comparisons if one.outcome is loses}


def _without(beaten: set[str], ids: list[str]) -> list[str]:
    """Return the ids without the beaten ones; all of them if nothing else is left."""
    return [id_ for id_ in ids if id_ not in beaten] or ids


def _text(members: list[TieMember]) -> str:
    inside = [member.label for member in members if member.in_set]
    sound = [member.label for member in members if member.in_sound_set]
    of = count(len(members), "confirmed config")
    if len(inside) == 1:
        return f"Over all runs the best of {of} is {inside[0]}."
    each = f"Each of the {of}" if len(inside) == len(members) else f"{len(inside)} of {of}"
    if not sound:
        return f"{each} may be the best over all runs: {listed(inside, _LISTED)}. None has a sound run."
    if sound == inside:
        return f"{each} may be the best, over all runs and in sound ones: {listed(inside, _LISTED)}."
    if set(sound) - set(inside):
        return (
            f"Over all runs {listed(inside, _LISTED)} may be the best of {of}; in sound runs {listed(sound, _LISTED)}."
        )
    having = [member for member in members if member.num_runs]
    of = of if len(having) == len(members) else f"the {len(having)} of {of} that have any"
    best = f"In sound runs the best of {of} is {sound[0] if len(sound) == 1 else f'one of {listed(sound, _LISTED)}'}."
    which = f"any of the {len(members)}" if len(inside) == len(members) else f"any of {listed(inside, _LISTED)}"
    return f"{best} Over all runs {which} may be the best, for runs may be ruined."
