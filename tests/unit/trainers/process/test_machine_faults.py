import errno
import os
from pathlib import Path

import pytest
import torch

from trainers.errors import CheckpointError, ConfigError
from trainers.process.machine_faults import machine_fault


@pytest.mark.parametrize(
    "number",
    [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.ESTALE, errno.EMFILE, errno.ENFILE],
)
def test_what_a_machine_cannot_do_now_is_its_fault(number: int) -> None:
    error = OSError(number, os.strerror(number), "/runs/events.jsonl")
    assert machine_fault(error) == str(error)
    for text in (f"I/O error: {os.strerror(number)} (os error {number})", f"[Errno {number}] {os.strerror(number)}"):
        assert machine_fault(Exception(text)) == text


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.ENOMEM])
def test_what_a_setting_names_wrongly_is_not(number: int) -> None:
    assert machine_fault(OSError(number, os.strerror(number))) is None
    for text in (f"I/O error: {os.strerror(number)} (os error {number})", f"[Errno {number}] {os.strerror(number)}"):
        assert machine_fault(Exception(text)) is None


def test_a_cause_counts_whatever_was_raised_of_it() -> None:
    for made in (ConfigError("data cannot be read"), CheckpointError("step-3 is incomplete")):
        made.__cause__ = ValueError("torn")
        made.__cause__.__cause__ = OSError(errno.EIO, "Input/output error")
        assert machine_fault(made) == "[Errno 5] Input/output error"
    assert machine_fault(ConfigError("data cannot be read")) is None


def test_torch_that_cannot_write_is_understood(tmp_path: Path) -> None:
    """It says so in words of its own; /dev/full lets nothing be written."""
    full = tmp_path / "model"
    full.symlink_to("/dev/full")
    with pytest.raises(RuntimeError) as error:
        torch.save({"weights": torch.zeros(100_000)}, full)
    assert machine_fault(error.value) is not None
    assert machine_fault(RuntimeError("The size of tensor a (3) must match the size of tensor b (4)")) is None


def test_any_number_in_a_text_may_name_the_fault() -> None:
    text = "[Errno 2] No such file: 'a'; then [Errno 28] No space left on device"
    assert machine_fault(Exception(text)) == text
