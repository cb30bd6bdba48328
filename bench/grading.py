"""2,000 answers judged, 5 % of them poison: what a judgement costs, and that nothing is left behind.

    python bench/grading.py                       made-up answers whose equality is known
    python bench/grading.py --golds FOLDER        also: each answer of FOLDER/*.jsonl against itself and another one

The exit code is 1 if a judgement is wrong, a process is left, or memory or open files grow.
"""

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import NamedTuple

import psutil

from trainers.grading import GraderPool, GradingCounts, Verdict
from trainers.grading.grader_process import MEMORY_KEPT_BYTES, GraderProcess

POISON: dict[str, Callable[[int], str]] = {
    "tower": lambda n: f"{n}^{{9^{{9^{{9}}}}}}",
    "power": lambda n: f"10^{{10^{{10}}}}+{n}",
    "factorial": lambda n: f"{99_999_999 + n}!",
    "binomial": lambda n: rf"\binom{{{10**12 + n}}}{{{10**6}}}",
    "sum": lambda n: rf"\sum_{{k=1}}^{{{10**9 + n}}} \frac{{1}}{{k^2+\sin k}}",
    "integral": lambda n: rf"\int_0^{{{n}}} e^{{\sin(x^x)}} \, dx",
    "fractions": lambda n: r"\frac{1}{1+" * 60 + str(n) + "}" * 60,
    "roots": lambda n: r"\sqrt{2+" * 40 + str(n) + "}" * 40,
    "braces": lambda n: "{" * 200 + str(n) + "}" * 200,
    "unbalanced": lambda n: "{" * 200 + str(n),
    "long": lambda n: f"{n}+" * 30_000 + "1",
    "terms": lambda n: "+".join(f"x_{{{k}}}^{n}" for k in range(150)),
    "null": lambda n: f"{n}\0\0",
    "surrogate": lambda n: f"{n}\ud800 \udfff",
    "macros": lambda n: rf"\input{{/etc/passwd}}\def\x{{\x\x}}\x \write18{{touch {n}}}",
    "code": lambda n: f"__import__('os')._exit({n})",
    "zero": lambda n: rf"\frac{{{n}}}{{0}}",
    "matrix": lambda n: r"\begin{pmatrix}" + r"\\".join(["&".join(["x^x"] * 9)] * 9) + rf"\end{{pmatrix}}^{{{n}}}",
}
"""Answers that hang, eat memory or confuse; the number makes them differ, so that none is judged from memory."""


class Question(NamedTuple):
    """A pair of answers and whether they are equal."""

    kind: str
    gold: str
    answer: str
    equal: bool


