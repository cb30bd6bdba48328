"""GPUs by their makers' data sheets, and machines of one or more of them."""

import re
from typing import Final, NamedTuple

from sweep_service.errors import ServiceError


class RecipeError(ServiceError):
    """The recipe, model, data or machine does not exist or does not fit; the message says what would."""


class Card(NamedTuple):
    """One GPU: memory in GB, dense bfloat16 products in 10^12 operations a second, memory bandwidth in TB/s."""

    memory: int
    tflops: float
    bandwidth: float


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
_MAX_GPUS: Final = 64


class Machine(NamedTuple):
    """GPUs of one kind, in one machine."""

    gpus: int
    name: str

    @property
    def card(self) -> Card:
        """The kind of GPU."""
        return CARDS[self.name]

    def __str__(self) -> str:
        return f"{self.gpus}x{self.name}"


def parse_machine(text: str) -> Machine:
    """Read a machine such as `8xH100`.

    Raises: RecipeError, for another form, an unknown card, or more than 64 GPUs.
    """
    match = re.fullmatch(r"(\d{1,4})\s*[xX]\s*(\S+)", text.strip())
    if match is None:
        raise RecipeError(f"--gpus {text!r}: write a number, x and a card, such as 8xH100 or 1xRTX4090")
    count, card = int(match[1]), match[2].casefold()
    name = next((name for name in CARDS if name.casefold() == card), None)
    if name is None:
        similar = [name for name in CARDS if name.casefold().startswith(card)]
        choice = f"choose one of {', '.join(similar or CARDS)}"
        raise RecipeError(
            f"--gpus {text!r}: the card {match[2]!r} is unknown; {choice}; for another card, name one that has no more "
            "memory and is no faster"
        )
    if not 1 <= count <= _MAX_GPUS:
        raise RecipeError(f"--gpus {text!r}: give between 1 and {_MAX_GPUS} GPUs of one machine")
    return Machine(count, name)
