"""The points of a sweep: the base settings with a point's values, and the name of the config that this is. Pure."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from search_spaces.distributions import Categorical
from search_spaces.space import SearchSpace
from search_spaces.written_numbers import as_written
from sweep_service.sweep.own_trainer import OwnConfig, OwnTrainer, Trained
from trainers.config import CountdownTask, TrainingConfig, with_params


class BoundPoint(NamedTuple):
    """A point of a sweep, made once and passed on: its parameters, what is trained there, and its name."""

    params: dict[str, Any]
    """The value that each parameter of the space has in the training; a whole value by its name.

    None where the training has no such setting, or a whole value that has no name.
    """
    training: Trained
    content: dict[str, Any]
    """The training as JSON, without its seed."""
    id: str
    """Hash of the content: the same point has one name everywhere."""


class BoundSpace:
    """A search space on the base settings of a sweep. Each point is bound once, however many checks and plans ask."""

    def __init__(
        self,
        space: SearchSpace,
        training: Mapping[str, Any],
        trainer: OwnTrainer | None = None,
        apart_from: Sequence[str] = (),
    ) -> None:
        """Take a spec's space and base settings, the trainer that reads them, and the names of its benchmarks."""
        self.space, self._trainer, self._apart_from = space, trainer, apart_from
        self.training: Mapping[str, Any] = as_written(training)
        self._bound: dict[str, Trained] = {}

    def document(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the base settings with these values. Raises: ValueError, if a name leads through a value."""
        return with_params(self.training, as_written(self.space.whole(params)))

    def bind(self, params: Mapping[str, Any]) -> Trained:
        """Return what is trained with these values, kept apart from the sweep's benchmarks.

        Raises: ValueError, as `document`; ValidationError, if training refuses them.
        """
        key = repr(sorted(params.items()))  # in which 1, 1.0 and true differ
        if key not in self._bound:
            self._bound[key] = self._trained(self.document(params))
        return self._bound[key]

    def _trained(self, document: dict[str, Any]) -> Trained:
        if self._trainer is not None:
            return OwnConfig(command=self._trainer.command, steps=self._trainer.steps, settings=document)
        training = TrainingConfig.model_validate(document)
        if not self._apart_from or isinstance(training.task, CountdownTask):
            return training
        names = tuple(dict.fromkeys((*training.task.apart_from, *self._apart_from)))
        return training.model_copy(update={"task": training.task.model_copy(update={"apart_from": names})})

    def point(self, training: Trained) -> BoundPoint:
        """Return the point that a training is: one of the space's, or a baseline beside them."""
        params = {name: self._value_of(name, setting(training, name)) for name in self.space.names}
        content = training.model_dump(mode="json", exclude={"seed"})
        return BoundPoint(params, training, content, f"cfg_{digest(content)[:12]}")

    def _value_of(self, name: str, read: Any) -> Any:
        text = json.dumps(read, sort_keys=True)
        for choice, value in self._whole_values.get(name, ()):
            if value == text:
                return choice
        names = dict(self._whole_values.get(name, ()))  # a plain value of this name is another one
        return None if isinstance(read, dict | list) or read in names else read

    @cached_property
    def _whole_values(self) -> dict[str, list[tuple[str, str]]]:
        """Names of whole values, with the values as a training reads them, as JSON (1 is not true), by parameter."""
        first = next(self.space.corners())

        def read(name: str, choice: str) -> str:
            return json.dumps(setting(self.bind({**first, name: choice}), name), sort_keys=True)

        return {
            name: [(choice, read(name, choice)) for choice in distribution.values]
            for name, distribution in self.space.root.items()
            if isinstance(distribution, Categorical) and distribution.values
        }


def setting(training: Trained, name: str) -> Any:
    """Read a dotted name; None where this training has no such setting (a DAPO baseline has no beta1)."""
    if isinstance(training, OwnConfig):
        return dotted(training.settings, name)
    if name == "loss.epsilon":  # sets both bounds, and is read back where they are equal
        low, high = setting(training, "loss.epsilon_low"), setting(training, "loss.epsilon_high")
        return low if low == high else None
    return dotted(training, name)


def dotted(node: Any, name: str) -> Any:
    """Read a dotted name in models or mappings inside each other, as JSON; None where it leads nowhere."""
    for key in name.split("."):
        if isinstance(node, BaseModel):
            node = getattr(node, key) if key in type(node).model_fields else (node.model_extra or {}).get(key)
        else:
            node = node.get(key) if isinstance(node, dict) else None
    return to_jsonable_python(node)


def digest(value: object) -> str:
    """Return the hash of a value of JSON in its canonical form."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
