import pytest

from trainers.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m text", "red text"),
        ("\x1b]0;a title\x07after", "after"),
        ("\x1b]52;c;cm0gLXJm\x1b\\after", "after"),
        ("\x1bP1;2|data\x1b\\after", "after"),
        ("\x9b2Jafter", "after"),
        ("\x1bcafter\x1b(Bmore", "aftermore"),
        ("a\x08b\x7fc\x00\x85d", "abcd"),
        ("\ttab\nline\r\nend", "\ttab\nline\nend"),
        ("half \x1b", "half "),
        ("\x1b]no end\nnext line", "\nnext line"),
        ("\u202egpj.exe\u202c \u2067x\u2069", "gpj.exe x"),
        ("ä 漢 😀 \u200f", "ä 漢 😀 \u200f"),
    ],
)
def test_what_a_terminal_would_obey_is_taken_out(text: str, shown: str) -> None:
    assert printable(text) == shown
