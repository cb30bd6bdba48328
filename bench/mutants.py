"""Plants small mistakes in the trainer, a sample drawn by a seed, and counts those that a test sees.

    python bench/mutants.py                  100 mutants, seed 0; up to an hour on two cores
    python bench/mutants.py --number 300 --seed 1

mutmut's operators make the mutants in the modules of `MODULES`: another operator, number or comparison, an argument
that is gone or None, a value that is None, a branch that is always taken. Texts, which are for people, stay. A first
run of the tests with coverage tells which tests run which line. Each mutant is planted in a copy of the
repository, and the tests that run its line are run, the quickest first, until one fails or they have used a
minute of processor time. The exit code is 1 if fewer than 90 % of the mutants are seen.
"""

import argparse
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Final, NamedTuple

import coverage
import libcst as cst
import psutil
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation.mutators import mutation_operators

ROOT: Final = Path(__file__).parents[1]
MODULES: Final = (
    "trainers/losses",
    "trainers/rollouts",
    "trainers/evaluation",
    "trainers/training/policy_trainer.py",
    "trainers/training/sampling_trainer.py",
    "trainers/training/schedule.py",
    "trainers/training/training_arguments.py",
    "trainers/record",
    "trainers/config",
    "trainers/process/seeds.py",
    "trainers/policy/positions.py",
)
TESTS: Final = ("tests/unit/trainers", "tests/contract", "tests/integration/trainers")
LEFT_OUT: Final = ("test_sharding.py", "test_several_processes.py", "test_processes.py", "test_trainer_kills.py")
"""Tests of other processes, whose coverage is not seen and which take minutes."""
WORDS: Final = ("complaints.py", "field_words.py")
"""Modules that only say to people what is wrong, and change no run."""
LIMIT_S: Final = 60.0
"""Processor time for the tests of a mutant."""
_LONGEST_STATEMENT: Final = 12
_LOOK: Final = 20
"""Most lines that a test runs which only looks at what was imported, such as at the schema of the settings."""
WORKERS: Final = 2
WANTED: Final = 0.9
_OPERATORS: Final = [(kind, make) for kind, make in mutation_operators if make.__name__ != "operator_string"]
_WHOLE: Final = (cst.Annotation, cst.Decorator, cst.Assert, cst.Import, cst.ImportFrom, cst.Raise)
"""Parts without mutants: what changes nothing that is computed, or words alone."""
_NO_CODE: Final = ("cast", "Metric")
"""Calls without mutants: a type for the type checker, and what a metric means."""
_PYTEST: Final = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
_COPIED: Final = ("trainers", "sweep_service", "search_spaces", "tests", "docs", "examples", "bench", "pyproject.toml")


class Mutant(NamedTuple):
    """One mutant of one file."""

    path: str
    line: int
    number: int
    """Number among the mutants of its file."""


class Result(NamedTuple):
    """What became of a mutant."""

    mutant: Mutant
    code: str
    """The mutated line."""
    seen_by: str | None
    """The test that failed; None, if none did."""
    tests: int
    seconds: float


class Covered(NamedTuple):
    """Tests by the lines that they run, and their durations."""

    tests: Mapping[tuple[str, int], frozenset[str]]
    seconds: Mapping[str, float]
    """Duration of each test; the quickest are left out."""
    setups: Mapping[str, float]
    """Duration of what the tests of a file share, by file."""

    def of(self, mutant: Mutant) -> list[str]:
        """Return the tests that run a mutant's line, or the first line of its statement.

        Each comes by the time that its file needs until it is done: what is quick comes first, and then tests of
        different files, for those of one file see much the same.
        """
        lines = ((mutant.path, mutant.line - back) for back in range(_LONGEST_STATEMENT))
        found = next((tests for line in lines if (tests := self.tests.get(line))), frozenset[str]())
        spent, done_at = dict(self.setups), dict[str, float]()
        for test in sorted(found, key=lambda test: (self.seconds.get(test, 0.0), test)):
            spent[_file(test)] = spent.get(_file(test), 0.0) + self.seconds.get(test, 0.0)
            done_at[test] = spent[_file(test)]
        return sorted(found, key=lambda test: (done_at[test], test))


# which tests run which line


