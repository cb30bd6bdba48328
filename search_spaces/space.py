"""A search space: dotted parameter names, the distribution of each, and the points they span."""

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, cast

from pydantic import BeforeValidator, ConfigDict, JsonValue, RootModel, field_validator
from pydantic_core import PydanticCustomError

from search_spaces.distributions import Base, Distribution, Scalar

Point = dict[str, Scalar]

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_TYPES = ("float", "int", "categorical", "fixed")
_OF_RANGES = {"type", "distribution", "low", "high", "min", "max", "log", "step", "choices", "values", "value"}
"""Names in mappings that are meant as distributions, here or by other tuners."""
_MAX_NAMES = 64
_MAX_CORNERS = 256


def _expand(value: object) -> object:
    """Read a bare list as categorical and a bare value as fixed."""
    if isinstance(value, Mapping):
        kind = cast("Mapping[str, object]", value).get("type")
        if kind is None and (inner := _inner_name(value)):
            words = "a group is varied by the dotted names of its settings, as in GROUP.{inner}"
            raise PydanticCustomError("group_in_space", words, {"inner": inner})
        if kind not in _TYPES:
            raise ValueError(
                f"{'there is no type' if kind is None else f'the type is {kind!r}'}, but a distribution's type is "
                f"{', '.join(_TYPES)}; a bare value means fixed and a bare list categorical"
            )
    if isinstance(value, Mapping | Base):
        return cast("object", value)
    if isinstance(value, list | tuple):
        return {"type": "categorical", "choices": value}
    return {"type": "fixed", "value": value}


def _inner_name(value: object) -> str:
    """Return the dotted name to which a mapping leads that is no distribution; empty if it is one, or is empty."""
    names = list[str]()
    while isinstance(value, Mapping) and value and not _OF_RANGES & value.keys():
        name, value = next(iter(cast("Mapping[object, object]", value).items()))
        names.append(str(name))
    return ".".join(names)


Entry = Annotated[
    Distribution,
    BeforeValidator(
        _expand, json_schema_input_type=Distribution | list[Scalar | dict[str, JsonValue] | list[JsonValue]] | Scalar
    ),
]


class SearchSpace(RootModel[dict[str, Entry]]):
    """Dotted name -> distribution, such as {"loss.beta1": [0, 0.5, 1], "loss.epsilon": {type: float, ...}}.

    Names are kept in alphabetical order, so that a grid's order and a sampler's draws depend on the content only.
    """

    model_config = ConfigDict(frozen=True)

    @field_validator("root")
    @classmethod
    def _names(cls, root: dict[str, Any]) -> dict[str, Any]:
        if len(root) > _MAX_NAMES:
            raise ValueError(f"{len(root)} parameters are more than {_MAX_NAMES}")
        for name in root:
            if not _NAME.fullmatch(name):
                raise ValueError(
                    f"{name!r} is not a dotted name such as loss.beta1: letters, digits, _, and dots between"
                )
            if inner := [other for other in root if other.startswith(name + ".")]:
                raise ValueError(f"{name} is set as a whole, so {inner[0]} cannot be set too; remove one")
        return dict(sorted(root.items()))

    @property
    def names(self) -> tuple[str, ...]:
        """All parameter names, in alphabetical order."""
        return tuple(self.root)

    @property
    def varied(self) -> tuple[str, ...]:
        """Names of the parameters that take more than one value."""
        return tuple(name for name, distribution in self.root.items() if distribution.size != 1)

    @property
    def size(self) -> int | None:
        """Number of points; None for a continuum."""
        sizes = [distribution.size for distribution in self.root.values()]
        return None if None in sizes else math.prod(size for size in sizes if size is not None)

    def grid_size(self) -> int:
        """Return how many points the grid has, without making them.

        Raises: ValueError, naming every parameter that is a continuum.
        """
        size = self.size
        if size is None:
            names = ", ".join(name for name, distribution in self.root.items() if distribution.size is None)
            raise ValueError(f"a grid needs a step, or a list of values, for {names}")
        return size

    def point(self, index: int) -> Point:
        """Return point number `index` of the grid; the last name changes fastest."""
        if not 0 <= index < self.grid_size():
            raise IndexError(f"the grid has points 0 to {self.grid_size() - 1}, not {index}")
        values: Point = {}
        for name in reversed(self.names):
            distribution = self.root[name]
            assert distribution.size is not None
            index, digit = divmod(index, distribution.size)
            values[name] = distribution.at(digit)
        return {name: values[name] for name in self.names}

    def grid(self) -> Iterator[Point]:
        """Yield every point, in order. Raises: ValueError, as `grid_size`."""
        return (self.point(index) for index in range(self.grid_size()))

    def corners(self) -> Iterator[Point]:
        """Yield points that together hold every edge value, to check whether training accepts them.

        These are all combinations of edges if they are few; otherwise the point of all first edges, that of all last
        edges, and each edge with the first edges of the others.
        """
        edges = {name: distribution.edges for name, distribution in self.root.items()}
        if math.prod(len(values) for values in edges.values()) <= _MAX_CORNERS:
            for values in itertools.product(*edges.values()):
                yield dict(zip(edges, values, strict=True))
            return
        first = {name: values[0] for name, values in edges.items()}
        yield first
        yield {name: values[-1] for name, values in edges.items()}
        for name, values in edges.items():
            for value in values[1:]:
                yield first | {name: value}

    def whole(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Return a point, or a part of one, with whole values in place of their names."""
        return {name: self.root[name].whole(value) if name in self.root else value for name, value in point.items()}

    def contains(self, point: Mapping[str, object]) -> bool:
        """Say whether the mapping has exactly this space's names, each with one of its values."""
        return point.keys() == self.root.keys() and all(
            distribution.contains(point[name]) for name, distribution in self.root.items()
        )
