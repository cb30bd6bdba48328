"""Turns errors of a configuration into sentences, with the names that the document uses; a few of each kind."""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ValidationError

from trainers.config.base import NAME_RULE
from trainers.config.field_words import choice_meant, note_on, setting_meant, written, written_otherwise
from trainers.config.setting_schemas import setting_schemas

Place = tuple[str | int, ...]
"""Names of groups and settings, and positions in lists, that lead to something in a document."""

MOST_COMPLAINTS: Final = 50
"""Kinds of mistakes that are told of one document; nobody reads more before mending these."""
_MOST_OF_A_LIST: Final = 3
"""Entries of one list that are told to be wrong in one way."""
_MOST_OF_A_GROUP: Final = 6
"""Settings that are named where a group was given as one value."""
_MOST_SIMILAR: Final = 3
"""Settings that a misspelt name may mean."""
_SIMILAR: Final = 0.6
"""Likeness of two names, from 0 to 1, from which on one may be the other, misspelt."""
_ALMOST_SAME: Final = 0.9
"""Likeness from which on it surely is."""
_SAME: Final = 1.0
"""Likeness of one name."""
_NEARER: Final = 0.12
"""Likeness that a name of the same group has in advance."""
_LONGEST_DETAIL: Final = 400
"""Characters of a sentence, which may repeat what somebody wrote."""
_LONGEST_NAME: Final = 60
"""Characters of a name for which a similar one is looked for; no setting's name is half as long."""


class Complaint(NamedTuple):
    """One thing that is wrong; `path` leads to it in the document, and is empty for the document as a whole."""

    path: Place
    detail: str
    given: str | None = None
    """The value that the detail is about, shortened."""
    unknown: bool = False
    """True if there is no such setting, whatever its value."""

    @property
    def sentence(self) -> str:
        """The detail with the value."""
        return self.detail if self.given is None else f"{self.detail} (given: {self.given})"


@dataclass(frozen=True, eq=False)
class Settings:
    """All settings of a model."""

    owners: Mapping[str, Sequence[str]]
    """Tags of the variants that have a setting (such as losses), by its dotted name."""
    around: "Settings | None" = None
    """Settings of the document that this one is a part of, which may be meant."""
    around_stays: bool = False
    """True if those around cannot be changed with this document, which is told then what can."""

    @cached_property
    def by_last_part(self) -> Mapping[str, Sequence[str]]:
        """Dotted names by their last part."""
        names: dict[str, list[str]] = {}
        for dotted in self.owners:
            names.setdefault(dotted.rpartition(".")[2], []).append(dotted)
        return names


def complaints(error: ValidationError, raw: object, settings: Settings) -> list[Complaint]:
    """Turn pydantic's errors into sentences; beyond `MOST_COMPLAINTS` kinds of them, say how many more there are.

    Args:
        raw: document that was validated.
        settings: all settings there are, from `settings_of`.
    """
    kinds: dict[tuple[Place, str], dict[Place, Any]] = {}
    for item in error.errors(include_url=False):
        if item["type"] == "too_short" and len(item["input"]) >= item.get("ctx", {})["min_length"]:
            continue  # only because entries were refused, which is told
        if item["type"] == "default_factory_not_called":
            continue  # only because of another setting, which is told
        path, written = _place_and_value(raw, item["loc"], item["type"] == "missing")
        if isinstance(written, bool | int | float | str):
            item["input"] = written  # models may have replaced it
        whole = path[:-1] if path and isinstance(path[-1], int) else path  # entries of a list are wrong together
        kind = _PLAIN_VALUE if _is_of_plain_type(item) else item["type"]
        kinds.setdefault((whole, kind), {}).setdefault(path, item)
    sentences = list[Complaint]()
    for (whole, _), items in islice(kinds.items(), MOST_COMPLAINTS):
        sentences += [_complaint(path, item, settings) for path, item in islice(items.items(), _MOST_OF_A_LIST)]
        if (more := len(items) - _MOST_OF_A_LIST) > 0:
            sentences.append(Complaint(whole, f"{more} more entries of this list are wrong in the same way"))
    if (more := len(kinds) - MOST_COMPLAINTS) > 0:
        sentences.append(Complaint((), f"and {more} more mistakes, which are told once these are mended"))
    return sentences


