"""Finds the final answer in a text."""

import re
from typing import Final, NamedTuple

from trainers.grading.answers import normal
from trainers.grading.latex_forms import as_latex

LONG: Final = 60
"""Characters: more than a final answer has."""
_BRACES: Final = re.compile(r"\\(?:boxed|fbox)\s*\{|\\[{}]|[{}]")
_INNER: Final = re.compile(r"\\(?:boxed|fbox)\s*(?=\{)")
_IN_BRACES: Final = re.compile(r"\s*\{((?:\\[{}]|[^{}])*)\}\s*")
_BARE: Final = re.compile(  # all of an answer: not the 5 of 5^2, 5/2, 5x or 5, 6
    r"\\(?:boxed|fbox)(?:\s*([-+]?(?:[0-9]++(?:[.,][0-9]++)*+|\.[0-9]++))(?!\s*[\^_/*!A-Za-z(\[]|\s*\\[A-Za-z(\[]|\s*,\s*[0-9])"
    r"|\s+([A-Z])(?![A-Za-z]))"
)
_SPACE: Final = r"(?:\s|~|\\[ ,;:!]|\\q?quad(?![a-z]))*+"
_NAMED: Final = rf"(?:[A-Za-z](?:_\{{?\w{{1,9}}\}}?)?{_SPACE}=)?{_SPACE}"
_WORD: Final = r"(?:and|or|\\text\s*\{\s*(?:and|or)\s*\})"
_NEXT_PART: Final = re.compile(
    rf"{_SPACE}(?:\$|\\[)\]])?{_SPACE}(?:[,;]{_SPACE}{_WORD}?|{_WORD}){_SPACE}(?:\$|\\[(\[])?{_SPACE}{_NAMED}"
)
_TEXT: Final = re.compile(r"\\text\s*\{([^{}]*)\}")
_FARTHEST: Final = 60
"""Most characters between two boxes that are parts of one answer."""


class _Box(NamedTuple):
    """A closed box: where it begins and ends in the text, and where its content does."""

    begin: int
    first: int
    last: int
    end: int


def last_boxed(text: str) -> str | None:
    r"""Return the content of the last `\boxed{...}` or `\fbox{...}`, in one pass over the text; None without any.

    It is empty if the box that begins last is not closed. `\boxed{...}` in a box is a part of its content. Boxes
    between which nothing but `,`, `and` or `or` stands, and perhaps `x =`, are parts of one answer: they are joined by
    commas, equal ones once; an empty last one leaves nothing. `\boxed 5` is read where no box has braces.
    """
    boxes, open_at = _boxes(text)
    if open_at > (boxes[-1].begin if boxes else -1):
        return ""
    if not boxes:
        bare = [number or letter for number, letter in _BARE.findall(text)]
        return bare[-1] if bare else None
    parts, later = [boxes[-1]], boxes[-1]
    for box in reversed(boxes[:-1]):
        if later.begin - box.end > _FARTHEST or not _NEXT_PART.fullmatch(text, box.end, later.begin):
            break
        parts.append(later := box)
    contents = [_without_inner(text[part.first : part.last]) for part in reversed(parts)]
    if len(contents) == 1 or not contents[-1].strip():
        return contents[-1]
    different = {normal(as_latex(_TEXT.sub(r"\1", content))): content.strip() for content in reversed(contents)}
    return ", ".join(content for form, content in reversed(different.items()) if form)


def _without_inner(content: str) -> str:
    """Return the content of a box without the boxes in it."""
    plain = _INNER.sub("", content)
    whole = _IN_BRACES.fullmatch(plain) if plain != content else None
    return whole[1] if whole else plain


def _boxes(text: str) -> tuple[list[_Box], int]:
    """Return the outermost closed boxes, and where the last box begins that is not closed; -1 without one."""
    opened: list[tuple[int, int] | None] = []  # where a box and its content begin; None for another brace
    boxes: list[_Box] = []
    for match in _BRACES.finditer(text):
        if match[0].endswith("{") and match[0] != r"\{":
            opened.append(match.span() if len(match[0]) > 1 else None)
        elif match[0] == "}" and opened and (start := opened.pop()):
            while boxes and boxes[-1].begin > start[0]:
                boxes.pop()  # it is a part of this one's content
            boxes.append(_Box(*start, match.start(), match.end()))
    return boxes, max((start[0] for start in opened if start), default=-1)


def boxed(answer: str) -> str:
    """Return an answer in a box: the shortest right completion."""
    return rf"\boxed{{{answer}}}"


def looks_worked(answer: str) -> bool:
    r"""Tell whether a problem's answer has the marks of a worked solution: several lines, "####" or a box."""
    return "\n" in answer or "####" in answer or r"\boxed" in answer
