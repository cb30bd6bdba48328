"""Short names of configs and their values: the same in the report, in MLflow and on the status page."""

from collections.abc import Sequence
from typing import Any, Final

from sweep_service.sweep.records import Config, Event, Role
from sweep_service.sweep.spec import last_part

_SHORT: Final = {
    "loss.beta1": "β1",
    "loss.beta2": "β2",
    "loss.epsilon": "ε",
    "loss.epsilon_low": "ε_low",
    "loss.epsilon_high": "ε_high",
    "optimizer.learning_rate": "lr",
}
ROLE_NAMES: Final = {Role.BASELINE: "baseline", Role.DAPO: "DAPO", Role.MATCHED: "matched"}
"""How comparators are called; a point of the space has no such name."""


def short_name(name: str) -> str:
    """`loss.beta1` -> `β1`; other dotted names become their last part."""
    return _SHORT.get(name) or last_part(name)


def parameters(config: Config) -> dict[str, Any]:
    """A config's parameters by dotted name, with its betas even if the space leaves them alone."""
    loss = config.training.get("loss", {})
    betas = {f"loss.{name}": loss[name] for name in ("beta1", "beta2") if name in loss}
    return betas | {name: value for name, value in config.params.items() if value is not None}


def varied_names(configs: Sequence[Config]) -> list[str]:
    """The parameters in which configs differ from each other, baselines included; the space's if there is no other."""
    values: dict[str, set[str]] = {}
    for config in configs:
        for name, value in parameters(config).items():
            values.setdefault(name, set()).add(repr(value))
    varied = [name for name, found in values.items() if len(found) > 1]
    return varied or list(dict.fromkeys(name for config in configs for name in config.params))


def names_to_show(varied: Sequence[str]) -> list[str]:
    """The parameters that name a config whichever others are known yet: both betas, and those that the space varies."""
    return list(dict.fromkeys(("loss.beta1", "loss.beta2", *varied)))


def config_label(config: Config, varied: Sequence[str]) -> str:
    """`β1=0.5 β2=1`; a comparator is led by what it is: `baseline β1=0 β2=0`."""
    found = parameters(config)
    values = [f"{short_name(name)}={value_text(found[name])}" for name in varied if name in found]
    if Role.DAPO in config.roles and Role.SPACE not in config.roles:
        return "DAPO"  # clip-higher; the space's betas do not apply to it
    role = Role.BASELINE if Role.BASELINE in config.roles else config.roles[0]
    lead = [ROLE_NAMES[role]] if role in ROLE_NAMES else []
    return " ".join([*lead, *values]) or f"config {config.number}"


def value_text(value: Any) -> str:
    """A parameter's value for people: 0.5, 2e-4, dapo."""
    if isinstance(value, float):
        text = f"{value:.3e}" if 0 < abs(value) < 1e-3 else f"{value:.4g}"
        mantissa, _, exponent = text.partition("e")
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        return f"{mantissa}e{int(exponent)}" if exponent else mantissa
    return str(value)


def probe_phase(event: Event) -> str | None:
    """Say what a cost probe does after this event of it; None: it has ended."""
    match event.type:
        case "probe.started":
            return "starting"
        case "probe.progress":
            return str(event.data["phase"])
        case _:
            return None
