"""The command that gives a submitted sweep more: configs, seeds, other limits."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from search_spaces.distributions import Scalar
from search_spaces.strategies import drawing_strategies
from sweep_service.cli.arguments import Json, SweepToChange, connect, find_sweep_to_change
from sweep_service.cli.failures import interruptible
from sweep_service.cli.output import plural, print_json, say
from sweep_service.client import Client
from sweep_service.schemas import EvaluationView, TrialView
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.records import SweepState
from sweep_service.sweep.spec import SweepSpec
from trainers.yaml_text import YamlError, read_yaml

_LIFTED: Final = math.inf
"""The number that stands for `none`: no limit."""


def _hours(text: str) -> float:
    try:
        hours = _LIFTED if text == "none" else float(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r}: give a number of hours, or none for no limit") from error
    if text != "none" and not math.isfinite(hours):
        raise typer.BadParameter(f"{text!r}: give none for no limit")
    return hours


def _number(text: str) -> float:
    try:
        return _LIFTED if text == "none" else int(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r}: give a whole number, or none for no limit") from error


def extend(
    sweep: SweepToChange,
    confirm_seeds: Annotated[int, typer.Option(min=0, max=1000, help="So many more confirm seeds.")] = 0,
    tune_seeds: Annotated[int, typer.Option(min=0, max=1000, help="So many more tune seeds.")] = 0,
    top_k: Annotated[int | None, typer.Option(min=1, help="Confirm so many configs, all together.")] = None,
    configs: Annotated[
        int | None, typer.Option(min=1, help=f"Try so many configs, all together; for {drawing_strategies('and')}.")
    ] = None,
    values: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE,…", help="More values of a parameter of a grid. May be repeated."),
    ] = None,
    max_parallel: Annotated[
        float | None,
        typer.Option(parser=_number, metavar="N|none", help="Trials at a time; running ones go on."),
    ] = None,
    max_gpu_hours: Annotated[
        float | None,
        typer.Option(parser=_hours, metavar="HOURS|none", help="New budget of the sweep, all together."),
    ] = None,
    max_trial_hours: Annotated[
        float | None, typer.Option(parser=_hours, metavar="HOURS|none", help="New limit of one trial.")
    ] = None,
    max_wait_hours: Annotated[
        float | None,
        typer.Option(parser=_hours, metavar="HOURS|none", help="How long it waits for a node with room for it."),
    ] = None,
    max_failed_trials: Annotated[
        float | None,
        typer.Option(parser=_number, metavar="N|none", help="Failures without a result after which it ends."),
    ] = None,
    json: Json = False,
) -> None:
    """Give a sweep more configs, more seeds, a larger top_k, or other limits; `none` lifts a limit.

    One that runs goes on with them. One that has SUCCEEDED or FAILED goes on, too: only what is new is trained, and
    its report is built anew. What has been trained stays as it is.

    [bold]sweeps extend demo --confirm-seeds 2[/bold]
    [bold]sweeps extend demo --values loss.beta1=0.75,0.9[/bold]
    """
    with connect() as client:
        sweep_id = find_sweep_to_change(client, sweep)
        spec = client.get(sweep_id).spec
        hours = {"max_gpu_hours": max_gpu_hours, "max_trial_hours": max_trial_hours, "max_wait_hours": max_wait_hours}
        parts = {
            "space": _more_values(spec, values or ()),
            "search": _settings(num_configs=configs),
            "seeds": _more_seeds(spec, tune_seeds, confirm_seeds, top_k),
            "budget": _settings(**hours),
            "resources": _settings(max_parallel=max_parallel),
            "retries": _settings(max_failed_trials=max_failed_trials),
        }
        extension = {name: part for name, part in parts.items() if part}
        if not extension:
            raise typer.BadParameter("say what the sweep gets, such as --confirm-seeds 2")
        wait_for_report(client, sweep_id)
        view = client.extend(sweep_id, extension)
        works = works_of(client, sweep_id) if max_trial_hours is not None else ()
        late = [work for work in works if work.ending is Ending.TIMED_OUT]
    shown = view.desired_state.shown(view.state)
    if view.spec == spec:
        say(f"nothing has changed: {view.name} {sweep_id} has all of that already; it is {shown}")
    else:
        say(f"{view.name} {sweep_id} is extended and {shown}; follow it: sweeps watch {sweep_id}")
        for change in _changes(spec, view.spec):
            say(f"  {change}")
    if late:
        say(f"  {counted(late)} had used up the old limit; let them go on: sweeps retry {sweep_id}")
    if json:
        print_json(view)


def works_of(client: Client, sweep_id: str) -> list[TrialView | EvaluationView]:
    """Return the trials of a sweep and its evaluations."""
    return [*client.trials(sweep_id), *client.evaluations(sweep_id)]


def counted(works: Sequence[TrialView | EvaluationView]) -> str:
    """Say how many trials and how many evaluations there are, such as `2 trials and 1 evaluation`."""
    evaluations = sum(isinstance(work, EvaluationView) for work in works)
    kinds = {"trial": len(works) - evaluations, "evaluation": evaluations}
    return " and ".join(plural(number, kind) for kind, number in kinds.items() if number)


def wait_for_report(client: Client, sweep_id: str) -> None:
    """Wait while a sweep's report is being built, because only afterwards the sweep can be given more."""
    if client.get(sweep_id).state is SweepState.FINALIZING:
        say("its report is being built; this goes on once that is done, after ten minutes at the latest")
        with interruptible("nothing has been changed; give the same command again once the report is there"):
            client.wait(sweep_id, until=lambda sweep: sweep.state is not SweepState.FINALIZING)