def measure_coverage(folder: Path) -> Covered:
    """Run the tests once, and return which of them run which line."""
    log, settings = folder / "tests.log", folder / "settings"  # coverage.* it takes for its own
    settings.write_text(f"[run]\nsource = trainers\ndata_file = {folder / 'coverage'}\n")
    options = ["--cov", f"--cov-config={settings}", "--cov-context=test", "--cov-report=", "--durations=0", "-vv"]
    left_out = ["-m", "not (long or hunt) or wires", *(f"--ignore-glob=*/{name}" for name in LEFT_OUT)]
    with log.open("wb") as out:
        command = [*_PYTEST, "-n", str(WORKERS), "--dist", "loadfile", *options, *left_out, *TESTS]
        code = subprocess.run(
            command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, env=_environment(ROOT)
        ).returncode
    if code:
        raise SystemExit(f"the tests fail without a mutant: {log.read_text(errors='replace')[-3000:]}")
    lines = log.read_text(errors="replace").splitlines()
    calls, setups = _durations(lines, "call"), dict[str, float]()
    for test, seconds in _durations(lines, "setup").items():
        setups[_file(test)] = setups.get(_file(test), 0.0) + seconds
    passed = [line.partition(" PASSED ")[2].strip() for line in lines if " PASSED " in line]
    return Covered(_tests_of_lines(folder / "coverage", passed), calls, setups)


def _tests_of_lines(path: Path, passed: Sequence[str]) -> dict[tuple[str, int], frozenset[str]]:
    """Return the tests by file and line. What a shared fixture runs counts for every test of its file.

    Tests of a line that is run while its module is imported are all tests of the module, and those of the contract that
    run hardly any line: these look at what was imported.
    """
    data = coverage.CoverageData(str(path))
    data.read()
    contexts = {context.rpartition("|")[0] for context in data.measured_contexts() if context}
    looking = {test for test in passed if test.startswith("tests/contract/")} - _busy_tests(data)
    of_file = dict[str, set[str]]()
    for test in contexts:
        of_file.setdefault(_file(test), set()).add(test)
    tests = dict[tuple[str, int], frozenset[str]]()
    for file in data.measured_files():
        module, of_module = str(Path(file).relative_to(ROOT)), set[str]()
        lines = data.contexts_by_lineno(file)
        for line, names in lines.items():
            found = set[str]()
            for test, _, phase in (name.rpartition("|") for name in names if name):
                found |= of_file[_file(test)] if phase == "setup" else {test}
            tests[module, line] = frozenset(found)
            of_module |= found
        tests |= {(module, line): frozenset(of_module | looking) for line, names in lines.items() if "" in names}
    return tests


def _busy_tests(data: coverage.CoverageData) -> set[str]:
    """Return the tests that run more than `_LOOK` lines."""
    names = (
        name for file in data.measured_files() for found in data.contexts_by_lineno(file).values() for name in found
    )
    return {test for test, lines in Counter(name.rpartition("|")[0] for name in names).items() if lines > _LOOK}


def _durations(lines: Sequence[str], phase: str) -> dict[str, float]:
    """Read pytest's list of durations of a phase, `0.12s call     tests/…::test_…`."""
    rows = (line.split(maxsplit=2) for line in lines if "::" in line)
    return {row[2]: float(row[0][:-1]) for row in rows if row[1:2] == [phase] and row[0].endswith("s")}


def _file(test: str) -> str:
    return test.partition("::")[0]


# the mutants


class _Found(NamedTuple):
    node: cst.CSTNode
    other: cst.CSTNode
    line: int


class _Finder(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self) -> None:
        super().__init__()
        self.found = list[_Found]()

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, _WHOLE) or _is_call(node, _NO_CODE):
            return False
        if position := self.get_metadata(PositionProvider, node, None):
            others = [other for kind, make in _OPERATORS if isinstance(node, kind) for other in make(node)]
            others = [other for other in others if not _changes_words_alone(node, other)]
            self.found += [_Found(node, other, position.start.line) for other in others]  # pyright: ignore[reportAttributeAccessIssue]
        return True


def _is_call(node: cst.CSTNode, names: Sequence[str]) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value in names


