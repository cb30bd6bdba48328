"""YAML 1.2 means what people think, and no text takes long, much memory or a traceback."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from trainers.command_line import main
from trainers.yaml_text import MAX_CHARACTERS, YamlError, read_yaml, write_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("1e-5", 1e-5),
        ("[1.0, 2, .5, 1E3, +3, -0.5, 1.]", [1.0, 2, 0.5, 1000.0, 3, -0.5, 1.0]),
        ("[true, True, FALSE]", [True, True, False]),
        ("[yes, no, on, off, y]", ["yes", "no", "on", "off", "y"]),
        (
            "[1:20, 2024-01-01, 1_000, 0b1, '3', =, 1.2.3, -, '']",
            ["1:20", "2024-01-01", "1_000", "0b1", "3", "=", "1.2.3", "-", ""],
        ),
        ("[null, ~, ]", [None, None]),
        ("{a: , b: !!str x}", {"a": None, "b": "x"}),
        ("", None),
        ("# nothing", None),
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
        ("%YAML 1.1\n---\na: yes", {"a": "yes"}),
        ('{"a": {"b": [1e-3, null, true]}}', {"a": {"b": [1e-3, None, True]}}),
    ],
)
def test_what_a_text_means(text: str, value: Any) -> None:
    read = read_yaml(text, "x")
    assert read == value
    assert json.dumps(read) == json.dumps(value)


def test_merge_keys_bring_in_mappings_and_what_is_written_wins() -> None:
    text = "base: &b {x: 1, y: 2}\nmore: &m {y: 3, z: 4}\none: {<<: *b, y: 9}\ntwo: {<<: [*b, *m], w: 0}\n"
    read = read_yaml(text, "x")
    assert read["one"] == {"x": 1, "y": 9}
    assert read["two"] == {"y": 2, "z": 4, "x": 1, "w": 0}
    assert read_yaml('{"<<": 1}', "x") == {"<<": 1}


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)
CHAIN = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 60))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (BOMB, r"^x, line \d+, column \d+: with its aliases followed, the document has more than 20000 values"),
        (CHAIN, "with its aliases followed, it is nested deeper than 32 levels"),
        ("&a [*a]", "^x, line 1, column 1: an alias stands within what it stands for"),
        ("a: *b", "^x, line 1, column 4: not valid YAML: found undefined alias 'b'"),
        ("a: " + "[" * 5000, "^x, line 1, column 35: not valid YAML: it is nested deeper than 32 levels"),
        ("\n".join(" " * n + "a:" for n in range(3000))[:MAX_CHARACTERS], "nested deeper than 32 levels"),
        ("x" * (MAX_CHARACTERS + 1), "^x has more than 131072 characters; is it the right file"),
        ("a: 1\nb:\n  c: 1\n  c: 2", "^x, line 4, column 3: the key 'c' appears twice"),
        ("{1: 2}", "^x, line 1, column 2: the key 1 is no text; write it in quotes if it is a name"),
        ("? [a]\n: b", r"the key \['a'\] is no text"),
        ("<<: 3", "^x, line 1, column 5: << merges a mapping"),
        ("a: !!binary aGk=", "^x, line 1, column 4: the tag tag:yaml.org,2002:binary is not read; leave it out"),
        ("a: .nan", "^x, line 1, column 4: .nan is not a number that JSON has"),
        ("a: 1e999", "1e999 is larger than any number that computers hold"),
        ("a: " + "1" * 5000, "is not a number that JSON has"),
        ("a: [1", "^x, line 1, column 6: not valid YAML: "),
        ("\t- a", "^x, line 1, column 1: not valid YAML: "),
        ("a: 1\n---\nb: 2", "^x, line 2, column 1: not valid YAML: but found another document"),
        ("a\x00", "^x: not valid YAML: unacceptable character #x0000"),
    ],
    ids=map(str, range(19)),
)
def test_what_is_refused_is_told_in_one_line_with_its_place(text: str, says: str) -> None:
    with pytest.raises(YamlError, match=says) as refused:
        read_yaml(text, "x")
    assert "\n" not in str(refused.value)


@given(st.text(max_size=60) | st.text(alphabet="ab:-[]{}&*<>|?!%#'\"\n \t0159.e+~,", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(YamlError):
        json.dumps(read_yaml(text, "x"), allow_nan=False)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(alphabet=st.characters(exclude_categories=["Cc", "Cs", "Cn", "Co"]), max_size=20)
    | st.sampled_from(["1e-5", "010", "0o7", "yes", "1:20", "<<", "=", "2024-01-01", ".5e3", "~", "", "1_000", "0x1"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc:#'- 1e", max_size=4), inner, max_size=4),
    max_leaves=8,
)


@given(VALUES, st.booleans())
def test_what_is_written_is_read_again_by_either_version_of_yaml(value: Any, short_lines: bool) -> None:
    text = write_yaml({"a": value}, short_lines=short_lines)
    assert read_yaml(text, "x") == yaml.safe_load(text) == {"a": value}


def test_a_value_that_stands_twice_is_written_twice() -> None:
    shared = [1, 2]
    assert "&" not in write_yaml({"a": shared, "b": shared})


@pytest.mark.parametrize("content", ["{" * 3000, "a: &a [*a]", "a: 1\na: 2", "loss: {3: 1}", "- a"])
def test_the_command_line_refuses_a_file_without_a_traceback(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.yaml").write_text(content)
    assert main([str(tmp_path / "run.yaml"), "--output", str(tmp_path / "out")]) == 2
    told = capsys.readouterr().err
    assert told.startswith(str(tmp_path / "run.yaml"))
    assert len(told.splitlines()) == 1
