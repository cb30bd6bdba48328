"""What a sweep is: one `SweepSpec` for REST, CLI and Python, and the check that it can run.

`parse_spec` reports everything that is wrong at once: the spec's own fields, the base training configuration, names
of the space that training does not know, and corner points of the space that training refuses.
"""

import difflib
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from search_spaces.presets import PRESETS
from search_spaces.space import SearchSpace
from sweep_service.errors import InvalidSpec, SpecError
from trainers.config import TrainingConfig, with_params

Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$")]
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class Part(BaseModel):
    """Base of every part of a spec: immutable, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Search(Part):
    """Who proposes the next config."""

    strategy: Literal["grid", "random", "tpe"] = "grid"
    num_configs: int | None = Field(None, ge=1, le=10_000, description="For random and tpe: how many to try.")
    seed: Seed = 0

    @model_validator(mode="after")
    def _count(self) -> Self:
        if self.strategy == "grid" and self.num_configs is not None:
            raise ValueError("a grid tries every point; leave num_configs out, or use strategy random or tpe")
        if self.strategy != "grid" and self.num_configs is None:
            raise ValueError(f"strategy {self.strategy} needs num_configs: how many configs to try")
        return self


class Confirm(Part):
    """The stage that measures the best configs and the baselines on fresh seeds."""

    top_k: int = Field(2, ge=1, le=100, description="How many of the tuned configs are confirmed.")
    seeds: tuple[Seed, ...] = Field(min_length=1, max_length=1000)


class Seeds(Part):
    """Training seeds of each stage; every config gets the same ones, so that differences are paired."""

    tune: tuple[Seed, ...] = Field((0, 1), min_length=1, max_length=1000)
    confirm: Confirm | None = None

    @model_validator(mode="after")
    def _disjoint(self) -> Self:
        confirm = self.confirm.seeds if self.confirm else ()
        for stage, seeds in (("tune", self.tune), ("confirm", confirm)):
            if len(set(seeds)) < len(seeds):
                raise ValueError(f"{stage} seeds repeat: {list(seeds)}")
        if shared := sorted(set(self.tune) & set(confirm)):
            raise ValueError(f"seeds {shared} are in both stages; a config chosen on a seed cannot be confirmed on it")
        return self


class Baselines(Part):
    """What every sweep is compared with, beside its own configs."""

    ppo_clip: bool = Field(True, description="The base parameters with PPO-clip's gradient (beta1 = beta2 = 0).")
    dapo: bool = Field(True, description="The base parameters with DAPO's clip-higher loss.")
    matched: bool = Field(True, description="In the confirm stage: the chosen config with beta1 = beta2 = 0.")


class Objective(Part):
    """The one number by which configs are ranked, from a trial's evaluations on validation problems."""

    metric: Literal["eval/avg_at_k", "eval/pass_at_k"] = "eval/avg_at_k"
    last: int = Field(3, ge=1, le=100, description="Mean over the last so many evaluations; never a maximum.")


class Resources(Part):
    """What one trial gets."""

    cpus: float = Field(1, gt=0, le=1024)
    gpus: float = Field(0, ge=0, le=1024, description="Whole GPUs, or a fraction of one.")
    max_parallel: int | None = Field(None, ge=1, le=10_000, description="Trials at a time; default: as many as fit.")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.gpus > 1 and self.gpus != int(self.gpus):
            raise ValueError(f"gpus {self.gpus}: above 1 only whole GPUs can be given to a trial")
        return self


class Retries(Part):
    """What happens after a crash."""

    max_crashes: int = Field(3, ge=0, le=100, description="Crashes after which a trial is given up as failed.")


class SweepSpec(Part):
    """A sweep: what to train, which parameters to vary, on which seeds, with which resources."""

    schema_version: Literal[1] = 1
    name: Name
    labels: dict[Name, Annotated[str, StringConstraints(max_length=200)]] = Field({}, max_length=50)
    training: dict[str, Any] = Field({}, description="TrainingConfig: what differs from its defaults.")
    space: SearchSpace = Field(description="Dotted names of the training configuration, and what values they take.")
    search: Search = Search()
    seeds: Seeds = Seeds()
    baselines: Baselines = Baselines()
    objective: Objective = Objective()
    resources: Resources = Resources()
    retries: Retries = Retries()

    @model_validator(mode="before")
    @classmethod
    def _preset(cls, values: Any) -> Any:
        """Replace `space: {preset: NAME}` by that preset."""
        if isinstance(values, dict) and isinstance(space := values.get("space"), dict) and set(space) == {"preset"}:
            name = space["preset"]
            if name not in PRESETS:
                raise ValueError(f"space: there is no preset {name!r}; there are {', '.join(sorted(PRESETS))}")
            return values | {"space": PRESETS[name]}
        return values

    @property
    def base(self) -> TrainingConfig:
        """The training configuration before the space's values are set."""
        return TrainingConfig.model_validate(self.training)

    def bind(self, params: Mapping[str, Any]) -> TrainingConfig:
        """Return the training configuration of one point of the space."""
        return TrainingConfig.model_validate(with_params(self.training, params))

    @property
    def digest(self) -> str:
        """Hash of the canonical spec."""
        return _digest(self.model_dump(mode="json"))


