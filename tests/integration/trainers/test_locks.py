import subprocess
import sys
from pathlib import Path

import pytest

from trainers.process.locks import locked

HOLD = """
import sys
from pathlib import Path
from trainers.process.locks import locked
with locked(Path(sys.argv[1])):
    print(flush=True)
    sys.stdin.read()
"""


class GaveUpError(Exception):
    pass


def _give_up() -> None:
    raise GaveUpError


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", HOLD, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(GaveUpError), locked(lock, _give_up):
            pass
        holder.kill()
    with locked(lock, _give_up):
        pass
