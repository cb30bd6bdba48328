"""Commands about the catalog of this machine: models, datasets, benchmarks; add, ls, show, rm.

They read and write the cache folder; the server is asked only before something is removed.
"""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from sweep_service.cli.arguments import Json, connect
from sweep_service.cli.catalog_print import (
    count_text,
    first_rows,
    print_benchmark,
    print_dataset,
    print_entries,
    print_model,
    splits_text,
)
from sweep_service.cli.failures import interruptible
from sweep_service.cli.output import plural, print_data, print_json, say
from sweep_service.cli.transfer import Transfer
from sweep_service.errors import Conflict, NotFound, ServiceError
from sweep_service.intake.catalog_check import named_entries
from sweep_service.schemas import Page
from sweep_service.settings import Settings
from sweep_service.sweep.records import SweepState
from trainers.catalog.add_from_disk import add_local_dataset, add_local_model
from trainers.catalog.entries import (
    KINDS,
    AnyEntry,
    BenchmarkEntry,
    DatasetEntry,
    ModelEntry,
    all_entries,
    entry_folder,
    shipped_file,
)
from trainers.catalog.new_entry import Reporter, remove_entry, size_text
from trainers.catalog.row_files import form_of
from trainers.errors import ConfigError

models = typer.Typer(help="Models on this machine.", no_args_is_help=True, rich_markup_mode="rich")
datasets = typer.Typer(help="Datasets on this machine.", no_args_is_help=True, rich_markup_mode="rich")
benchmarks = typer.Typer(
    help="Benchmarks on this machine, and scores on them.", no_args_is_help=True, rich_markup_mode="rich"
)

EntryName = Annotated[str | None, typer.Option("--name", help="The name to add it under. Default: the repository's.")]
Config = Annotated[str | None, typer.Option("--config", help="The configuration of a dataset that has several.")]
Which = Annotated[str, typer.Argument(metavar="NAME")]


@models.command("add")
def add_model(
    source: Annotated[
        str,
        typer.Argument(
            metavar="OWNER/NAME[@REVISION] | FOLDER", help="A repository of the Hugging Face Hub, or a local folder."
        ),
    ],
    name: EntryName = None,
    json: Json = False,
) -> None:
    """Add a model: fetch it from the Hub, or copy a folder.

    The revision may be a branch, a tag or a commit; the commit is recorded.
    Only safetensors are read; no code of a repository is ever run.

    After Ctrl-C or a broken connection the same command goes on. A token
    comes from HF_TOKEN, `hf auth login` or SWEEPS_HUB_TOKEN_FILE.

    [bold]sweeps models add Qwen/Qwen2.5-1.5B-Instruct[/bold]
    [bold]sweeps models add Qwen/Qwen2.5-1.5B-Instruct@main --name qwen-1.5b[/bold]
    [bold]sweeps models add ./my-model --name mine[/bold]
    """
    with _adding() as (cache, reporter):
        if local := _local(source):
            entry = add_local_model(local, cache, name or _required_name(source), reporter)
        else:
            from trainers.catalog.add_from_hub import add_hub_model, default_name

            entry = add_hub_model(source, cache, name or default_name(source), _token(), reporter)
    sizes = f"{count_text(entry.parameters)} parameters in {entry.weights_dtype}"
    context = f"context {entry.context_length}, " if entry.context_length else ""
    template = "a chat template" if entry.chat_template else "no chat template"
    _added(entry, f"{entry.architecture}, {sizes}, {context}{template}; {size_text(entry.bytes)}", json=json)


@datasets.command("add")
def add_dataset(
    source: Annotated[
        str,
        typer.Argument(
            metavar="OWNER/NAME[@REVISION] | FILE | FOLDER",
            help="A dataset of the Hugging Face Hub, or local files: .jsonl, .json, .csv, .tsv, .parquet.",
        ),
    ],
    name: EntryName = None,
    config: Config = None,
    split: Annotated[str, typer.Option("--split", help="The name of the split that a single file becomes.")] = "train",
    json: Json = False,
) -> None:
    """Add a dataset: fetch it from the Hub, or read files.

    All columns are stored, as JSON lines for each split; a spec says which
    column is the problem and which the answer. Datasets that are made by a
    script are refused: their code is never run.

    [bold]sweeps datasets add openai/gsm8k --config main[/bold]
    [bold]sweeps datasets add ./problems.jsonl --name my-problems[/bold]
    [bold]sweeps datasets add ./folder[/bold]   train.jsonl and test.jsonl in it become splits
    """
    with _adding() as (cache, reporter):
        if local := _local(source):
            entry = add_local_dataset(local, cache, name or _required_name(source), split, config, reporter)
        else:
            from trainers.catalog.add_from_hub import add_hub_dataset, default_name

            entry = add_hub_dataset(source, config, cache, name or default_name(source), _token(), reporter)
    _added(entry, f"{splits_text(entry.splits)} rows; columns {', '.join(entry.columns)}", json=json)


