"""Ledgers over a real store: the only thing that is missing is Ray, so that any nodes can be there."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sweep_service.runner.ledger import Ledger
from sweep_service.runner.wishes import Wishes
from sweep_service.settings import Settings
from sweep_service.store import Fence, Store
from tests.stored_sweeps import NODES


def ledger_of(
    store: Store, fence: Fence, home: Path, slots: int = 2, fits: Callable[[int, int], bool] | None = None
) -> Ledger:
    """Return the ledger of a new runner, whose storage takes files.

    Args:
        slots: number of trials and evaluations together that may run at a time.
        fits: in place of `slots`, whether so many trials and so many evaluations may run at a time.
    """
    settings, wishes = Settings(home=home), Wishes(store, fence.sweep_id)
    settings.storage.mkdir(parents=True, exist_ok=True)
    fits = fits or (lambda *running: sum(running) <= slots)
    return Ledger(store, fence, settings, fits, wishes, lambda: NODES, lambda: None)


def lines_of(events: Sequence[dict[str, Any]]) -> str:
    """Return what a trainer writes of its events."""
    return "".join(json.dumps(event) + "\n" for event in events)
