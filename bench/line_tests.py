"""The tests that run a line of the packages, by a coverage pass over all quick tests, in a copy of the repository.

Coverage sees pytest's own processes, and nothing of those that tests start.
"""

import ast
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from itertools import groupby
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = ("search_spaces", "sweep_service", "trainers")
LEFT_OUT: Final = (
    "trainers/config/complaints.py",
    "trainers/config/field_words.py",
    "sweep_service/api/description.py",
    "sweep_service/recipes/recipe_text.py",
    "sweep_service/store/migrations",
)
"""Modules without mutants: those that only word what people read, and the steps to a schema whose every column a test
compares with `store/tables.py`."""
TESTS: Final = ("-m", "not (long or hunt) or wires")
WAIT_S: Final = 600.0
"""Time for the tests of a mutant by the clock, since some wait for other processes."""
_LOOK: Final = 20
"""Most lines that a test runs which only looks at what was imported, such as at the schema of the settings."""
WORKERS: Final = 2
PYTEST: Final = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")


class Covered:
    """The tests by the lines that they run, as one coverage pass has found them.

    Args:
        file: written by `measure`.
    """

    def __init__(self, file: Path) -> None:
        import coverage  # which only a run needs

        self._data = coverage.CoverageData(str(file))
        self._data.read()
        lines = _log_of(file).read_text(errors="replace").splitlines()
        self._passed = {line.partition(" PASSED ")[2].strip() for line in lines if " PASSED " in line}
        self._calls, self._setups = _durations(lines, "call"), _durations(lines, "setup")
        self._of_module = dict[str, frozenset[str]]()

    def of(self, path: str, source: str, line: int) -> list[str]:
        """Return the tests that run a line, or the nearest line of its statement above it that any test runs.

        Each comes by the time that its file needs until it is done: what is quick comes first, and then tests of
        different files, for those of one file see much the same. As many are returned as end within `WAIT_S`.
        """
        tree = ast.parse(source)
        if runs_at_import(tree, line):
            near, importing = self._tests_of(path), _importers().get(path, ())
            far = frozenset[str]().union(self._looking, *map(self._tests_of, importing)) - near
            return self._in_order(near, far)
        lines = self._lines(path)
        places = range(line, first_line(tree, line) - 1, -1)
        return self._in_order(next((tests for place in places if (tests := lines.get(place))), frozenset[str]()))

    @property
    def blind(self) -> list[str]:
        """The modules with functions of which no test runs a line."""
        self._data.set_query_contexts([r"\|"])
        lines = {path: self._data.lines(path) for path in modules()}
        self._data.set_query_contexts(None)
        return [
            path for path, seen in lines.items() if not seen and "def " in (ROOT / path).read_text(encoding="utf-8")
        ]

    def _lines(self, path: str) -> dict[int, frozenset[str]]:
        """Return the tests by line of a module. What a shared fixture runs counts for every test of its file."""
        tests = dict[int, frozenset[str]]()
        for line, contexts in self._data.contexts_by_lineno(path).items():
            runs = [name.rpartition("|") for name in contexts if name]
            alone = {test for test, _, phase in runs if phase != "setup"} & self._passed
            files = {_file(test) for test, _, phase in runs if phase == "setup"} & self._of_file.keys()
            tests[line] = frozenset(alone).union(*(self._of_file[file] for file in files))
        return tests

    def _tests_of(self, path: str) -> frozenset[str]:
        if path not in self._of_module:
            self._of_module[path] = frozenset[str]().union(*self._lines(path).values())
        return self._of_module[path]

    @cached_property
    def _of_file(self) -> dict[str, frozenset[str]]:
        files = groupby(sorted(self._passed, key=_file), key=_file)
        return {file: frozenset(tests) for file, tests in files}

    @cached_property
    def _looking(self) -> frozenset[str]:
        """The tests of the contract that run hardly any line, for they look at what was imported."""
        lines = Counter[str]()
        self._data.set_query_contexts([r"^tests/contract/.*\|"])
        for path in self._data.measured_files():
            for contexts in self._data.contexts_by_lineno(path).values():
                lines.update({name.rpartition("|")[0] for name in contexts})
        self._data.set_query_contexts(None)
        return frozenset(test for test in self._passed if test.startswith("tests/contract/") and lines[test] <= _LOOK)

    def _in_order(self, *groups: frozenset[str]) -> list[str]:
        """Return the tests of one group after the other, the quickest first, as far as they end within `WAIT_S`."""
        ordered, left_s = list[str](), WAIT_S
        for tests in groups:
            spent, done_at = dict[str, float](), dict[str, float]()
            for test in sorted(tests, key=lambda test: (self._calls.get(test, 0.0), test)):
                file, setup_s = _file(test), self._setups.get(test, 0.0)
                shared_s = self._shared_s[file]
                spent.setdefault(file, shared_s)
                spent[file] += self._calls.get(test, 0.0) + (setup_s if setup_s < shared_s else 0.0)
                done_at[test] = spent[file]
            ordered += sorted(tests, key=lambda test: (done_at[test], test))
        for number, test in enumerate(ordered):
            left_s -= self._calls.get(test, 0.0) + self._setups.get(test, 0.0)
            if left_s < 0:
                return ordered[: number + 1]
        return ordered

    @cached_property
    def _shared_s(self) -> Counter[str]:
        """Durations of the longest set-up of each file, which is that of what its tests share."""
        longest = Counter[str]()
        for test, seconds in self._setups.items():
            longest[_file(test)] = max(longest[_file(test)], seconds)
        return longest