@benchmarks.command("add")
def add_benchmark(
    source: Annotated[
        str,
        typer.Argument(
            metavar="NAME | NAME=OWNER/DATASET[@REVISION]:SPLIT | NAME=FILE",
            help="The name of a known benchmark; for others a name, and where their problems are.",
        ),
    ],
    config: Config = None,
    json: Json = False,
) -> None:
    """Add a benchmark: problems that are only ever tested on.

    Known ones (aime24, aime25, hmmt25, math500, amc23, gsm8k) come from
    their public sources at a pinned commit. Others need problems in a column
    `problem`, `question` or `prompt` and answers in `answer`; of a worked
    solution, the answer is what follows ####.

    [bold]sweeps benchmarks add math500[/bold]
    [bold]sweeps benchmarks add minerva=math-ai/minervamath:test[/bold]
    [bold]sweeps benchmarks add our-exam=./exam.jsonl[/bold]
    """
    from trainers.benchmarks.add_benchmark import add_file, add_hub, add_known

    name, _, place = source.partition("=")
    with _adding() as (cache, reporter):
        if not place:
            entry = add_known(name, cache, reporter)
        elif local := _local(place):
            entry = add_file(name, local, cache, reporter)
        else:
            entry = add_hub(name, place, config, cache, _token(), reporter)
    _added(entry, plural(entry.problems, "problem"), json=json)


@models.command("show")
def show_model(name: Which, json: Json = False) -> None:
    """Show a model, and how a spec names it.

    [bold]sweeps models show qwen-1.5b[/bold]
    """
    entry, folder = _find(ModelEntry, name)
    print_json(entry) if json else print_model(entry, folder)


@datasets.command("show")
def show_dataset(
    name: Which,
    rows: Annotated[int, typer.Option("--rows", "-n", min=1, max=100, help="Show this many first rows.")] = 2,
    json: Json = False,
) -> None:
    """Show a dataset: its columns, first rows, and how a spec names them.

    [bold]sweeps datasets show gsm8k --rows 5[/bold]
    """
    entry, folder = _find(DatasetEntry, name)
    if json:
        print_json(entry)
        return
    file = shipped_file(DatasetEntry, name) or folder / f"{next(iter(entry.splits))}.jsonl"
    print_dataset(entry, folder, first_rows(file, rows))


@benchmarks.command("show")
def show_benchmark(name: Which, json: Json = False) -> None:
    """Show a benchmark and its first problem.

    [bold]sweeps benchmarks show math500[/bold]
    """
    from trainers.benchmarks.problems import PROBLEMS_FILE

    entry, folder = _find(BenchmarkEntry, name)
    if json:
        print_json(entry)
        return
    file = shipped_file(BenchmarkEntry, name) or folder / PROBLEMS_FILE
    print_benchmark(entry, folder, first_rows(file, 1)[0])


