"""The confirmed configs that may be the best one: Hsu's multiple comparison with the best, on paired seeds."""

from collections.abc import Mapping, Sequence

from sweep_service.report.formatting import count, listed
from sweep_service.report.model import ConfigRow, TieMember, TieSet
from sweep_service.report.statistics.differences import Arm, Difference, Pairs

_LISTED = 6


def tie_set(arms: Sequence[Arm], rows: Mapping[str, ConfigRow]) -> TieSet | None:
    """Return the configs that cannot be told from the best; None with fewer than two, or without any interval.

    A config leaves the set if another one is surely better: the bounds have the verdict's confidence and hold for all
    configs at once (one-sided, constrained so that an interval always contains zero). Too few seeds exclude nobody.

    Args:
        arms: all confirmed configs, comparators included.
        rows: their results, by config id.
    """
    pairs = Pairs(arms)
    ids = sorted((arm.config_id for arm in arms), key=lambda id_: (-_mean(rows[id_]), rows[id_].number))
    differences = {(a, b): pairs.difference(a, b) for a in ids for b in ids if a != b}
    if all(difference.standard_error is None for difference in differences.values()):
        return None
    highs = {a: _bound([differences[a, b] for b in ids if b != a], 1, len(ids) - 1) for a in ids}
    inside = [a for a in ids if (high := highs[a]) is None or high >= 0] or ids  # configs with equal results stay
    members: list[TieMember] = []
    for a in ids:
        rivals = [differences[a, b] for b in inside if b != a]
        low, high = _bound(rivals, -1, len(ids) - 1) if rivals else 0.0, highs[a]
        members.append(
            TieMember(
                config_id=a,
                label=rows[a].label,
                mean=_mean(rows[a]),
                in_set=a in inside,
                low=None if low is None else min(0.0, low),
                high=None if high is None else max(0.0, high),
            )
        )
    return TieSet(members=members, text=_text(members))


def _bound(differences: Sequence[Difference], sign: int, family: int) -> float | None:
    """Return the lowest bound of (config minus rival) over all rivals; None if a rival has too few seeds."""
    bounds = [
        difference.difference + sign * parts.lower_width(family)
        for difference in differences
        if (parts := difference.parts) is not None
    ]
    enough = len(bounds) == len(differences) if sign < 0 else bool(bounds)
    return min(bounds) if enough else None


def _mean(row: ConfigRow) -> float:
    assert row.confirm is not None
    return row.confirm.mean


def _text(members: Sequence[TieMember]) -> str:
    inside = [member.label for member in members if member.in_set]
    of = count(len(members), "confirmed config")
    if len(inside) == 1:
        return f"Of {of} only {inside[0]} may be the best."
    each = f"Each of the {of}" if len(inside) == len(members) else f"{len(inside)} of {of}"
    return f"{each} may be the best: {listed(inside, _LISTED)}."
