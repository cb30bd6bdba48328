import os
from pathlib import Path

import pytest

from sweep_service.worker.sole_worker import AnotherWorker, sole_worker


def test_one_worker_at_a_time_works_on_a_sqlite_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'data' / 'sweeps.db'}"
    first = sole_worker(url)
    with pytest.raises(AnotherWorker, match=rf"process {os.getpid()}\) works on .*sweeps\.db.*stop that one"):
        sole_worker(url)
    other = sole_worker(f"sqlite:///{tmp_path / 'other.db'}")
    assert first is not None
    assert other is not None
    first.close()
    again = sole_worker(url)
    assert again is not None
    again.close()
    other.close()


@pytest.mark.parametrize("url", ["postgresql+psycopg://sweeps@db/sweeps", "sqlite://"])
def test_elsewhere_there_may_be_several(url: str) -> None:
    assert sole_worker(url) is None
