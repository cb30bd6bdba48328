import errno
import os
from pathlib import Path

import pytest
import torch

from trainers.errors import CheckpointError, ConfigError
from trainers.process.machine_faults import machine_fault

OF_THE_MACHINE = {"ENOSPC", "EDQUOT", "EFBIG", "EIO", "EROFS", "ESTALE", "EMFILE", "ENFILE"}
OF_A_SETTING = {"ENOENT", "EACCES", "ENOTDIR", "ENOMEM"}


@pytest.mark.parametrize("name", sorted(OF_THE_MACHINE | OF_A_SETTING))
def test_what_a_machine_cannot_do_now_is_its_fault_and_what_a_setting_names_wrongly_is_not(name: str) -> None:
    number = getattr(errno, name)
    told = os.strerror(number)
    for error in (
        OSError(number, told, "/runs/events.jsonl"),
        Exception(f"I/O error: {told} (os error {number})"),
        Exception(f"[Errno {number}] {told}"),
    ):
        assert machine_fault(error) == (str(error) if name in OF_THE_MACHINE else None)


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
