"""Finds the final answer in a text."""

import re
from typing import Final

LONG: Final = 60
"""Characters: more than a final answer has."""
_BRACES: Final = re.compile(r"\\boxed\s*\{|\\[{}]|[{}]")


def last_boxed(text: str) -> str | None:
    r"""Return the content of the `\boxed{...}` that begins last among the closed ones, in one pass over the text."""
    opened: list[int | None] = []  # where the content of a box begins; None for another brace
    begin, content = -1, None
    for match in _BRACES.finditer(text):
        if match[0].startswith(r"\boxed"):
            opened.append(match.end())
        elif match[0] == "{":
            opened.append(None)
        elif match[0] == "}" and opened:
            start = opened.pop()
            if start is not None and start > begin:
                begin, content = start, text[start : match.start()]
    return content


def looks_worked(answer: str) -> bool:
    r"""Tell whether a problem's answer has the marks of a worked solution: several lines, "####" or a box."""
    return "\n" in answer or "####" in answer or r"\boxed" in answer