def _changes_words_alone(node: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Tell whether the mutant of a call lacks its description."""
    if not isinstance(node, cst.Call) or not isinstance(other, cst.Call):
        return False
    gone = [arg for arg in node.args if not any(arg is kept for kept in other.args)]
    return bool(gone) and all(arg.keyword is not None and arg.keyword.value == "description" for arg in gone)


def _mutants(source: str) -> tuple[cst.Module, list[_Found]]:
    wrapper, finder = MetadataWrapper(cst.parse_module(source)), _Finder()
    return wrapper.visit(finder), finder.found


def all_mutants() -> Iterator[Mutant]:
    """Yield every mutant of the modules."""
    for path in (path for name in MODULES for path in _sources(ROOT / name)):
        _, found = _mutants(path.read_text(encoding="utf-8"))
        for number, one in enumerate(found):
            yield Mutant(str(path.relative_to(ROOT)), one.line, number)


def mutated(source: str, mutant: Mutant) -> str:
    """Return the source with this mutant in it."""
    module, found = _mutants(source)
    changed = module.deep_replace(found[mutant.number].node, found[mutant.number].other)
    assert isinstance(changed, cst.Module)
    return changed.code


def _sources(place: Path) -> list[Path]:
    found = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    return [path for path in found if path.name not in WORDS]


# one mutant


def judge(mutant: Mutant, covered: Covered, copy: Path) -> Result:
    """Plant a mutant in a copy of the repository, and run the tests of its line until one fails."""
    path, began = copy / mutant.path, time.monotonic()
    source = path.read_text(encoding="utf-8")
    planted = mutated(source, mutant)
    tests = covered.of(mutant)
    try:
        path.write_text(planted, encoding="utf-8")
        seen_by = _first_failure(tests, copy)
    finally:
        path.write_text(source, encoding="utf-8")
    return Result(mutant, _change(source, planted), seen_by, len(tests), time.monotonic() - began)


def _first_failure(tests: Sequence[str], copy: Path) -> str | None:
    """Run tests in their order within `LIMIT_S`, and name the first that fails; None, if none did."""
    if not tests:
        return None
    listed = copy / "tests-of-a-mutant"
    listed.write_text("\n".join(tests))
    log = copy / "log-of-a-mutant"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*_PYTEST, "-n0", "-x", "--timeout=120", "-vv", "--tb=no", f"@{listed}"],
            cwd=copy,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=_environment(copy),
            start_new_session=True,
        )
        try:
            while (code := process.poll()) is None and _busy_s(process.pid) < LIMIT_S:
                time.sleep(0.2)
        finally:
            _kill_group(process)
    lines = log.read_text(errors="replace").splitlines()
    failed = [line.split()[0] for line in lines if " FAILED" in line or " ERROR" in line]
    return failed[0] if failed else f"pytest ended with {code}" if code else None


def _busy_s(pid: int) -> float:
    """Return the processor's seconds of a process, so that other work on the machine takes nothing from the tests."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def _kill_group(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _change(before: str, after: str) -> str:
    """Return the first line that differs, before and after."""
    pairs = zip(before.splitlines(), after.splitlines(), strict=False)
    return next((f"{one.strip()}  ->  {other.strip()}" for one, other in pairs if one != other), "(a line is gone)")


def _environment(root: Path) -> dict[str, str]:
    quiet = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "DO_NOT_TRACK": "1", "OMP_NUM_THREADS": "1"}
    return {**os.environ, **quiet, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}


def _copied(folder: Path) -> Path:
    """Copy what tests need of the repository."""
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    return folder


# the score


def interval(seen: int, number: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share."""
    z, share = 1.96, seen / number
    middle = (share + z**2 / (2 * number)) / (1 + z**2 / number)
    half = z / (1 + z**2 / number) * math.sqrt(share * (1 - share) / number + z**2 / (4 * number**2))
    return middle - half, middle + half


def main() -> int:
    """Judge a sample, and print the survivors and the score."""
    parser = argparse.ArgumentParser("python bench/mutants.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--number", type=int, default=100, help="number of mutants; default: 100")
    parser.add_argument("--seed", type=int, default=0, help="draws them; default: 0")
    parser.add_argument("--output", type=Path, help="write every result to this file as JSON")
    options = parser.parse_args()
    drawn = random.Random(options.seed).sample(list(all_mutants()), options.number)
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        folder = Path(name)
        covered = measure_coverage(folder)
        copies = SimpleQueue[Path]()
        for number in range(WORKERS):
            copies.put(_copied(folder / f"copy-{number}"))

        def judged(mutant: Mutant) -> Result:
            copy = copies.get()
            try:
                result = judge(mutant, covered, copy)
            finally:
                copies.put(copy)
            print(
                f"{'seen    ' if result.seen_by else 'SURVIVED'} {mutant.path}:{mutant.line} {result.code}", flush=True
            )
            return result

        with ThreadPoolExecutor(WORKERS) as threads:
            results = list(threads.map(judged, drawn))
    return _report(results, options.output)


def _report(results: Sequence[Result], output: Path | None) -> int:
    survivors = [result for result in results if not result.seen_by]
    seen, (low, high) = len(results) - len(survivors), interval(len(results) - len(survivors), len(results))
    print(f"\n{len(survivors)} survived:")
    for mutant, code, _, tests, _ in survivors:
        print(f"{mutant.path}:{mutant.line}  {code}  ({tests} tests run the line)")
    print(
        f"{seen} of {len(results)} mutants were seen: {seen / len(results):.0%}, 95 % interval {low:.0%} to {high:.0%}"
    )
    if output:
        output.write_text(json.dumps([{**r._asdict(), "mutant": r.mutant._asdict()} for r in results], indent=1) + "\n")
    return 0 if seen >= WANTED * len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