def questions(number: int, poison_share: float, seed: int = 0) -> list[Question]:
    """Make up pairs of answers, shuffled; every kind of poison in turn."""
    draw = random.Random(seed)
    poisonous = round(number * poison_share)
    kinds = list(POISON.items())
    made = [_honest(draw, index) for index in range(number - poisonous)]
    for index in range(poisonous):
        kind, make = kinds[index % len(kinds)]
        made.append(Question(kind, rf"\frac{{{2 * index + 1}}}{{2}}", make(index // len(kinds) + 3), equal=False))
    draw.shuffle(made)
    return made


def _honest(draw: random.Random, index: int) -> Question:
    a, b, k = draw.randint(2, 999), draw.choice([3, 7, 11, 13]), draw.randint(2, 9)
    equal = index % 2 == 0
    c = a if equal else a + 1
    gold, answer = draw.choice(
        [
            (f"{a}", f"{c}"),
            (rf"\frac{{{a}}}{{{b}}}", rf"\frac{{{k * c}}}{{{k * b}}}"),
            (rf"{a}\sqrt{{{b}}}", rf"\sqrt{{{c * c * b}}}"),
            (f"(x+{a})^{{2}}", f"x^2+{2 * c}x+{c * c}"),
            (f"{a},{-a}", rf"\{{{-c}, {c}\}}"),
            (rf"\frac{{{a}}}{{8}}", f"{c / 8}"),
            (rf"{a}\pi", rf"\frac{{{k * c}\pi}}{{{k}}}"),
        ]
    )
    return Question("honest", gold, answer, equal)


class Cost(NamedTuple):
    """What judging took."""

    seconds: dict[str, list[float]]
    wrong: list[Question]
    parent_bytes: int
    """Growth of this process."""
    child_bytes: int
    """The most that a child held between two judgements."""
    left: int
    """Child processes alive after the pool was closed."""
    files: int
    """Growth of this process's open files."""
    counts: GradingCounts


def judge(asked: Sequence[Question], processes: int = 1, deadline_s: float = 1.0) -> Cost:
    """Judge one by one, as the worst use, and measure."""
    this = psutil.Process()
    seconds: dict[str, list[float]] = {}
    wrong: list[Question] = []
    child_bytes = 0
    before = set(this.children(recursive=True))
    with GraderPool(processes, deadline_s) as pool:
        pool.grade([(r"\frac{1}{2}", "0.5")])
        memory, files = this.memory_info().rss, this.num_fds()
        for question in asked:
            started = time.perf_counter()
            (verdict,) = pool.grade([(question.gold, question.answer)])
            seconds.setdefault(question.kind, []).append(time.perf_counter() - started)
            if verdict.equal is not question.equal:
                wrong.append(question)
            for child in set(this.children()) - before:
                child_bytes = max(child_bytes, child.memory_info().rss)
        grown, opened = this.memory_info().rss - memory, this.num_fds() - files
    left = len(set(this.children(recursive=True)) - before)
    return Cost(seconds, wrong, grown, child_bytes, left, opened, pool.counts)


def golds(file: Path) -> tuple[bool, str]:
    """Have math-verify alone judge each answer of a file against itself and another; whether none was refused."""
    answers = [json.loads(line)["answer"] for line in file.read_text(encoding="utf-8").splitlines()]
    draw = random.Random(0)
    others = [draw.choice([other for other in dict.fromkeys(answers) if other != answer]) for answer in answers]
    child, seconds = GraderProcess(60.0), list[float]()
    _ask(child, "1", "1")  # starts it
    refused = [answer for answer in answers if not _ask(child, answer, answer, seconds).equal]
    accepted = [pair for pair in zip(answers, others, strict=True) if _ask(child, *pair, seconds).equal]
    child.close()
    told = f"{file.name}: {len(answers)}, refused {len(refused)}, others accepted {len(accepted)}; {_times(seconds)}"
    return not refused, "\n    ".join([told, *map(str, [*refused, *accepted][:5])])


def _ask(child: GraderProcess, gold: str, answer: str, seconds: list[float] | None = None) -> Verdict:
    started = time.perf_counter()
    child.ask(gold, answer)
    while (verdict := child.poll()) is None:
        wait([child.fileno()], 0.05)
    if seconds is not None:
        seconds.append(time.perf_counter() - started)
    return verdict


def _times(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    return f"ms: median {1e3 * statistics.median(ordered):.2f}, p99 {1e3 * p99:.1f}, most {1e3 * ordered[-1]:.0f}"


def main() -> int:
    """Measure, print, and return 0 if nothing was wrong or left."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--golds", type=Path, metavar="FOLDER", help="JSONL files whose lines have an `answer`")
    parser.add_argument("--number", type=int, default=2000)
    parser.add_argument("--poison", type=float, default=0.05, help="share of poison")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--deadline-s", type=float, default=1.0)
    options = parser.parse_args()
    fine = True
    for file in sorted(options.golds.glob("*.jsonl")) if options.golds else []:
        accepted, told = golds(file)
        fine &= accepted
        sys.stdout.write(told + "\n")
    started = time.perf_counter()
    cost = judge(questions(options.number, options.poison), options.processes, options.deadline_s)
    lines = [
        f"{options.number} judged in {time.perf_counter() - started:.1f} s, deadline {options.deadline_s:g} s of CPU",
        f"  {cost.counts}",
        *(f"  {kind:12} {len(seconds):5}, {_times(seconds)}" for kind, seconds in sorted(cost.seconds.items())),
        f"  this process grew by {cost.parent_bytes / 2**20:.1f} MiB and {cost.files} open files",
        f"  largest child between answers: {cost.child_bytes / 2**20:.0f} MiB",
        f"  processes left {cost.left}, wrong judgements {len(cost.wrong)}",
        *(f"    {question}" for question in cost.wrong[:10]),
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    leaked = cost.left or cost.files > 0 or cost.parent_bytes > 50 << 20 or cost.child_bytes > MEMORY_KEPT_BYTES
    return 0 if fine and not (cost.wrong or leaked) else 1


if __name__ == "__main__":
    sys.exit(main())