def _add_ls_and_rm(group: typer.Typer, entry_type: type[AnyEntry], example: str) -> None:
    """Give a group its commands ls and rm, which are the same for every kind of entry."""
    kind = KINDS[entry_type]
    one = kind.removesuffix("s")

    @group.command(
        "ls",
        help=f"List the {kind} on this machine and in the package.\n\n[bold]sweeps {kind} ls --json[/bold]",
    )
    def ls(json: Json = False) -> None:
        entries = all_entries(Settings().cache, entry_type)
        if json:
            print_json(Page(items=list(entries), page_size=max(1, len(entries))))
            return
        if entries:
            print_entries(entries)
        else:
            say(f"no {kind}; add one: sweeps {kind} add {example}")
        if entry_type is BenchmarkEntry:
            from trainers.benchmarks.known_benchmarks import KNOWN_BENCHMARKS

            if others := [name for name in KNOWN_BENCHMARKS if name not in {entry.name for entry in entries}]:
                say(f"can be added by their names: {', '.join(others)}")

    @group.command(
        "rm",
        help=f"Remove a {one}, or what an interrupted addition of it left.\n\n[bold]sweeps {kind} rm NAME --yes[/bold]",
    )
    def rm(
        name: Which,
        yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
        force: Annotated[
            bool, typer.Option("--force", help="Remove it even if a sweep that has not ended needs it.")
        ] = False,
    ) -> None:
        settings = Settings()
        if not force and (sweep_ids := _needed_by(entry_type, name)):
            them, need = ("them", "need") if len(sweep_ids) > 1 else ("it", "needs")
            raise Conflict(f"{', '.join(sweep_ids)} {need} {name}; cancel {them} first, or give --force")
        if not yes:
            if not sys.stdin.isatty():
                raise ServiceError(f"removing {name} cannot be undone; confirm it with --yes")
            typer.confirm(f"Remove {name} from the {kind} in {settings.cache}?", abort=True, err=True)
        with _as_service_error():
            freed = remove_entry(settings.cache, entry_type, name)
        say(f"removed {name}: {size_text(freed)}")


_add_ls_and_rm(models, ModelEntry, "Qwen/Qwen2.5-1.5B-Instruct")
_add_ls_and_rm(datasets, DatasetEntry, "openai/gsm8k --config main")
_add_ls_and_rm(benchmarks, BenchmarkEntry, "math500")


@contextmanager
def _as_service_error() -> Generator[None]:
    """Raise refusals of the catalog and of the disk as the error that every command prints."""
    try:
        yield
    except ConfigError as error:
        raise ServiceError("\n       ".join(error.problems)) from error
    except OSError as error:  # a full disk, or a folder of somebody else
        raise ServiceError(f"{error.filename or Settings().cache}: {error.strerror or error}") from error


@contextmanager
def _adding() -> Generator[tuple[Path, Reporter]]:
    """Yield the cache, and a display of the addition's progress."""
    with (
        interruptible("interrupted; what has arrived stays, and the same command goes on from there"),
        _as_service_error(),
        Transfer() as reporter,
    ):
        yield Settings().cache, reporter


def _local(source: str) -> Path | None:
    """Return the local file or folder that a source names; None if it names a repository of the Hub."""
    path = Path(source).expanduser()
    return path if source.startswith((".", "/", "~")) or path.exists() or form_of(source) else None


def _required_name(source: str) -> str:
    raise ServiceError(f"{source} is on this disk, so it has no name of its own; give it one with --name")


def _token() -> str | None:
    from trainers.catalog.hub import hub_token

    return hub_token(Settings().hub_token_file)


def _added(entry: AnyEntry, text: str, *, json: bool) -> None:
    say(f"{text}; more: sweeps {KINDS[type(entry)]} show {entry.name}")
    print_json(entry) if json else print_data(entry.name)


def _find(entry_type: type[AnyEntry], name: str) -> tuple[AnyEntry, Path]:
    """Return an entry, and the file or folder that holds it."""
    cache, kind = Settings().cache, KINDS[entry_type]
    entries = {entry.name: entry for entry in all_entries(cache, entry_type)}
    if name not in entries:
        raise NotFound(kind.removesuffix("s"), name, f" in {cache / kind}; there are: {', '.join(entries) or 'none'}")
    return entries[name], shipped_file(entry_type, name) or entry_folder(cache, entry_type, name)


def _needed_by(entry_type: type[AnyEntry], name: str) -> list[str]:
    """Return the ids of the sweeps that have not ended and name an entry; none if no server answers."""
    unfinished = [state for state in SweepState if not state.is_over]
    try:
        with connect(patience_s=0) as client:
            going_on = [sweep for sweep in client.sweeps(unfinished) if not sweep.desired_state.is_to_end]
            sweeps = [client.get(sweep.id) for sweep in going_on]
    except ServiceError:
        return []
    return [sweep.id for sweep in sweeps if (entry_type, name) in named_entries(sweep.spec)]
