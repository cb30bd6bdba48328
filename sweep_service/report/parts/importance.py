"""Importance of each parameter: how much of the objective's variation it explains."""

from typing import Final

from sweep_service.report.model import Importance
from sweep_service.report.parts.tuned_points import TunedPoint, tuned_points
from sweep_service.report.sweep_facts import Facts
from sweep_service.sweep.labels import short_name

MIN_CONFIGS: Final = 20


def importance(facts: Facts) -> Importance | None:
    """Weigh the parameters by two methods; None with fewer than 20 tuned configs of the space."""
    space = facts.inputs.sweep.spec.space
    varied = {name: space.root[name] for name in space.varied}
    points = [  # a setting that a config's loss lacks reads None
        point
        for point in tuned_points(facts)
        if all(distribution.contains(point.params.get(name)) for name, distribution in varied.items())
    ]
    if len(points) < MIN_CONFIGS or not varied:
        return None
    from search_spaces.importance import importances  # loads optuna, which reading reports must not need
    from search_spaces.sampling import Observation

    weights = importances(
        space,
        [
            Observation(number, point.params, sum(point.values.values()) / len(point.values), "complete")
            for number, point in enumerate(points)
        ],
    )
    if weights is None:
        return None
    names = sorted(weights.fanova, key=lambda name: (-weights.fanova[name], name))
    return Importance(
        names=names,
        fanova=[weights.fanova[name] for name in names],
        ped_anova=[weights.ped_anova[name] for name in names],
        num_configs=len(points),
        text=_text(weights.fanova, weights.ped_anova, weights.num_best, points),
    )


def _text(fanova: dict[str, float], ped_anova: dict[str, float], num_best: int, points: list[TunedPoint]) -> str:
    whole, best = max(fanova, key=lambda name: fanova[name]), max(ped_anova, key=lambda name: ped_anova[name])
    joint = max(0.0, 1 - sum(fanova.values()))
    lines = [
        f"Over all that was searched, {short_name(whole)} moves the tune mean most (fANOVA: alone {fanova[whole]:.0%} "
        f"of the variance, {joint:.0%} is left to joint effects).",
        f"Whether a config is among the best {num_best} of {len(points)} hangs most on {short_name(best)} (PED-ANOVA: "
        f"{ped_anova[best]:.0%}).",
        "These are different questions, so the answers may differ: the first is ruled by how bad the bad configs are, "
        "the second by where the good ones lie.",
        f"PED-ANOVA needs at least 5 configs among the best and has {num_best}; neither method has intervals, and "
        "noise gets a share too.",
    ]
    if collapsed := sum(point.collapsed for point in points):
        lines.append(f"{collapsed} of the configs had a collapsed or diverged trial, which fANOVA counts in full.")
    return " ".join(lines)
