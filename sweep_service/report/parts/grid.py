"""The objective over two parameters, faceted by a third."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from statistics import fmean
from typing import Any, Final

from sweep_service.report.model import Cell, ConfigRow, Grid
from sweep_service.report.parts.tradeoff import kept_by_stage
from sweep_service.report.parts.tuned_points import SeedFit, collapsed_in_tuning, distinct, fit_seeds
from sweep_service.report.statistics.critical_values import student_critical
from sweep_service.report.statistics.differences import MIN_SEEDS
from sweep_service.report.sweep_facts import Facts
from sweep_service.sweep.labels import value_text
from sweep_service.sweep.records import Config, Role, Stage

MAX_VALUES: Final = 12
_BETAS: Final = ("loss.beta1", "loss.beta2")
_EPSILONS: Final = ("loss.epsilon", "loss.epsilon_low")


def grid(facts: Facts) -> Grid | None:
    """Lay the tried configs out; None where fewer than two parameters have 2 to 12 values."""
    tried = [config for config in facts.inputs.configs if Role.SPACE in config.roles]
    space = facts.inputs.sweep.spec.space
    values = {name: distinct([config.params.get(name) for config in tried], space.root[name]) for name in space.varied}
    axes = _axes([name for name, tried_values in values.items() if 2 <= len(tried_values) <= MAX_VALUES])
    if axes is None:
        return None
    fixed = _fixed(tried[0], values)
    tried += [  # comparators that differ from the points only in what the space varies
        config
        for config in facts.inputs.configs
        if Role.SPACE not in config.roles
        and _fixed(config, values) == fixed
        and all(config.params.get(name) is not None for name in values)
    ]
    texts = [_texts(distinct([config.params[name] for config in tried], space.root[name])) for name in axes]
    at: dict[tuple[str, ...], list[ConfigRow]] = {}
    for config in tried:
        place = tuple(words[repr(config.params[name])] for name, words in zip(axes, texts, strict=True))
        at.setdefault(place, []).append(facts.rows[config.id])
    collapsed, shares = collapsed_in_tuning(facts), kept_by_stage(facts).items()
    steady = [facts.rows[config.id].tune for config in tried if config.id not in collapsed]
    results = [stage.by_seed for stage in steady if stage is not None]
    noise = fit_seeds(results) if results else None
    tune, confirm = ({id_: fmean(values) for (id_, at), values in shares if at is stage} for stage in Stage)
    planned = Counter(trial.config_id for trial in facts.trials if trial.stage is Stage.TUNE)
    xs, ys, facets = ([*words.values()] for words in (texts if len(axes) > 2 else [*texts, {}]))
    cells = [
        _cell(place, at.get(place, []), noise, collapsed, planned, confirm | tune)
        for facet in [(text,) for text in facets] or [()]
        for y in ys
        for x in xs
        for place in [(x, y, *facet)]
    ]
    return Grid(
        x=axes[0],
        y=axes[1],
        facet=axes[2] if facets else None,
        xs=xs,
        ys=ys,
        facets=facets,
        cells=cells,
        others=[name for name, tried_values in values.items() if len(tried_values) > 1 and name not in axes],
    )


def _axes(names: Sequence[str]) -> list[str] | None:
    """Return x, y and, if there is a third parameter, the facet."""
    if len(names) < 2:
        return None
    axes = list(_BETAS if set(_BETAS) <= set(names) else names[:2])
    rest = [name for name in names if name not in axes]
    return axes + ([name for name in _EPSILONS if name in rest] + rest)[:1]


def _fixed(config: Config, varied: Mapping[str, Any]) -> Any:
    """Return a config's training without the parameters that the space varies."""
    training = json.loads(json.dumps(config.settings))
    names = [name for name in varied if name != "loss.epsilon"]
    names += ["loss.epsilon_low", "loss.epsilon_high"] if "loss.epsilon" in varied else []
    for name in names:
        *path, last = name.split(".")
        node: Any = training
        for key in path:
            node = node.get(key) if isinstance(node, dict) else None
        if isinstance(node, dict):
            node.pop(last, None)
    return training


def _texts(values: Sequence[Any]) -> dict[str, str]:
    """Write values for people, by their full form, which stays where the short forms of two are the same."""
    short = {repr(value): value_text(value) for value in values}
    return short if len(set(short.values())) == len(short) else {full: full for full in short}


def _cell(
    place: tuple[str, ...],
    rows: Sequence[ConfigRow],
    noise: SeedFit | None,
    collapsed: Collection[str],
    planned: Mapping[str, int],
    entropy_shares: Mapping[str, float],
) -> Cell:
    tuned = [row for row in rows if row.tune is not None]
    confirmed = [row.confirm.mean for row in rows if row.confirm is not None]
    entropies = [entropy_shares[row.id] for row in rows if row.id in entropy_shares]
    best = max(
        tuned, key=lambda row: (row.tune.mean if row.tune else 0, -row.number), default=rows[0] if rows else None
    )
    return Cell(
        x=place[0],
        y=place[1],
        facet=place[2] if len(place) > 2 else None,
        config_id=None if best is None else best.id,
        mean=fmean(row.tune.mean for row in tuned if row.tune) if tuned else None,
        half_width=_half_width(tuned, noise, collapsed),
        n=sum(row.tune.n for row in tuned if row.tune),
        planned=sum(planned.get(row.id, 0) for row in rows),
        confirm=fmean(confirmed) if confirmed else None,
        entropy_kept=fmean(entropies) if entropies else None,
    )


def _half_width(rows: Sequence[ConfigRow], noise: SeedFit | None, collapsed: Collection[str]) -> float | None:
    """Return the half width for the mean of these configs' means; a collapsed config uses its own spread."""
    stages = [row.tune for row in rows if row.tune is not None]
    if len(rows) == 1 and rows[0].id in collapsed:
        (stage,) = stages
        if stage.sd is None or stage.n < MIN_SEEDS:
            return None
        return student_critical(stage.n - 1) * stage.sd / stage.n**0.5
    if not stages or noise is None or not noise.variance or any(row.id in collapsed for row in rows):
        return None
    return student_critical(noise.df) * (noise.variance * sum(1 / stage.n for stage in stages)) ** 0.5 / len(stages)
