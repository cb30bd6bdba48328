"""Plants small mistakes in the three packages, a sample drawn by a seed, and counts those that a test sees.

    python bench/mutants.py                                100 mutants, seed 0; up to two hours on two cores
    python bench/mutants.py --number 300 --seed 1 --only sweep_service/store
    python bench/mutants.py --list > mutants.jsonl         prints the sample, and plants nothing
    python bench/mutants.py --replay mutants.jsonl         plants the same mistakes, also at another commit
    python bench/mutants.py --replay bench/wiring.jsonl    plants 30 of wiring, chosen by hand, with their harm

`mutations.py` beside this file makes the mutants. Each is as likely as any other, so that a file has its share by the
number of its mutants. A mutant is known by its file and the text of its lines before and after, whichever lines stand
above them.

A first run of the quick tests with coverage, a quarter of an hour, tells which test runs which line; it is kept in
`build/` for the commit. Each mutant is planted in a copy of the repository, and the tests that run its line are run
there, the quickest first, until one fails or they have used two minutes of processor time. Where a line runs while its
module is imported, these are the tests that run any line of the module, then those of the modules that import it.

Coverage sees pytest's own processes. Code that only the processes run which tests start, such as that of Ray's actors,
`serve` and the modules `__main__`, has no tests here; its mutants are drawn all the same, and count as not seen. The
run says which modules these are. The exit code is 1 if fewer than 90 % of the mutants are seen.
"""

import argparse
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, NamedTuple

import psutil
from line_tests import PYTEST, ROOT, WAIT_S, WORKERS, Covered, copied, environment, git, is_below, measure, modules

LIMIT_S: Final = 120.0
"""Processor time for the tests of a mutant, and all processes that they start."""
WANTED: Final = 0.9


class Mutant(NamedTuple):
    """A mistake in one file."""

    path: str
    before: str
    """Whole lines that stand once in the file."""
    after: str

    @classmethod
    def between(cls, path: str, source: str, changed: str) -> "Mutant":
        """Return the mutant that changes a source so: the lines that differ, and above them what makes them unique."""
        old, new = source.splitlines(keepends=True), changed.splitlines(keepends=True)
        first = _common(old, new)
        last = min(_common(old[::-1], new[::-1]), min(len(old), len(new)) - first)
        while first and source.count("".join(old[first : len(old) - last])) != 1:
            first -= 1
        return cls(path, "".join(old[first : len(old) - last]), "".join(new[first : len(new) - last]))

    def planted(self, source: str) -> str | None:
        """Return the source with this mistake in it; None if it does not have the lines, or has them twice."""
        return source.replace(self.before, self.after) if source.count(self.before) == 1 else None

    def line(self, source: str) -> int:
        """Return the number of the first line that differs."""
        above = source[: source.index(self.before)].count("\n")
        return 1 + above + _common(self.before.splitlines(), self.after.splitlines())

    @property
    def change(self) -> str:
        """The first line that differs, before and after, in one line."""
        old, new = self.before.splitlines(), self.after.splitlines()
        place = _common(old, new)
        was, now = (lines[place].strip() if place < len(lines) else "(gone)" for lines in (old, new))
        return f"{was}  ->  {now}"


class Result(NamedTuple):
    """What became of a mutant."""

    mutant: Mutant
    line: int | None
    """Number of its line; None if the file does not have it any more, so that nothing was planted."""
    tests: int
    """Number of tests that it met at most."""
    seen_by: str | None
    """The test that failed; None, if none did."""
    seconds: float

    @property
    def word(self) -> str:
        """The result in one word."""
        return "gone" if self.line is None else "seen" if self.seen_by else "SURVIVED"


def _common(old: Sequence[str], new: Sequence[str]) -> int:
    """Return how many lines are the same before the first that differs."""
    pairs = zip(old, new, strict=False)
    return next((place for place, (one, other) in enumerate(pairs) if one != other), min(len(old), len(new)))


# the sample


