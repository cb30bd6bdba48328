"""GPUs, as their makers' data sheets have them."""

import re
from typing import Final, NamedTuple

from sweep_service.recipes.errors import RecipeError


class Card(NamedTuple):
    """One GPU."""

    memory: int
    """GB."""
    tflops: float
    """Dense bfloat16 products, 10^12 operations a second."""
    bandwidth: float
    """TB/s to its own memory."""


CARDS: Final[dict[str, Card]] = {
    "A10": Card(24, 125, 0.600),
    "A100-40GB": Card(40, 312, 1.555),
    "A100-80GB": Card(80, 312, 1.935),
    "A6000": Card(48, 155, 0.768),
    "B200": Card(180, 2250, 7.7),
    "H100": Card(80, 989, 3.35),
    "H100-NVL": Card(94, 835, 3.9),
    "H100-PCIe": Card(80, 756, 2.0),
    "H200": Card(141, 989, 4.8),
    "L4": Card(24, 121, 0.300),
    "L40S": Card(48, 362, 0.864),
    "RTX3090": Card(24, 71, 0.936),
    "RTX4090": Card(24, 165, 1.008),
    "RTX5090": Card(32, 209, 1.792),
    "RTX6000-Ada": Card(48, 364, 0.960),
}
_MOST: Final = 64


class Machine(NamedTuple):
    """GPUs of one kind, in one machine."""

    gpus: int
    name: str

    @property
    def card(self) -> Card:
        """One of them."""
        return CARDS[self.name]

    def __str__(self) -> str:
        return f"{self.gpus}x{self.name}"


def parse_machine(text: str) -> Machine:
    """Read `8xH100`.

    Raises: RecipeError, for another form, an unknown card, or more than 64 GPUs.
    """
    match = re.fullmatch(r"(\d{1,4})\s*[xX]\s*(\S+)", text.strip())
    if match is None:
        raise RecipeError(f"--gpus {text!r}: write a number, x and a card, such as 8xH100 or 1xRTX4090")
    count, asked = int(match[1]), match[2].casefold()
    name = next((name for name in CARDS if name.casefold() == asked), None)
    if name is None:
        near = [name for name in CARDS if name.casefold().startswith(asked)]
        meant = f"say which: {', '.join(near)}" if near else f"there are {', '.join(CARDS)}"
        raise RecipeError(
            f"--gpus {text!r}: there is no card {match[2]!r}; {meant}; "
            "for another one name a card of no more memory and speed"
        )
    if not 1 <= count <= _MOST:
        raise RecipeError(f"--gpus {text!r}: between 1 and {_MOST} GPUs of one machine are planned for")
    return Machine(count, name)
