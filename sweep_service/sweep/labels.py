"""Names of configs, parameters and values for people: the one home of short names.

The report, MLflow and the status page write `β1=0.5`; the command line writes `beta1=0.5`, as specs do.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sweep_service.sweep.objective import same_objective
from sweep_service.sweep.points import dotted
from sweep_service.sweep.records import Config, Event, Role

_SHORT: Final = {
    "loss.beta1": "β1",
    "loss.beta2": "β2",
    "loss.epsilon": "ε",
    "loss.epsilon_low": "ε_low",
    "loss.epsilon_high": "ε_high",
    "optimizer.learning_rate": "lr",
}
_BETAS: Final = ("loss.beta1", "loss.beta2")
_OF_A_GROUP: Final = ("alpha", "base", "coefficient", "delta", "factor", "level", "rank", "share", "target", "weight")
"""Last parts of names that say nothing without the group before them."""
ROLE_NAMES: Final = {Role.BASELINE: "baseline", Role.DAPO: "DAPO", Role.MATCHED: "matched"}
"""Names of the comparators; a point of the space has no such name."""


_LEADING: Final = (Role.BASELINE, Role.DAPO, Role.SPACE, Role.MATCHED)
"""Roles by which a config is named, the first of its own first: a point may be the best one's matched baseline, too."""


def short_name(name: str) -> str:
    """Shorten a dotted name: `loss.beta1` to `β1`, others to their last part."""
    return _SHORT.get(name) or _last_part(name)


def _last_part(name: str) -> str:
    """Shorten a dotted name to its telling part: `loss.beta1` to `beta1`, but `loss.name` to `loss`, and
    `terms.kl.coefficient` to `kl.coefficient`; a sweep is about the loss, whose settings need no group.
    """
    *path, last = name.split(".")
    if path and last in ("name", "mode"):
        return path[-1]
    return f"{path[-1]}.{last}" if path not in ([], ["loss"]) and last in _OF_A_GROUP else last


def short_names(names: Collection[str], shorten: Callable[[str], str] = short_name) -> dict[str, str]:
    """Shorten dotted names; those that would be the same are written in full."""
    short = Counter(map(shorten, names))
    return {name: last if short[last := shorten(name)] == 1 else name for name in names}


def params_text(params: Mapping[str, Any]) -> str:
    """Write parameters as the command line does: `beta1=0.5 beta2=1`; those without a value are left out."""
    values = {name: value for name, value in params.items() if value is not None}
    names = short_names(values, _last_part)
    return " ".join(f"{names[name]}={plain_value(value)}" for name, value in values.items())


def plain_value(value: Any) -> str:
    """Write a value as the command line does: six digits of a number, JSON for what has parts."""
    if isinstance(value, float):
        return f"{value:g}"
    return json.dumps(value, separators=(",", ":")) if isinstance(value, Mapping | list) else _bare(value)


def _bare(value: Any) -> str:
    """Write a text so that it shows where it begins and ends, null and truth values as YAML has them."""
    text = json.dumps(value) if value is None or isinstance(value, bool) else str(value)
    return text if text and text == " ".join(text.split()) else json.dumps(text, ensure_ascii=False)


def params_texts(configs: Sequence[Config]) -> dict[str, str]:
    """Return by config id the parameters that tell each config from the others, as `params_text` writes them."""
    return _told_apart({id_: params_text(params) for id_, params in telling_params(configs).items()}, configs)


def config_labels(configs: Sequence[Config], varied: Sequence[str]) -> dict[str, str]:
    """Return the `config_label` of each of a sweep's configs by its id; no two have the same."""
    return _told_apart({config.id: config_label(config, varied) for config in configs}, configs)


def _told_apart(texts: Mapping[str, str], configs: Sequence[Config]) -> dict[str, str]:
    """Add to texts that several configs share the settings in which these differ, in all digits; by config id."""
    alike: dict[str, list[Config]] = {}
    for config in configs:
        alike.setdefault(texts[config.id], []).append(config)
    apart = dict(texts)
    for text, group in alike.items():
        names = differing_names([config.settings for config in group]) if len(group) > 1 else []
        for config in group if len(group) > 1 else ():
            values = ", ".join(f"{_last_part(name)}={dotted(config.settings, name)!r}" for name in names)
            apart[config.id] = f"{text} ({values or f'config {config.number}'})".lstrip()
    return apart


def telling_params(configs: Sequence[Config]) -> dict[str, dict[str, Any]]:
    """Return by config id the parameters of each config, and all other settings in which it differs from others.

    Settings in which configs differ only because few of them have another loss, such as the DAPO baseline's, are told
    of these few.
    """
    losses = Counter(_loss(config) for config in configs)
    usual = max(losses, key=lambda loss: losses[loss], default=None)
    among_usual = differing_names([config.settings for config in configs if _loss(config) == usual])
    among_all = differing_names([config.settings for config in configs])
    return {
        config.id: _with_settings(config, among_usual if _loss(config) == usual else among_all) for config in configs
    }


def _loss(config: Config) -> str | None:
    return config.training.get("loss", {}).get("name")


