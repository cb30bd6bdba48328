import pytest

from tests import golden


def test_a_golden_file_is_written_when_asked_and_otherwise_any_difference_fails(tmp_path, monkeypatch):
    path = tmp_path / "golden" / "text.md"
    monkeypatch.setattr(golden, "_rewriting", False)
    with pytest.raises(pytest.fail.Exception, match=r"\+first\n\+second\n"):
        golden.matches_golden(path, "first\nsecond\n")
    monkeypatch.setattr(golden, "_rewriting", True)
    golden.matches_golden(path, "first\nsecond\n")
    monkeypatch.setattr(golden, "_rewriting", False)
    golden.matches_golden(path, "first\nsecond\n")
    with pytest.raises(pytest.fail.Exception, match=r"-second\n\+other\n"):
        golden.matches_golden(path, "first\nother\n")
    for same_words in ("first\nsecond", "first\r\nsecond\r\n"):
        with pytest.raises(pytest.fail.Exception):
            golden.matches_golden(path, same_words)