def config_id(training: TrainingConfig) -> str:
    """Name a point: the hash of all training parameters but the seed. The same point has one name everywhere."""
    return "cfg_" + _digest(training.model_dump(mode="json", exclude={"seed"}))[:12]


def parse_spec(raw: object) -> SweepSpec:
    """Return the spec that `raw` (parsed JSON or YAML) says.

    Raises: InvalidSpec, with every reason why it cannot run.
    """
    errors: list[SpecError] = []
    spec = None
    try:
        spec = SweepSpec.model_validate(raw)
    except ValidationError as error:
        errors += _spec_errors(error, (), SweepSpec, raw)
    training = raw.get("training", {}) if isinstance(raw, Mapping) else {}
    base_errors = _training_errors(training, ("training",))
    errors += base_errors
    if spec is not None and not base_errors:
        errors += _space_errors(spec)
    if errors:
        raise InvalidSpec(errors)
    assert spec is not None
    return spec


def _space_errors(spec: SweepSpec) -> list[SpecError]:
    """Try every value of the space's corner points alone, then the points whole."""
    if "seed" in spec.space.names:
        return [SpecError("/space/seed", "the seed is not a parameter to choose; list the seeds under /seeds")]
    corners = list(spec.space.corners())
    errors = {
        SpecError(_pointer(("space", name)), f"{value!r}: {detail}"): None
        for name in spec.space.names
        for value in _distinct(point[name] for point in corners)
        for detail in _refusals(spec, {name: value})
    }
    if not errors:
        for point in corners:
            for detail in _refusals(spec, point):
                errors[SpecError("/space", f"the point {json.dumps(point)} cannot run: {detail}")] = None
    return list(errors)


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list({json.dumps(value): value for value in values}.values())


def _refusals(spec: SweepSpec, params: Mapping[str, Any]) -> list[str]:
    """Say why training refuses the base configuration with these parameters set."""
    try:
        raw = with_params(spec.training, params)
    except ValueError as error:
        return [str(error)]
    return [error.detail for error in _training_errors(raw, ())]


def _training_errors(raw: object, prefix: tuple[str, ...]) -> list[SpecError]:
    try:
        TrainingConfig.model_validate(raw)
    except ValidationError as error:
        return _spec_errors(error, prefix, TrainingConfig, raw)
    return []


def _spec_errors(
    error: ValidationError, prefix: tuple[str, ...], model: type[BaseModel], raw: object
) -> list[SpecError]:
    """Turn pydantic's errors into JSON pointers and sentences."""
    found: list[SpecError] = []
    for item in error.errors(include_url=False):
        path = _path_in(raw, item["loc"])
        if item["type"] == "extra_forbidden":
            detail = f"there is no such setting{_did_you_mean(path[-1], model)}"
        else:
            detail = item["msg"].removeprefix("Value error, ")
            value = item.get("input")
            if isinstance(value, str | int | float):
                detail += f" (given: {str(value)[:100]})"
        found.append(SpecError(_pointer((*prefix, *path)), detail))
    return found


def _path_in(raw: object, location: tuple[int | str, ...]) -> list[str]:
    """Drop from pydantic's location what is not in the document: the tags of unions."""
    path: list[str] = []
    for index, part in enumerate(location):
        last = index == len(location) - 1
        if isinstance(raw, Mapping) and (part in raw or last):
            raw = raw.get(part)
        elif isinstance(raw, list | tuple) and isinstance(part, int) and part < len(raw):
            raw = raw[part]
        elif not last or not isinstance(raw, Mapping | list | tuple):
            continue
        path.append(str(part))
    return path


def _did_you_mean(name: str, model: type[BaseModel]) -> str:
    known = sorted(_field_names(model))
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _field_names(model: type[BaseModel]) -> set[str]:
    names = set(model.model_fields)
    for definition in model.model_json_schema().get("$defs", {}).values():
        names |= set(definition.get("properties", {}))
    return names


def _pointer(path: Iterable[str]) -> str:
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in path)


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