def sample(number: int, seed: int, only: Sequence[str]) -> list[Mutant]:
    """Draw mutants that are Python, all as likely, of the modules below the paths `only`, or of all."""
    from mutations import Mutations  # brings libcst, which only a drawing needs

    sources = {
        path: (ROOT / path).read_text(encoding="utf-8") for path in modules() if not only or is_below(path, only)
    }
    every = {path: Mutations(source) for path, source in sources.items()}
    places = [(path, place) for path, mutations in every.items() for place in range(len(mutations))]
    drawn = dict[Mutant, None]()
    for path, place in random.Random(seed).sample(places, len(places)):
        if len(drawn) == number:
            break
        changed = every[path][place]
        if changed != sources[path] and _is_python(changed):
            drawn[Mutant.between(path, sources[path], changed)] = None
    return list(drawn)


def _is_python(source: str) -> bool:
    try:
        compile(source, "mutant", "exec")
    except SyntaxError:
        return False
    return True


def read_mutants(file: Path) -> list[Mutant]:
    """Read mutants, one a line; a list of results is one of mutants, too."""
    return [Mutant(row["path"], row["before"], row["after"]) for row in _rows(file)]


def read_results(file: Path) -> list[Result]:
    """Read the results of a run that was broken off; none if there is no such file."""
    rows = _rows(file) if file.exists() else []
    return [
        Result(Mutant(row["path"], row["before"], row["after"]), *(row[name] for name in Result._fields[1:]))
        for row in rows
    ]


def as_line(result: Result) -> str:
    """Return a result as a line of JSON."""
    return json.dumps(result.mutant._asdict() | {name: getattr(result, name) for name in Result._fields[1:]}) + "\n"


def _rows(file: Path) -> list[dict[str, Any]]:
    whole = [line for line in file.read_text(encoding="utf-8").splitlines(keepends=True) if line.endswith("\n")]
    return [json.loads(line) for line in whole]


# one mutant


def judge(mutant: Mutant, tests: Sequence[str], copy: Path) -> Result:
    """Plant a mutant in a copy of the repository, and run the tests of its line until one fails."""
    path, began = copy / mutant.path, time.monotonic()
    source, times = path.read_text(encoding="utf-8"), path.stat()
    planted = mutant.planted(source)
    assert planted is not None
    try:
        path.write_text(planted, encoding="utf-8")
        seen_by = _first_failure(tests, copy)
    finally:
        path.write_text(source, encoding="utf-8")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # else the mutant's bytecode may pass for this one's
    return Result(mutant, mutant.line(source), len(tests), seen_by, round(time.monotonic() - began, 1))


def _first_failure(tests: Sequence[str], copy: Path) -> str | None:
    """Run tests in their order within the limits, and name the first that fails; None, if none did."""
    if not tests:
        return None
    listed, log, began = copy / "tests-of-a-mutant", copy / "log-of-a-mutant", time.monotonic()
    listed.write_text("\n".join(tests))
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*PYTEST, "-n0", "-x", "--timeout=120", "-vv", "--tb=no", f"@{listed}"],
            cwd=copy,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment(copy),
            start_new_session=True,
        )
        try:
            while (code := process.poll()) is None and time.monotonic() - began < WAIT_S:
                if _busy_s(process.pid) >= LIMIT_S:
                    break
                time.sleep(0.2)
        finally:
            _kill_group(process)
    lines = log.read_text(errors="replace").splitlines()
    failed = [line.split()[0] for line in lines if " FAILED" in line or " ERROR" in line]
    return failed[0] if failed else f"pytest ended with {code}" if code else None


def _busy_s(pid: int) -> float:
    """Return the processor's seconds of a process and of all below it, so that other work takes nothing from them."""
    total = 0.0
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                total += sum(one.cpu_times()[:4])  # user and system, its own and that of children that have ended
    return total