def measure(file: Path, tests: Sequence[str], folder: Path) -> None:
    """Run the tests once, in a copy of the repository, and write to a file which of them run which line."""
    copy, log, settings = copied(folder / "measured"), folder / "tests.log", folder / "settings"
    data = folder / "coverage"
    packages = "".join(f"\n  {name}" for name in PACKAGES)
    settings.write_text(f"[run]\nsource ={packages}\nrelative_files = true\ndata_file = {data}\n")
    options = ["--cov", f"--cov-config={settings}", "--cov-context=test", "--cov-report=", "--durations=0", "-vv"]
    command = [*PYTEST, "-n", str(WORKERS), "--dist", "loadfile", "--no-loadscope-reorder", *options, *TESTS, *tests]
    with log.open("wb") as out:
        code = subprocess.run(command, cwd=copy, stdout=out, stderr=subprocess.STDOUT, env=environment(copy)).returncode
    text = log.read_text(errors="replace")
    if code not in (0, 1):
        raise SystemExit(f"the tests cannot be run: {text[-3000:]}")
    failed = [line.partition(" FAILED ")[2] for line in text.splitlines() if " FAILED " in line]
    print("".join(f"fails without a mutant, and is left out: {test}\n" for test in failed), end="", file=sys.stderr)
    file.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(log, _log_of(file))
    shutil.move(data, file)


def _log_of(file: Path) -> Path:
    return file.with_name(f"{file.name}.log")


def _durations(lines: Sequence[str], phase: str) -> dict[str, float]:
    """Read pytest's list of durations of a phase, `0.12s call     tests/…::test_…`."""
    rows = (line.split(maxsplit=2) for line in lines if "::" in line)
    return {row[2]: float(row[0][:-1]) for row in rows if row[1:2] == [phase] and row[0].endswith("s")}


def _file(test: str) -> str:
    return test.partition("::")[0]


def first_line(tree: ast.Module, line: int) -> int:
    """Return the first line of the innermost statement that a line belongs to."""
    spans = ((_begin(node), node.end_lineno or 0) for node in ast.walk(tree) if isinstance(node, ast.stmt))
    return max((begin for begin, end in spans if begin <= line <= end), default=line)


def _begin(node: ast.stmt) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])


def runs_at_import(tree: ast.Module, line: int) -> bool:
    """Tell whether a line lies in the body of no function."""
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return not any(node.body[0].lineno <= line <= (node.end_lineno or 0) for node in functions)


@cache
def _importers() -> dict[str, set[str]]:
    """Return the modules that import each module, all by their paths."""
    paths = {path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in modules()}
    importers = dict[str, set[str]]()
    for path in paths.values():
        for name in _imported(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
            if name in paths:
                importers.setdefault(paths[name], set()).add(path)
    return importers


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


# the repository


def modules() -> list[str]:
    """Return the paths of all modules that have mutants."""
    paths = (str(path.relative_to(ROOT)) for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py")))
    return [path for path in paths if not is_below(path, LEFT_OUT)]


def is_below(path: str, places: Sequence[str]) -> bool:
    """Tell whether a path is one of these, or lies in a folder among them."""
    return any(Path(path).is_relative_to(place) for place in places)


def environment(root: Path) -> dict[str, str]:
    """Return the variables for tests of the packages in a copy."""
    quiet = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "DO_NOT_TRACK": "1", "OMP_NUM_THREADS": "1"}
    paths = [str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, **quiet, "PYTHONPATH": os.pathsep.join(paths)}


def copied(folder: Path) -> Path:
    """Copy all files of the repository but those that git ignores."""
    listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in listed.split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def git(*arguments: str) -> str:
    """Return what git says of this repository."""
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