def _complaint(path: Place, item: Any, settings: Settings) -> Complaint:
    value = item["input"]
    if item["type"] == "extra_forbidden":
        inner, value = _only_names(value)
        return Complaint(path, _unknown(path, inner, _short_text(value), settings), unknown=True)
    plainer = _PLAIN_VALUE if _is_of_plain_type(item) else _PLAINER.get(item["type"])
    group = next((part for part in reversed(path) if isinstance(part, str)), "kind")
    detail = (
        plainer.format(**item.get("ctx", {}), group=group) if plainer else item["msg"].removeprefix("Value error, ")
    )
    detail += _hint(path, item, settings)
    if not isinstance(value, str | int | float):
        return Complaint(path, shortened(detail, _LONGEST_DETAIL))
    if isinstance(value, bool):
        value = str(value).lower()  # as JSON and YAML have it
    if item["type"] == "string_pattern_mismatch" and "/" in str(value):
        detail += _NO_PATH
    return Complaint(path, shortened(detail, _LONGEST_DETAIL), given=shortened(str(value), 100))


def _is_of_plain_type(item: Any) -> bool:
    """Say whether a plain type of a union complains, as each of them does; a group of the same name has words."""
    return item["loc"][-1:] in _PLAIN_TYPES and item["type"] != "value_error"


def shortened(text: str, most: int) -> str:
    """Return at most so many characters, the last of them `…` if some are left out."""
    return text if len(text) <= most else text[: most - 1] + "…"


_PLAIN_TYPES: Final = (("bool",), ("int",), ("float",), ("str",))
_PLAIN_VALUE: Final = "a number, a text, true, false or null is needed"
_NO_PATH: Final = "; models and data are named as in the catalog: `sweeps models add`, `sweeps models ls`"
_PLAINER: Final = {
    "missing": "this is required",
    "float_type": "a number is needed",
    "float_parsing": "a number is needed",
    "int_type": "a whole number is needed",
    "int_parsing": "a whole number is needed",
    "int_from_float": "a whole number is needed",
    "string_type": "a text is needed",
    "too_long": "at most {max_length} are allowed, and these are {actual_length}",
    "too_short": "at least one value is needed",
    "tuple_type": "a list is needed",
    "dict_type": "a mapping is needed",
    "bool_type": "true or false is needed",
    "model_attributes_type": "a mapping is needed",
    "model_type": "a mapping is needed",
    "group_in_space": "a group is varied by the dotted names of its settings; write {group}.{inner}: …",
    "union_tag_not_found": "{discriminator} is missing, which says what the rest means",
    "union_tag_invalid": "there is no {group} '{tag}'; there are {expected_tags}",
    "string_pattern_mismatch": NAME_RULE,
}


@cache
def settings_of(model: type[BaseModel]) -> Settings:
    """Return all settings of a model. It takes milliseconds, so each model's are found once."""
    owners: dict[str, list[str]] = {}
    for name, variant, _, _ in setting_schemas(model):
        if "[]" not in name:
            owners.setdefault(name, []).extend([variant] if variant else [])
    return Settings(owners)


def _place_and_value(raw: object, location: Place, missing: bool) -> tuple[Place, object]:
    """Return the path in the document, and the value there.

    Dropped from pydantic's location is what is not in the document: tags of unions, fields of short forms.

    Args:
        missing: whether the last part is a key that the document lacks.
    """
    path: list[str | int] = []
    for index, part in enumerate(location):
        if isinstance(raw, Mapping) and (part in raw or (missing and index == len(location) - 1)):
            raw = raw.get(part)
        elif isinstance(raw, list | tuple) and isinstance(part, int) and part < len(raw):
            raw = raw[part]
        else:
            continue
        path.append(part)
    return tuple(path), raw


def _only_names(value: object) -> tuple[Place, object]:
    """Return the names that lead into a mapping as far as it has one name alone, and the value there."""
    names: Place = ()
    while isinstance(value, Mapping) and len(value) == 1:
        ((name, value),) = value.items()
        names += (str(name),)
    return names, value


@lru_cache(maxsize=1000)
def _unknown(path: Place, inner: Place, value: str | None, settings: Settings) -> str:
    """Say that there is no such setting, and which one is probably meant.

    Args:
        inner: names below it, as far as there is one alone.
        value: what it was set to, if that is a short text.
    """
    *groups, last = map(str, path)
    if "." in last and last in settings.owners:
        return f"dotted names stand in a space and on a command line; nest it here: {written(last, '…')}"
    if owners := settings.owners.get(".".join([*groups, last])):
        return f"only {', '.join(dict.fromkeys(owners))} {'have' if len(set(owners)) > 1 else 'has'} this setting"
    whole = tuple(".".join(map(str, (*path, *inner))).split("."))
    if meant := _meant(groups, last, whole, value, settings, _ALMOST_SAME):
        return f"there is no such setting; did you mean {meant}?"
    beside = [dotted for dotted in settings.owners if dotted.split(".")[:-1] == groups]
    if settings.around and (meant := _meant((), last, whole, value, settings.around, _SAME)):
        if settings.around_stays:
            return f"{meant} of the spec stays as it is; here one gives {', '.join(beside)}"
        return f"there is no such setting here; did you mean {meant} of the spec?"
    if meant := _meant(groups, last, whole, value, settings, _SIMILAR):
        return f"there is no such setting; did you mean {meant}?"
    return "there is no such setting" + (f"; there are {', '.join(beside)}" if beside else "")