def _changes(before: SweepSpec, after: SweepSpec) -> Iterator[str]:
    """Yield the changes of a spec in words."""
    old_values, new_values = _values_of(before), _values_of(after)
    old, new = _limits(before), _limits(after)
    for name in [name for name in new_values if new_values[name] != old_values[name]]:
        yield f"{name} also takes {_listed(new_values[name], old_values[name])}"
    for name in [name for name in new if new[name] != old[name]]:
        value, old_value = new[name], old[name]
        if isinstance(value, tuple) and isinstance(old_value, tuple):
            yield f"{name} also has {_listed(value, old_value)}"
        else:
            yield f"{name} is {_shown(value)}, and was {_shown(old_value)}"


def _limits(spec: SweepSpec) -> dict[str, object]:
    """Return the settings that an extension may change, except the space, by dotted name."""
    confirm, budget = spec.seeds.confirm, spec.budget
    return {
        "search.num_configs": spec.search.num_configs,
        "seeds.tune": spec.seeds.tune,
        "seeds.confirm.seeds": confirm.seeds if confirm else (),
        "seeds.confirm.top_k": confirm.top_k if confirm else 0,
        "resources.max_parallel": spec.resources.max_parallel,
        "budget.max_gpu_hours": budget.max_gpu_hours,
        "budget.max_trial_hours": budget.max_trial_hours,
        "budget.max_wait_hours": budget.max_wait_hours,
        "retries.max_failed_trials": spec.retries.max_failed_trials,
    }


def _listed(values: Sequence[object], before: Sequence[object]) -> str:
    return ", ".join(str(value) for value in values if value not in before)


def _shown(value: object) -> str:
    return "without a limit" if value is None else f"{value:g}" if isinstance(value, int | float) else str(value)


def _settings(**settings: float | None) -> dict[str, float | None]:
    """Return the settings that have a value; a lifted limit becomes None."""
    chosen = {name: value for name, value in settings.items() if value is not None}
    return {name: None if value == _LIFTED else value for name, value in chosen.items()}


def _more_seeds(spec: SweepSpec, tune: int, confirm: int, top_k: int | None) -> dict[str, Any]:
    """Return the seeds of a sweep with so many more; the new ones follow its largest one."""
    confirmed = spec.seeds.confirm.seeds if spec.seeds.confirm else ()
    unused = itertools.count(max([*spec.seeds.tune, *confirmed]) + 1)
    of_confirm: dict[str, Any] = _settings(top_k=top_k)
    if confirm:
        of_confirm["seeds"] = [*confirmed, *itertools.islice(unused, confirm)]
    seeds: dict[str, Any] = {"confirm": of_confirm} if of_confirm else {}
    if tune:
        seeds["tune"] = [*spec.seeds.tune, *itertools.islice(unused, tune)]
    return seeds


def _more_values(spec: SweepSpec, options: Sequence[str]) -> dict[str, list[Scalar]]:
    """Return the values of each named parameter with those of before first, as far as a grid lists these."""
    more: dict[str, list[Scalar]] = {}
    for option in options:
        name, values = _named_values(option)
        more.setdefault(name, []).extend(values)
    before = _values_of(spec)
    for name, values in more.items():
        together = dict[tuple[bool, Scalar], Scalar]()  # true is another value than 1
        for value in [*before.get(name, ()), *values]:
            together.setdefault((isinstance(value, bool), value), value)
        more[name] = list(together.values())
    return more


def _values_of(spec: SweepSpec) -> Mapping[str, list[Scalar]]:
    """Return the values of a grid's parameters; none of a search that draws, whose space stays as it is."""
    if not spec.search.is_grid:
        return {}
    return {name: [values.at(index) for index in range(values.size or 0)] for name, values in spec.space.root.items()}


def _named_values(option: str) -> tuple[str, list[Scalar]]:
    """Read `loss.beta1=0.75,0.9`, in which values are written as in a spec.

    Raises: typer.BadParameter.
    """
    name, _, text = option.partition("=")
    try:
        values = read_yaml(f"[{text}]", option)
    except YamlError as error:
        raise typer.BadParameter(str(error), param_hint="--values") from error
    if not name or not values or any(isinstance(value, list | dict) for value in values):
        wanted = "give a parameter of the space and its new values, such as loss.beta1=0.75,0.9"
        raise typer.BadParameter(f"{option!r}: {wanted}", param_hint="--values")
    return name, values