def differing_names(trainings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the dotted names of the settings that differ between trainings, or between the groups of them.

    Variants of a group, such as losses, have settings of their own: these are compared where they are. In one variant a
    setting that is left out has a default, such as a reward's own.
    """
    names: list[str] = []
    one_variant = all(_variant(training) == _variant(trainings[0]) for training in trainings)
    for key in dict.fromkeys(key for training in trainings for key in training):
        having = trainings if one_variant else [training for training in trainings if key in training]
        values: list[Any] = [training.get(key) for training in having]
        if all(isinstance(value, Mapping) for value in values):
            names += [f"{key}.{name}" for name in differing_names(values)]
        elif any(value != values[0] for value in values):
            names.append(key)
    return names


def _variant(group: Mapping[str, Any]) -> tuple[Any, Any]:
    return group.get("name"), group.get("mode")


def _with_settings(config: Config, names: Sequence[str]) -> dict[str, Any]:
    """Return a config's parameters, and those of the named settings that they do not tell; a loss first."""
    told = {name: value for name, value in config.params.items() if value is not None}
    both_bounds = ("loss.epsilon_low", "loss.epsilon_high") if "loss.epsilon" in told else ()
    for name in names:
        if any(param.startswith(f"{name}.") for param in config.params) or _is_inside(name, told):
            continue
        if (value := dotted(config.settings, name)) is not None and name not in both_bounds:
            told.setdefault(name, value)
    return dict(sorted(told.items(), key=lambda item: item[0] != "loss.name"))


def _is_inside(name: str, told: Mapping[str, Any]) -> bool:
    """Tell whether a setting belongs to a whole value that is told by its name."""
    return any(name.startswith(f"{param}.") for param in told)


def parameters(config: Config) -> dict[str, Any]:
    """Return a config's parameters by dotted name, with its betas even if the space leaves them alone."""
    loss = config.training.get("loss", {})
    told = {name: value for name, value in config.params.items() if value is not None or Role.SPACE in config.roles}
    betas = {name: loss[last] for name in _BETAS if (last := name.rpartition(".")[2]) in loss}
    return {name: value for name, value in betas.items() if not _is_inside(name, told)} | told


def varied_names(configs: Sequence[Config]) -> list[str]:
    """Return the parameters in which configs, baselines included, differ; the space's if they differ in none."""
    values: dict[str, set[str]] = {}
    for config in configs:
        for name, value in parameters(config).items():
            values.setdefault(name, set()).add(repr(value))
    varied = [name for name, texts in values.items() if len(texts) > 1]
    return varied or list(dict.fromkeys(name for config in configs for name in config.params))


def names_to_show(varied: Sequence[str]) -> list[str]:
    """Return the parameters that name a config while others are still to come: both betas and what the space varies."""
    return list(dict.fromkeys((*_BETAS, *varied)))


def config_label(config: Config, varied: Sequence[str]) -> str:
    """Name a config by its values, such as `β1=0.5 β2=1`; a comparator by its role, too: `baseline β1=0 β2=0`."""
    params = parameters(config)
    names = short_names(varied)
    values = [f"{names[name]}={value_text(params[name])}" for name in varied if name in params]
    if Role.DAPO in config.roles and Role.SPACE not in config.roles:
        return "DAPO"  # clip-higher; the space's betas do not apply to it
    role = next(role for role in _LEADING if role in config.roles)
    lead = [ROLE_NAMES[role]] if role in ROLE_NAMES else []
    if lead and not values and not config.is_own:  # nothing that varies says what it is
        betas = [f"{short_name(name)}={value_text(params[name])}" for name in _BETAS if name in params]
        values = betas or [f"loss={config.training['loss']['name']}"]
    return " ".join([*lead, *values]) or f"config {config.number}"


def value_text(value: Any) -> str:
    """Write a parameter's value, such as 0.5, 2e-4 or dapo."""
    if isinstance(value, float):
        text = f"{value:.3e}" if 0 < abs(value) < 1e-3 else f"{value:.4g}"
        mantissa, _, exponent = text.partition("e")
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        return f"{mantissa}e{int(exponent)}" if exponent else mantissa
    return _bare(value)


def equals_text(equal: int, configs: int, *, diverged: bool = False) -> str:
    """Say in a sentence how many other configs have exactly the objective of the best one; empty if none has.

    Args:
        equal: number of configs that have it, the best one included.
        configs: number of configs that have an objective at all.
        diverged: true if all trials that have an objective diverged.
    """
    if diverged:
        return "every trial with a result diverged, so no config is the best"
    if equal < 2:
        return ""
    if equal == configs:
        whole = "both" if configs == 2 else f"all {configs}"
        return f"{whole} configs have exactly the same objective, so none is the best"
    others = f"{equal - 1} other configs have" if equal > 2 else "another config has"
    return f"{others} exactly the same objective"


def behind_text(objective: float, baseline: float | None) -> str:
    """Say that the baseline has a higher objective than the best config of the space; empty if it has not."""
    if baseline is None or baseline <= objective or same_objective(baseline, objective):
        return ""
    return f"but the baseline has {baseline:.4f}, which is more"


@dataclass
class Phases:
    """The phases of a sweep's trials before their first update, and of its cost probe, by its events."""

    of_trials: dict[str, str] = field(default_factory=dict)
    """Newest phase of each trial by its id, such as `warm start 63/2400`; the latest news last."""
    of_probe: str | None = None
    """None while no probe runs."""

    def take(self, event: Event) -> None:
        """Follow the sweep's next event."""
        data = event.data
        match event.type:
            case "trial.progress":
                counted = f" {data['done']}/{data['total']}" if data["total"] > 1 else ""
                self.of_trials.pop(data["trial_id"], None)  # the trial that told last comes last
                self.of_trials[data["trial_id"]] = f"{data['phase']}{counted}"
            case "probe.started":
                self.of_probe = "starting"
            case "probe.progress":
                self.of_probe = str(data["phase"])
            case "probe.finished" | "probe.reused":
                self.of_probe = None
            case _:
                pass


def explained(phase: str) -> str:
    """Return the phase of a trial in a sentence that tells what a warm start is."""
    return f"{phase}: supervised training makes the model before the first update" if "warm start" in phase else phase


def telling_phase(phases: Sequence[str]) -> str | None:
    """Return the phase that says most of a sweep's trials: the first that does not wait for another trial's."""
    return min(phases, key=lambda phase: phase.startswith("waiting"), default=None)
