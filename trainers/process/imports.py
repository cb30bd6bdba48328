"""Imports of torch, transformers and trl, which take seconds."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


def keep_imports() -> None:
    """Have the garbage collector leave alone what there is now: to look at all of it takes a tenth of a second.

    A fork then touches, and thereby copies, less of what it shares with its parent.
    """
    gc.collect()
    gc.freeze()


@contextmanager
def without_collections() -> Generator[None]:
    """Keep the garbage collector still during imports: it would find nothing, in a fifth of their time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
