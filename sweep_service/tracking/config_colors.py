"""A colour for each config, the same for all its seeds and different from its neighbours'.

MLflow takes a single run's colour from the tag `mlflow.runColor`. For a group of runs it has no such tag: the colour
follows from a checksum of the group's name, and names as alike as `β1=0 β2=1` and `β1=1 β2=1` often get the same one.
So a group's name ends in a few characters of no width, chosen to give it the colour wanted.
"""

from itertools import product
from typing import Final

GROUP_TAG: Final = "line"
"""The tag to group runs by: a config's label with its colour."""

_PALETTE: Final = [
    "#a6630c", "#c83243", "#b45091", "#8a63bf", "#434a93", "#137dae", "#04867d", "#308613",
    "#facb66", "#1f272d", "#445461", "#5f7281", "#8396a5", "#93320b", "#be501e", "#de7921",
    "#f2be88", "#115026", "#277c43", "#3ba65e", "#8ddda8", "#9e102c", "#c82d4c", "#e65b77",
    "#f792a6", "#0e538b", "#2272b4", "#4299e0", "#8acaff",
]  # fmt: skip
"""MLflow's, in its order, which the checksum depends on."""

_ORDER: Final = (9, 12, 26, 1, 19, 15, 3, 6, 2, 8, 0, 4, 20, 24, 28)
"""Places in the palette by config number: dark and grey for the baselines, which come first, then what differs most."""

_NO_WIDTH: Final = ("\N{ZERO WIDTH SPACE}", "\N{ZERO WIDTH NON-JOINER}")


def config_color(number: int) -> str:
    """Return the colour of the config with this number, such as `#2272b4`; after 15 they repeat."""
    return _PALETTE[_ORDER[number % len(_ORDER)]]


def group_name(label: str, number: int) -> str:
    """Return the label with an ending of no width that makes MLflow draw its group in the config's colour."""
    wanted = _ORDER[number % len(_ORDER)]
    names = (label + "".join(ending) for length in range(12) for ending in product(_NO_WIDTH, repeat=length))
    return next((name for name in names if _place(f"tag.{GROUP_TAG}.{name}") == wanted), label)


def _place(group: str) -> int:
    """Return where in its palette MLflow finds a group's colour."""
    low = high = 0
    for unit in memoryview(group.encode("utf-16-le")).cast("H"):
        low = (low + unit) % 255
        high = (high + low) % 255
    return (low | high << 8) % len(_PALETTE)
