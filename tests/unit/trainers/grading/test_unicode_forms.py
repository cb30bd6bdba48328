import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from trainers.grading.unicode_forms import says_by_form, without_layout


def test_only_forms_without_a_meaning_are_layout() -> None:
    assert without_layout("\N{LATIN SMALL LIGATURE FI}x\N{FULLWIDTH DIGIT ONE}") == "fix1"
    assert without_layout("x²₃½① e\N{COMBINING ACUTE ACCENT}") == "x²₃½① é"


@given(st.text(max_size=20))
def test_all_other_text_becomes_its_nfkc(text: str) -> None:
    rest = "".join(character for character in text if not says_by_form(character))
    assert without_layout(rest) == unicodedata.normalize("NFKC", rest)
