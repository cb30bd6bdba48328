"""YAML that people write: `read_yaml` reads YAML 1.2 as far as JSON goes, `write_yaml` writes what every reader takes.

In YAML 1.2, unlike 1.1, `010` is ten, `1:20`, `yes` and dates are texts, and 1e-5 is a number. Aliases and merge keys
(`<<: *base`) are read. What would surprise is refused with its line and column: a key that appears twice or is no text,
tags such as `!!binary`, NaN and infinity, and whatever is too long, too deep, or multiplies by its aliases.
"""

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

import yaml

if TYPE_CHECKING:
    from ruamel.yaml.nodes import MappingNode, Node, ScalarNode

MAX_CHARACTERS: Final = 128 * 1024
"""Longest text; a configuration has a few thousand characters."""
MAX_DEPTH: Final = 32
"""Levels of nesting; a configuration needs fewer than ten."""
MAX_VALUES: Final = 20_000
"""Values of a document when its aliases are followed."""
_MAX_DIGITS: Final = 1000
_INT: Final = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_TAGS: Final = "tag:yaml.org,2002:"
_TEXTS: Final = frozenset({"str", "timestamp", "value", "merge"})
"""Kinds of values, in the words of the parser, that are texts here."""


class YamlError(ValueError):
    """A text is not such YAML; the message says where, and why."""


def read_yaml(text: str, name: str) -> Any:
    """Return the value that a text stands for; None for an empty one.

    Args:
        name: what errors call the text, such as its file.
    Raises: YamlError.
    """
    from ruamel.yaml import YAML  # takes 60 ms, for which commands without YAML need not wait
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    if len(text) > MAX_CHARACTERS:
        raise YamlError(f"{name} has more than {MAX_CHARACTERS} characters; is it the right file?")
    parser = YAML(typ="safe", pure=True)
    parser.max_depth = MAX_DEPTH
    parser.composer.warn_double_anchors = False
    try:
        node = parser.compose(text)
    except MarkedYAMLError as error:
        mark, problem = error.problem_mark, error.problem or error.context
        if "maximum depth" in str(problem):
            problem = f"it is nested deeper than {MAX_DEPTH} levels"
        _refuse(name, mark, f"not valid YAML: {problem}")
    except YAMLError as error:
        raise YamlError(f"{name}: not valid YAML: {str(error).splitlines()[0]}") from error
    return None if node is None else _Values(name).of(node)


def read_yaml_file(path: Path) -> Any:
    """Return the value that a file stands for. Raises: OSError; UnicodeError; YamlError."""
    with path.open(encoding="utf-8") as file:
        return read_yaml(file.read(MAX_CHARACTERS + 1), str(path))


def _refuse(name: str, mark: Any, why: str) -> NoReturn:
    place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    raise YamlError(f"{name}{place}: {why}")


class _Values:
    """The values of one document."""

    def __init__(self, name: str) -> None:
        self._name, self._values, self._open = name, 0, set[int]()

    def of(self, node: "Node") -> Any:
        self._values += 1
        if self._values > MAX_VALUES:
            self._refuse(node, f"with its aliases followed, the document has more than {MAX_VALUES} values")
        if id(node) in self._open:
            self._refuse(node, "an alias stands within what it stands for")
        if len(self._open) > MAX_DEPTH:
            self._refuse(node, f"with its aliases followed, it is nested deeper than {MAX_DEPTH} levels")
        kind = str(node.tag).removeprefix(_TAGS)
        self._open.add(id(node))
        try:
            if isinstance(node.value, str):
                return self._scalar(cast("ScalarNode", node), kind)
            if kind == "map":
                return self._mapping(cast("MappingNode", node))
            if kind == "seq":
                return [self.of(inner) for inner in node.value]
        finally:
            self._open.remove(id(node))
        self._refuse(node, f"the tag {node.tag} is not read; leave it out")

    def _mapping(self, node: "MappingNode") -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key, value in node.value:
            if str(key.tag) == f"{_TAGS}merge":
                inner = self.of(value)
                for mapping in reversed(inner) if isinstance(inner, list) else [inner]:  # of several the first counts
                    if not isinstance(mapping, dict):
                        self._refuse(value, "<< merges a mapping, such as an alias of one, or a list of mappings")
                    merged |= mapping
                continue
            name = self.of(key)
            if not isinstance(name, str):
                self._refuse(key, f"the key {name!r:.100} is no text; write it in quotes if it is a name")
            if name in own:
                self._refuse(key, f"the key {name!r:.100} appears twice")
            own[name] = self.of(value)
        return {**merged, **own}

    def _scalar(self, node: "ScalarNode", kind: str) -> Any:
        text = node.value
        if kind in _TEXTS:
            return text
        if kind == "null":
            return None
        if kind == "bool":
            return text.lower() == "true" if text.lower() in ("true", "false") else text
        if kind not in ("int", "float"):
            self._refuse(node, f"the tag {node.tag} is not read; leave it out")
        if len(text) > _MAX_DIGITS or _NOT_FINITE.fullmatch(text):
            self._refuse(node, f"{text[:40]} is not a number that JSON has")
        if _INT.fullmatch(text):
            return int(text, 0 if text[:2] in ("0o", "0x") else 10)
        if not _FLOAT.fullmatch(text):
            return text
        if math.isinf(number := float(text)):
            self._refuse(node, f"{text[:40]} is larger than any number that computers hold")
        return number

    def _refuse(self, node: "Node", why: str) -> NoReturn:
        _refuse(self._name, node.start_mark, why)


class _Writer(yaml.SafeDumper):
    """Quotes texts that a reader of YAML 1.1 or 1.2 would take for something else, and writes no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


for _pattern in (_FLOAT, _INT):
    _Writer.add_implicit_resolver(_TAGS + "float", re.compile(f"^(?:{_pattern.pattern})$"), list("-+.0123456789"))


def write_yaml(value: Any, *, width: int = 80, short_lines: bool = False) -> str:
    """Return YAML for a value of JSON, mappings in their order.

    Args:
        width: characters of a line, if possible.
        short_lines: whether lists and mappings of plain values stand on one line each.
    """
    flow = None if short_lines else False
    return yaml.dump(value, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=width, default_flow_style=flow)
