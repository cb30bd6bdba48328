"""Compatibility forms of Unicode: some are mere layout, others say something else than the characters in them.

A ligature or a wide digit is layout. A superscript, a subscript, a fraction or a character in a circle is not: without
its form 3² were 32, 1½ were 11/2 and 3① were 31.
"""

import unicodedata
from functools import cache
from typing import Final

_MEANING: Final = ("<super>", "<sub>", "<fraction>", "<circle>")


def says_by_form(character: str) -> bool:
    """Tell whether the form of a character has a meaning of its own."""
    return unicodedata.decomposition(character).startswith(_MEANING)


def without_layout(text: str) -> str:
    """Return a text's NFKC, in which the characters whose form has a meaning stay as they are."""
    return text if text.isascii() else unicodedata.normalize("NFC", "".join(map(_plain, text)))


@cache
def _plain(character: str) -> str:
    return character if says_by_form(character) else unicodedata.normalize("NFKD", character)