def _kill_group(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


# the score


def interval(seen: int, number: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share."""
    z, share = 1.96, seen / number
    middle = (share + z**2 / (2 * number)) / (1 + z**2 / number)
    half = z / (1 + z**2 / number) * math.sqrt(share * (1 - share) / number + z**2 / (4 * number**2))
    return middle - half, middle + half


def main() -> int:
    """Judge a sample, and print the survivors and the score."""
    options = _options()
    if options.replay:
        mutants = read_mutants(options.replay)
        mutants = [one for one in mutants if not options.only or is_below(one.path, options.only)]
    else:
        mutants = sample(options.number, options.seed, options.only)
    if options.list:
        print("".join(json.dumps(mutant._asdict()) + "\n" for mutant in mutants), end="")
        return 0
    earlier = {result.mutant: result for result in (read_results(options.results) if options.results else ())}
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        for result in _judged([one for one in mutants if one not in earlier], options, Path(name)):
            earlier[result.mutant] = result
            print(f"{result.word:8} {result.mutant.path}:{result.line} {result.mutant.change}", flush=True)
            if options.results:
                with options.results.open("a", encoding="utf-8") as file:
                    file.write(as_line(result))
    return report([earlier[mutant] for mutant in mutants])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python bench/mutants.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--number", type=int, default=100, help="number of mutants; default: 100")
    parser.add_argument("--seed", type=int, default=0, help="draws them; default: 0")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="PATH", help="draw from these modules or folders alone"
    )
    parser.add_argument("--list", action="store_true", help="print the mutants, one a line as JSON, and plant none")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="plant these mutants, as --list prints them")
    parser.add_argument(
        "--results", type=Path, metavar="FILE", help="add each result; a run that was broken off goes on"
    )
    parser.add_argument("--coverage", type=Path, metavar="FILE", help="use this coverage pass, or write it there")
    parser.add_argument("--tests", nargs="+", default=[], metavar="PATH", help="measure and run these tests alone")
    return parser.parse_args()


def _judged(mutants: Sequence[Mutant], options: argparse.Namespace, folder: Path) -> Iterator[Result]:
    """Yield the results in the order in which they come."""
    paths = {mutant.path for mutant in mutants if (ROOT / mutant.path).exists()}
    sources = {path: (ROOT / path).read_text(encoding="utf-8") for path in paths}
    there = [mutant for mutant in mutants if mutant.planted(sources.get(mutant.path, "")) is not None]
    yield from (Result(mutant, None, 0, None, 0.0) for mutant in mutants if mutant not in there)
    if not there:
        return
    covered = _covered(options, folder)

    def tests_of(mutant: Mutant) -> list[str]:
        source = sources[mutant.path]
        return covered.of(mutant.path, source, mutant.line(source))

    jobs = [(mutant, tests_of(mutant)) for mutant in there]
    copies = SimpleQueue[Path]()
    for number in range(WORKERS):
        copies.put(copied(folder / f"copy-{number}"))

    def judged(job: tuple[Mutant, list[str]]) -> Result:
        copy = copies.get()
        try:
            return judge(*job, copy)
        finally:
            copies.put(copy)

    with ThreadPoolExecutor(WORKERS) as threads:
        yield from (future.result() for future in as_completed([threads.submit(judged, job) for job in jobs]))


def _covered(options: argparse.Namespace, folder: Path) -> Covered:
    """Return the coverage pass of this commit, which is made unless it is there already."""
    commit = git("describe", "--always", "--abbrev=12", "--dirty", "--exclude=*")
    is_kept = not options.tests and not commit.endswith("-dirty")
    file = options.coverage or (ROOT / "build" / "mutants" if is_kept else folder) / f"{commit}.coverage"
    if not file.exists():
        measure(file, options.tests, folder)
    covered = Covered(file)
    print(f"no test runs a line, in pytest's own process, of: {', '.join(covered.blind)}", file=sys.stderr)
    return covered


def report(results: Sequence[Result]) -> int:
    """Print the survivors and the score, and return the exit code."""
    planted = [result for result in results if result.line is not None]
    survivors = [result for result in planted if not result.seen_by]
    if not planted:
        raise SystemExit("none of the mutants could be planted: their lines are gone")
    seen, (low, high) = len(planted) - len(survivors), interval(len(planted) - len(survivors), len(planted))
    print(f"\n{len(survivors)} survived:")
    for mutant, line, tests, *_ in survivors:
        print(f"{mutant.path}:{line}  {mutant.change}  ({tests} tests run the line)")
    if gone := len(results) - len(planted):
        print(f"{gone} could not be planted, because their lines are gone")
    share = seen / len(planted)
    print(f"{seen} of {len(planted)} mutants were seen: {share:.0%}, 95 % interval {low:.0%} to {high:.0%}")
    return 0 if share >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
