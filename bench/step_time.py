"""What an optimizer step costs: ours with every metric, beside TRL's stock `dapo` step, on the same batches."""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Final

import torch
from step_recording import SHAPES, record

_EPILOG: Final = """\
what is timed
  All of the Hugging Face Trainer's loop: forward, loss, backward, gradient clip, AdamW, metrics, logging. Ours writes
  every metric of docs/metrics.md to events.jsonl; TRL computes its own and prints them to nowhere. Same weights,
  batches, loss (bounds 0.8 and 1.28, dual clip 10), vocabulary tile; one thread. Sampling, evaluation, the data loader
  and our probe (once a rollout, given beside) are not in it.

how
  Each pair is one process a side. They take turns in the order ours-TRL-TRL-ours (or the other way round), which gives
  one ratio; the figure is the median over all pairs, with a 95 % interval from resampling pairs and their ratios.
  Neighbours on the machine disturb CPU time less than wall time. Peak memory is the process's while it is timed,
  libraries included, and what of it lies above the libraries.
  Before anything is timed both sides must agree: losses and gradient within 1e-5 of their size.

examples
  python bench/step_time.py                          all shapes, about seven minutes on a quiet core
  python bench/step_time.py --shape embedded         the embedded task's
  python bench/step_time.py --pairs 1 --repeats 2    a quick look
"""

Turn = dict[str, float]
"""What `step_side.py` answers: seconds and MiB."""

Repeat = tuple[list[Turn], list[Turn]]
"""Two turns of ours, two of TRL's."""


class Side:
    """A process that trains on the recorded batches, a turn at a time."""

    def __init__(self, name: str, folder: Path) -> None:
        script = Path(__file__).with_name("step_side.py")
        self._log = (folder / f"{name}.log").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, str(script), name, str(folder)],
            env={**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def turn(self) -> Turn:
        """Make a turn of updates; what they took."""
        assert self._process.stdin
        assert self._process.stdout
        try:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())
        except (BrokenPipeError, json.JSONDecodeError):
            self._process.wait()
            self._log.seek(0)
            raise SystemExit(f"one side failed:\n{self._log.read()[-4000:]}") from None

    def __enter__(self) -> "Side":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
        self._log.close()


def measure(folder: Path, ours_first: bool, repeats: int) -> list[Repeat]:
    """The turns of one pair of processes, after one that is compared and not timed."""
    with ExitStack() as stack:
        sides = [stack.enter_context(Side(name, folder)) for name in ("ours", "trl")]
        for side in sides:
            side.turn()
        _check_equal(folder)
        order = [0, 1, 1, 0] if ours_first else [1, 0, 0, 1]
        result = list[Repeat]()
        for _ in range(repeats):
            turns: Repeat = ([], [])
            for index in order:
                turns[index].append(sides[index].turn())
            result.append(turns)
        return result


def _check_equal(folder: Path) -> None:
    ours, stock = (torch.load(folder / f"{name}.pt") for name in ("ours", "trl"))
    for what in ("losses", "gradient"):
        error = ((ours[what] - stock[what]).norm() / stock[what].norm()).item()
        if not error < 1e-5:
            raise SystemExit(f"{what} differ by {error:.2g} of their size: there is nothing to compare")


def compare(name: str, pairs: int, repeats: int) -> str:
    """The lines of a shape."""
    shape = SHAPES[name]
    with tempfile.TemporaryDirectory() as temporary:
        record(shape, Path(temporary))
        measured = [measure(Path(temporary), pair % 2 == 0, repeats) for pair in range(pairs)]

    def times(what: str, key: str) -> str:
        def of(turns: list[Turn]) -> float:
            return sum(turn[key] for turn in turns) / len(turns) / shape.updates

        ratios = [[of(ours) / of(stock) for ours, stock in pair] for pair in measured]
        ours_ms, stock_ms = (1e3 * median(of(repeat[side]) for pair in measured for repeat in pair) for side in (0, 1))
        low, high = _interval(ratios)
        middle = median(ratio for pair in ratios for ratio in pair)
        return f"  {what:22}{ours_ms:9.2f} ms {stock_ms:9.2f} ms {middle:8.3f}   {low:.3f} to {high:.3f}"

    def memory(what: str, of: Callable[[Turn], float]) -> str:
        ours, stock = (median(of(pair[-1][side][-1]) for pair in measured) for side in (0, 1))
        return f"  {what:22}{ours:9.1f} MiB{stock:9.1f} MiB{ours / stock:9.3f}"

    probe = median(turn["probe_s"] for pair in measured for ours, _ in pair for turn in ours)
    return "\n".join(
        [
            f"{name}: {shape}",
            times("wall time", "wall_s"),
            times("CPU time", "cpu_s"),
            memory("peak memory", lambda turn: turn["peak_mib"]),
            memory("  above libraries", lambda turn: turn["peak_mib"] - turn["libraries_mib"]),
            f"  probe, once a rollout {1e3 * probe:9.2f} ms",
        ]
    )


def _interval(ratios: list[list[float]], draws: int = 4000) -> tuple[float, float]:
    """95 % interval of the median of all, from resampling pairs and, within them, repeats."""
    source = random.Random(0)
    medians = sorted(
        median(ratio for pair in source.choices(ratios, k=len(ratios)) for ratio in source.choices(pair, k=len(pair)))
        for _ in range(draws)
    )
    return medians[int(0.025 * draws)], medians[int(0.975 * draws)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        "bench/step_time.py", description=__doc__, epilog=_EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", choices=SHAPES, action="append", help="may be given again; default: all")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of processes (5)")
    parser.add_argument("--repeats", type=int, default=3, help="turns ours-TRL-TRL-ours of each pair (3)")
    options = parser.parse_args()
    print(f"{'one optimizer step':24}{'ours':>12}{'TRL dapo':>13}{'ratio':>9}   95 % interval", flush=True)
    for name in options.shape or SHAPES:
        print(compare(name, options.pairs, options.repeats), flush=True)


if __name__ == "__main__":
    main()
