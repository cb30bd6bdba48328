"""The name and the line style of each config on the page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sweep_service.sweep.labels import config_labels, names_to_show
from sweep_service.sweep.records import Config, Role, Sweep

NUM_COLOURS: Final = 7
NUM_DASHES: Final = 4


@dataclass(frozen=True)
class ConfigLook:
    """One config's name and the style classes of its line."""

    label: str
    style: str


def looks(sweep: Sweep, configs: Sequence[Config]) -> dict[str, ConfigLook]:
    """Return each config's look by its id.

    In a grid the first varied parameter (beta1, if it varies) decides the colour and the other parameters decide the
    dash; otherwise both follow the config's number. Comparators are neutral, as in the report.
    """
    names = names_to_show(sweep.spec.space.varied or sweep.spec.space.names)
    space = [config for config in configs if Role.SPACE in config.roles]
    first = next((name for name in names if len({_value(config, name) for config in space}) > 1), None)
    values = sorted({_value(config, first) for config in space})
    rests = sorted({_rest(config, first) for config in space})
    by_value = sweep.spec.search.is_grid and len(values) <= NUM_COLOURS
    by_id, labels = dict[str, ConfigLook](), config_labels(configs, names)
    for config in configs:
        if Role.BASELINE in config.roles:
            style = "ink d0"
        elif Role.SPACE not in config.roles:
            style = "plain d1" if Role.DAPO in config.roles else "plain d2"
        elif by_value:
            style = f"c{values.index(_value(config, first))} d{rests.index(_rest(config, first)) % NUM_DASHES}"
        else:
            style = f"c{config.number % NUM_COLOURS} d{config.number // NUM_COLOURS % NUM_DASHES}"
        by_id[config.id] = ConfigLook(labels[config.id], style)
    return by_id


def _value(config: Config, name: str | None) -> tuple[float, str]:
    value = config.params.get(name) if name else None
    return (float(value), "") if isinstance(value, int | float) else (0.0, str(value))


def _rest(config: Config, name: str | None) -> tuple[tuple[float, str], ...]:
    return tuple(_value(config, other) for other in sorted(config.params) if other != name)
