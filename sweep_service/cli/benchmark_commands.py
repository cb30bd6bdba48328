"""The commands that measure a sweep's models on benchmarks, and print their scores."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Annotated

import typer
from rich.text import Text

from sweep_service.cli.arguments import Json, Which, connect, find_sweep_to_change
from sweep_service.cli.catalog_commands import benchmarks
from sweep_service.cli.failures import code_of_state
from sweep_service.cli.output import number, print_data, print_json, print_table, say, state_text
from sweep_service.cli.sweep_print import roles_text
from sweep_service.cli.watch_sweep import watch_sweep
from sweep_service.schemas import BenchmarkScoreView, ConfigView, EvaluationView
from sweep_service.sweep.labels import params_texts

Scores = Sequence[BenchmarkScoreView]


@benchmarks.command("run")
def run(
    sweep: Which = None,
    *,
    names: Annotated[
        str, typer.Option("--names", metavar="NAMES", help="Benchmarks of the catalog, with commas between.")
    ],
    of: Annotated[
        str,
        typer.Option(
            "--of",
            metavar="CONFIGS",
            help="best, baseline, dapo, matched, all, or ids of configs, with commas between.",
        ),
    ] = "best,baseline",
    samples: Annotated[
        int | None, typer.Option("--samples", help="Completions of each problem; default: the benchmark's own.")
    ] = None,
    longest: Annotated[
        int | None, typer.Option("--longest", help="Most tokens of a completion; default: the benchmark's own.")
    ] = None,
    temperature: Annotated[float | None, typer.Option("--temperature", help="Default: the benchmark's own.")] = None,
    top_p: Annotated[float | None, typer.Option("--top-p", help="Default: the benchmark's own.")] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show progress until all is measured.")] = False,
    json: Json = False,
) -> None:
    """Measure models of a sweep that has SUCCEEDED on more benchmarks; nothing is trained.

    The last models of the configs' confirm trials are measured (of their tune trials, if there is no confirm stage),
    and the initial model. Scores, MLflow and the report get the new columns. The verdict stays as it is.

    [bold]sweeps benchmarks run demo --names math500 --of best,baseline[/bold]
    """
    sampling = {"samples": samples, "longest": longest, "temperature": temperature, "top_p": top_p}
    request = {"names": _listed(names), "of": _listed(of), **sampling}
    with connect() as client:
        sweep_id = find_sweep_to_change(client, sweep)
        view = client.add_benchmarks(sweep_id, request)
        if view.state.is_over:
            say("all of it has been measured; see it: sweeps benchmarks scores " + sweep_id)
        elif watch:
            view = watch_sweep(client, sweep_id).sweep
            say(f"  sweeps benchmarks scores {sweep_id}   prints the scores")
        else:
            say(f"{view.name} is {view.state} again. Watch it: sweeps watch {sweep_id}")
    if json:
        print_json(view)
    if watch:
        raise typer.Exit(code_of_state(view.state))


def _listed(names: str) -> list[str]:
    return [name for part in names.split(",") if (name := part.strip())]


@benchmarks.command("scores")
def scores(
    sweep: Which = None,
    problems: Annotated[
        str | None, typer.Option("--problems", metavar="NAME", help="Each problem of this benchmark, as CSV.")
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Every model on every benchmark, as CSV.")] = False,
    json: Json = False,
) -> None:
    """Show what a sweep's models score on its benchmarks: avg@k, mean over seeds.

    The report has the differences to the baseline with their intervals.

    [bold]sweeps benchmarks scores demo[/bold]
    [bold]sweeps benchmarks scores demo --problems aime24 > problems.csv[/bold]
    """
    with connect() as client:
        sweep_id = client.find_sweep(sweep)
        if csv or problems is not None:
            print_data(client.benchmarks_csv(sweep_id, problems).rstrip("\n"))
            return
        all_scores = list(client.benchmark_scores(sweep_id))
        if json:
            print_json(all_scores)
            return
        evaluations, configs = list(client.evaluations(sweep_id)), list(client.configs(sweep_id))
    if not evaluations:
        say("nothing is measured: the sweep names no benchmarks, or none of its models is there yet")
        return
    if all_scores:
        _print_scores(all_scores, configs)
    _print_open(evaluations)


def _print_scores(all_scores: Scores, configs: Sequence[ConfigView]) -> None:
    """Print a row for each config and optimizer step, over all seeds."""
    models, samples = dict[tuple[str, int], list[BenchmarkScoreView]](), dict[str, int]()
    for score in all_scores:
        models.setdefault((score.config_id, score.model_step), []).append(score)
        samples.setdefault(score.benchmark, score.samples)
    params, roles = params_texts(configs), {config.id: roles_text(config) for config in configs}
    rows = [
        (id_, roles[id_] if step else "initial model", params[id_] or "-", str(step), *_cells(of_model, samples))
        for (id_, step), of_model in models.items()
    ]
    columns = [*(f"{name} avg@{count} (SEEDS)" for name, count in samples.items()), "MEAN"]
    print_table(
        ("CONFIG", "ROLE", "PARAMETERS", "STEP", *columns), rows, right=("STEP", *columns), loose=("PARAMETERS",)
    )


def _cells(of_model: Scores, names: Iterable[str]) -> list[str]:
    """Return a cell for each benchmark, and the mean over them where all are measured."""
    values: Mapping[str, list[float]] = {
        name: [score.avg_at_k for score in of_model if score.benchmark == name and score.avg_at_k is not None]
        for name in names
    }
    cells = [f"{number(fmean(seeds))} ({len(seeds)})" if seeds else "-" for seeds in values.values()]
    whole = all(values.values())
    return [*cells, number(fmean(fmean(seeds) for seeds in values.values())) if whole else "-"]


def _print_open(evaluations: Iterable[EvaluationView]) -> None:
    """List the models that are not measured yet, or never will be."""
    for evaluation in evaluations:
        if evaluation.step < evaluation.total_steps:
            model = "the initial model" if evaluation.trial_id is None else f"the model of trial {evaluation.trial_id}"
            done = f"{evaluation.step} of {evaluation.total_steps} benchmarks"
            reason = f": {evaluation.message}" if evaluation.message else ""
            say(str(Text.assemble(state_text(evaluation.state), f"  {model}, {done}{reason}")))
