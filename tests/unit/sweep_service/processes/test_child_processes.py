import subprocess
import sys

import pytest

from sweep_service.processes.child_processes import end_in_words


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("raise SystemExit(3)", "with exit code 3"),
        ("os.kill(os.getpid(), 9)", "by signal 9 (SIGKILL), as Linux does when memory runs out"),
        ("os.kill(os.getpid(), 15)", "by signal 15 (SIGTERM)"),
        ("os.kill(os.getpid(), 40)", "by signal 40"),
    ],
)
def test_the_end_of_a_process_in_words(code: str, words: str) -> None:
    ended = subprocess.run([sys.executable, "-c", f"import os; {code}"], check=False)
    assert end_in_words(ended.returncode) == words
