"""Makes foreign text safe to print on a terminal: nothing in it moves the cursor or reverses letters."""

import re
from typing import Final

_SEQUENCE: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, movements
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"  # titles, links, the clipboard
    r"|\x1b[ -/]*[0-~]"
)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """Return text without escape sequences, control characters and wishes for a direction of writing.

    Tabs, line feeds and carriage returns stay.
    """
    return _CONTROL.sub("", _SEQUENCE.sub("", text.replace("\r\n", "\n")))