def similar_names(groups: Sequence[str], word: str, settings: Settings, least: float = _SIMILAR) -> Sequence[str]:
    """Return the dotted names of settings that are called almost like the word; those of its own groups come first.

    Args:
        least: likeness of a name that is looked for, from 0 to 1.
    """
    word, group = word.lower(), ".".join(groups)
    beside = {name.rpartition(".")[2]: [name] for name in settings.owners if name.rpartition(".")[0] == group}
    alike = [
        (difflib.SequenceMatcher(None, close, word).ratio() + more, name)
        for pool, more in ((beside, _NEARER), (settings.by_last_part, 0))
        if len(word) <= _LONGEST_NAME
        for close in reversed(difflib.get_close_matches(word, pool, cutoff=max(_SIMILAR, least - more)))
        for name in pool[close]
        if name != group
    ]
    most = max((likeness for likeness, _ in alike), default=0)
    return [name for likeness, name in alike if likeness == most][:_MOST_SIMILAR]


def _meant(
    groups: Sequence[str], word: str, whole: Sequence[str], value: str | None, settings: Settings, least: float
) -> str | None:
    """Return the setting that a word of the field, or a name so much like it, stands for; several if all are alike."""
    name = _in_like_group(whole, settings) or setting_meant(word, settings.owners)
    if name is None:
        names = similar_names(groups, word, settings, least)[: 1 if word in settings.by_last_part else _MOST_SIMILAR]
        if len(names) != 1:
            return " or ".join(map(repr, names)) or None
        name = names[0]
    name, _, choice = name.partition("=")
    if not choice and value and (tag := _tag(name, settings)):
        meant = choice_meant(value, tuple(settings.owners[tag]))
        name, choice = (tag, meant) if meant else (name, "")
    text = f"{name!r}, as in {written(name, choice)}" if choice else repr(name)
    note = note_on(name)
    return f"{text} ({note})" if note else text


def _in_like_group(parts: Sequence[str], settings: Settings) -> str | None:
    """Return the setting that the last part means, in a group that is called almost like the part before it."""
    *groups, word = parts
    meant = setting_meant(word, settings.owners) or word.lower()
    last = meant.rpartition(".")[2]
    by_group = {("training", *name.split("."))[-2]: name for name in reversed(settings.by_last_part.get(last, ()))}
    group = groups[-1].lower() if groups and len(groups[-1]) <= _LONGEST_NAME else ""
    return next((by_group[close] for close in difflib.get_close_matches(group, by_group, n=1)), None)


def _tag(group: str, settings: Settings) -> str | None:
    """Return the dotted name of the setting that names a group's variant, perhaps `group` itself; None if none does."""
    own = [group] if group.endswith((".name", ".mode")) else []
    return next((tag for tag in (*own, f"{group}.name", f"{group}.mode") if settings.owners.get(tag)), None)


def _hint(path: Place, item: Any, settings: Settings) -> str:
    """Return the end of a complaint about a text: the choice or the group that the text may stand for."""
    context = item.get("ctx", {})
    word = _short_text(context.get("tag", item["input"]))
    if item["type"] in ("model_type", "model_attributes_type"):
        return _group_hint(path, word, settings)
    if word is None:
        return ""
    choices = tuple(re.findall("'([^']*)'", str(context.get("expected_tags") or context.get("expected"))))
    meant = choice_meant(word, choices)
    hint = f"did you mean {meant!r}?" if meant else written_otherwise(word, choices)
    return f"; {hint}" if hint else ""


@lru_cache(maxsize=1000)
def _group_hint(path: Place, word: str | None, settings: Settings) -> str:
    """Return the group of settings to write in place of one value."""
    group = ".".join(part for part in path if isinstance(part, str))
    tag = _tag(group, settings)
    choices = tuple(settings.owners[tag]) if tag else ()
    if word and tag and (meant := choice_meant(word, choices)):
        return f": {{{tag.rpartition('.')[2]}: {meant}}}"
    if word and (hint := written_otherwise(word, choices)):
        return f"; {hint}"
    inside = (name.removeprefix(f"{group}.") for name in settings.owners if name.startswith(f"{group}."))
    names = list(dict.fromkeys(name for name in inside if "." not in name))
    more = ", …" if len(names) > _MOST_OF_A_GROUP else ""
    return f" of {', '.join(names[:_MOST_OF_A_GROUP])}{more}" if names else ""


def _short_text(value: object) -> str | None:
    return value if isinstance(value, str) and len(value) <= _LONGEST_NAME else None
