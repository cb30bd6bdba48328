"""The trained policy on a probe, rollout by rollout: the record of `trainers.record.frozen_probe` over a run."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from trainers.record.frozen_probe import Forward, Probe

_FILE: Final = "probe.pt"
_CHANGE: Final = "entropy_change/measured"

Sampled = tuple[list[list[int]], list[list[int]]]
"""Token ids of prompts and of one completion of each."""


class ProbeLog:
    """Measures after every rollout; without completions it stays empty.

    Args:
        completions: of the probe; 0 for no probe.
    """

    def __init__(self, completions: int) -> None:
        self._completions = completions
        self._probe: Probe | None = None
        self._entropy: float | None = None
        self._latest: dict[str, float] = {}

    def begin(self, sample: Callable[[int], Sampled], pad: int, forward: Forward) -> None:
        """Freeze completions of the policy that training starts from."""
        if self._completions:
            prompt_ids, completion_ids = sample(self._completions)
            self._probe = Probe.frozen(prompt_ids, completion_ids, pad, forward)
            self._entropy = self._probe.measure(forward)["probe/entropy"]

    def measure(self, forward: Forward) -> None:
        """Measure the present policy."""
        if self._probe is None:
            return
        self._latest, before = self._probe.measure(forward), self._entropy
        self._entropy = self._latest["probe/entropy"]
        if before is not None:
            self._latest[_CHANGE] = self._entropy - before

    def take(self) -> dict[str, float | None]:
        """What was measured since it was last asked, None for what was not."""
        latest, self._latest = self._latest, {}
        return {**dict.fromkeys((*Probe.METRICS, _CHANGE)), **latest}

    @property
    def state(self) -> dict[str, Any]:
        """What a checkpoint's record keeps of this; `save` adds the completions."""
        return {"entropy": self._entropy}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a `state`."""
        self._entropy = state.get("entropy")

    def save(self, checkpoint: Path) -> None:
        """Write the completions into a checkpoint's folder."""
        if self._probe is not None:
            self._probe.save(checkpoint / _FILE)

    def load(self, checkpoint: Path) -> None:
        """Read what `save` wrote, if anything."""
        if (checkpoint / _FILE).exists():
            self._probe = Probe.load(checkpoint / _FILE)
