"""`python -m tests.chaos`: faults and verbs at random over a real installation, and a judgement at the end.

It starts `sweeps serve` in a temporary home, with SQLite, a local Ray and a local MLflow; runs a few small sweeps
undisturbed; then submits the same sweeps again and again, while processes are killed or stand still, the disk is
full, the database is locked and file handles run out. At the end every sweep must have ended as the undisturbed one.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.faults import FAULTS
from tests.chaos.run import chosen, run


def main() -> int:
    """Run the nemesis; return 0, or 1 if something is broken."""
    kinds = ", ".join(FAULTS)
    epilog = f"""kinds of faults: {kinds}

What it checks at the end, and some of it while it runs: an acknowledged sweep exists once by its key; its trials are
configs x seeds; each has one success; no two processes ever worked on one trial; events have no gaps and add up to
the rows; curves and reports are those of the undisturbed sweeps, to the last bit; MLflow has every point once; nothing
is left after the end. What is broken is printed with what was expected and seen, and the exit code is 1.

The seed draws the kinds, the victims and the moments. What they hit depends on how fast the machine is, so the same
seed gives the same plan, not the same run.

examples:
  python -m tests.chaos --minutes 2 --seed 1
  python -m tests.chaos --only "stop runner,kill worker" --minutes 5
"""
    parser = argparse.ArgumentParser(
        "python -m tests.chaos",
        description=__doc__,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--minutes", type=float, default=20, help="minutes of faults, undisturbed runs not counted (20)"
    )
    parser.add_argument("--seed", type=int, help="seed of all that is drawn; default: a new one, which is printed")
    parser.add_argument("--only", default="", metavar="KIND,…", help="only the kinds of faults that have these words")
    parser.add_argument(
        "--plant", choices=("no-fence", "no-rest"), help="plant a mistake in the service, to see that it is found"
    )
    options = parser.parse_args()
    try:
        kinds_chosen = chosen(options.only)
    except ValueError as error:
        parser.error(str(error))
    for name in [name for name in os.environ if name.startswith("SWEEPS_")]:
        del os.environ[name]  # a developer's own installation is not the one under test
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    seed, began = options.seed if options.seed is not None else random.randrange(10_000), time.monotonic()
    evidence = Path(tempfile.gettempdir()) / f"sweeps-chaos-evidence-{seed}-{int(time.time())}"

    def say(line: str) -> None:
        print(f"{time.monotonic() - began:6.0f} s  {line}", flush=True)

    say(f"seed {seed}, {options.minutes:g} minutes, {len(kinds_chosen)} kinds of faults")
    result = run(options.minutes, seed, kinds_chosen, say, evidence, options.plant)
    print("", *result.table, "", sep="\n")
    if result.broken:
        print(f"{len(result.broken)} BROKEN; database and logs are in {evidence}", *result.broken, sep="\n  ")
        return 1
    print("nothing is broken")
    return 0


if __name__ == "__main__":
    sys.exit(main())
