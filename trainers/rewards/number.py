r"""Reward "number": the number in the last `\boxed{}`, or else the last number of the text, has the right value."""

import re
import unicodedata
from fractions import Fraction
from typing import Final

from trainers.errors import GraderError
from trainers.grading.latex_forms import as_latex
from trainers.grading.unicode_forms import says_by_form, without_layout
from trainers.rewards.final_answer import last_boxed
from trainers.tasks.base import Completion, Judgement, OneByOne, Problem

# 7  -7  1,234.50  .5  3/4; the sign only where it cannot be a minus between two terms
_NUMBER: Final = re.compile(
    r"(?:(?<![0-9A-Za-z)}])[-+])?(?:(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+)(?:/[0-9]+)?"
)
_MORE_THAN_A_NUMBER: Final = re.compile(r"\\(?!(?:[$%,;: ]|text|mathrm|mu ))|[!^]")  # \sqrt{4}, \frac12, 5!, 2^{n}
_SIGN_APART: Final = re.compile(
    r"(?<![0-9A-Za-z)}\s])((?:^|[=$({,:])\s*[-+])\s*(?:\\?\$|£|€)?\s*(?=[0-9.])"
)  # -$5, - 5
_ALGEBRA: Final = re.compile(r"[A-Za-z]\s*[+*/<>]\s*[0-9.]|[A-Za-z] ?- ?[0-9.]|[0-9]\s*[+*/<>]\s*[A-Za-z]|[<>|]")
_MINUS: Final = str.maketrans({"\N{MINUS SIGN}": "-"})
_LONGEST: Final = 100  # characters


class NumberReward(OneByOne):
    r"""1 for the right value, exactly, else 0.

    For plain numbers: a box with several numbers, a root, a power or another LaTeX command has no value here. Nor has
    one with such a character of Unicode: √16, 3², 1½, ±4, 2π.
    """

    def judgement(self, problem: Problem, completion: Completion) -> Judgement:
        """Judge one completion. Raises: GraderError, if the problem's right answer is not a number."""
        right = value_of(problem.answer)
        if right is None:
            raise GraderError(
                f"the reward number cannot judge answers to {problem.prompt!r:.100}: {problem.answer!r:.100} is not "
                "one number; choose another reward"
            )
        boxed = last_boxed(completion.text)
        if boxed is not None:
            value = value_of(boxed)
        else:
            numbers = [] if completion.truncated else _NUMBER.findall(without_layout(completion.text).translate(_MINUS))
            value = _value(numbers[-1]) if numbers else None
        return Judgement(float(value == right), value == right, None if value is None else str(value))

    def unread(self, answer: str) -> str:
        """Return the reason why a right answer cannot be read; empty if it can."""
        return "" if value_of(answer) is not None else "is not one number"


def value_of(text: str) -> Fraction | None:
    r"""Return the value of the text's only number: `\$18`, `18\text{ m}` and `x=18` have one, `\sqrt{18}` has none."""
    text = as_latex(text).replace(r"\!", "").replace("{,}", ",")  # 1,\!000 and 1{,}000
    text = _SIGN_APART.sub(r"\1", text)
    text = text.replace(r"^\circ", "").replace(r"^{\circ}", "")
    more = _MORE_THAN_A_NUMBER.search(text) or _ALGEBRA.search(text) or any(map(_is_mathematical, text))
    numbers = [] if more else _NUMBER.findall(text)
    return _value(numbers[0]) if len(numbers) == 1 else None


def _is_mathematical(character: str) -> bool:
    """True for a symbol of mathematics that has no LaTeX command here, and for a number in a circle."""
    return not character.isascii() and (unicodedata.category(character) == "Sm" or says_by_form(character))


def _value(number: str) -> Fraction | None:
    if len(number) > _LONGEST:
        return None
    numerator, _, denominator = number.replace(",", "").partition("/")
    divisor = Fraction(denominator or 1)
    return Fraction(numerator) / divisor if divisor else None
