"""Figures as JSON inside the page: short numbers, every repeated value once, nothing that could end the script.

    {"shared": [VALUE, …], "figures": [FIGURE, …]}

`{"$": 3}` anywhere stands for the fourth shared value. A shared value refers only to those before it.
"""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from sweep_service.report.figures import Figure

_DIGITS: Final = 5
"""Number of significant digits of a fraction: more than a screen can show, yet halving the file."""
_WORTH: Final = 24
"""A repeated value is shared if its JSON has at least this many letters."""


def embedded(figures: Sequence[Figure]) -> str:
    """Return the JSON that page.js unpacks. Equal figures give equal text."""
    short: list[Figure] = json.loads(_json(figures), parse_float=_rounded)
    packer = _Packer(short)
    packed = ",".join(packer.pack(figure) for figure in short)
    text = f'{{"shared":[{",".join(packer.shared)}],"figures":[{packed}]}}'
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _rounded(fraction: str) -> float:
    value = float(fraction)
    return float(f"{value:.{_DIGITS}g}") if abs(value) < 10**_DIGITS else round(value)


class _Packer:
    """Writes values as JSON, and repeated ones as references."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.shared: list[str] = []
        self._places: dict[str, int] = {}
        self._seen: Counter[str] = Counter()
        for value in values:
            self._count(value)

    def _count(self, value: Any) -> None:
        """Count a value and what lies inside; the inside of a repeated value is counted once."""
        text = _json(value)
        if len(text) < _WORTH:
            return
        self._seen[text] += 1
        if self._seen[text] == 1:
            for item in _parts(value):
                self._count(item)

    def pack(self, value: Any) -> str:
        text = _json(value)
        if text not in self._places:
            parts = _parts(value) if len(text) >= _WORTH else ()
            if not parts:
                packed = text
            elif isinstance(value, dict):
                packed = f"{{{','.join(f'{_json(name)}:{self.pack(part)}' for name, part in value.items())}}}"
            else:
                packed = f"[{','.join(map(self.pack, parts))}]"
            if self._seen[text] < 2:
                return packed
            self._places[text] = len(self.shared)
            self.shared.append(packed)
        return f'{{"$":{self._places[text]}}}'


def _parts(value: Any) -> Sequence[Any]:
    """Return the values inside a value that may be shared; a list of numbers is only shared whole."""
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list) and value and isinstance(value[0], dict | list | str):
        return value
    return ()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
