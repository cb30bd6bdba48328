"""Tells errors of the machine, such as a full disk, from errors of the program and its settings."""

import errno
import re
from typing import Final

from trainers.errors import causes

_ERRNOS: Final = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EIO,
        errno.EFBIG,  # the limit of a file's size, as `ulimit -f` sets it
        errno.EROFS,  # so the system mounts a disk that had errors
        errno.ESTALE,
        errno.EMFILE,
        errno.ENFILE,
    }
)
_IN_TEXT: Final = re.compile(r"\[Errno (\d+)\]|\(os error (\d+)\)")
"""The number of an error of the system, as Python names it, and libraries in Rust do, such as safetensors."""
_TORCH: Final = ("unexpected pos", "iostream error", "PytorchStreamWriter failed")
"""Torch's words for a file that cannot be written; they do not say why."""


def machine_fault(error: BaseException) -> str | None:
    """Return what the machine could not do, if this error or one of its causes says so; None for all other errors.

    Such an error says nothing about the run: the same command goes on once the machine is well again.
    """
    for link in causes(error):
        text = str(link)
        if (isinstance(link, OSError) and link.errno in _ERRNOS) or names_machine_fault(text):
            return text
        if isinstance(link, RuntimeError) and any(words in text for words in _TORCH):
            return f"a file could not be written: {text}"
    return None


def names_machine_fault(text: str) -> bool:
    """True if a text names, by its number, an error of the machine."""
    return any(int(python or rust) in _ERRNOS for python, rust in _IN_TEXT.findall(text))
