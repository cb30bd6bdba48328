"""The frozen completions: a fixed set from the initial policy, on which the trained policy is measured after rollouts.

The entropy of a policy's own completions also changes with prompts, lengths and texts; here only the policy changes.
Shapes: B completions, T completion tokens with padding.
"""

from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from trainers.record.metrics import STEP_SECTIONS
from trainers.rollouts.logprob_check import Forward
from trainers.rollouts.rollout import padded

_FILE: Final = "probe.pt"
_METRICS: Final = tuple(STEP_SECTIONS["Frozen completions"])
_CHANGE: Final = "entropy_change/measured"


class FrozenCompletions:
    """Measures the policy on completions that stay the same; until some are frozen or loaded, it measures nothing."""

    def __init__(self) -> None:
        self.rows: dict[str, Tensor] = {}
        """Frozen completions as the input of a `Forward`, by name, on the CPU."""
        self._initial_logprobs_BT = torch.empty(0)
        self.state: dict[str, float | None] = {"entropy": None}
        """State that a checkpoint's JSON keeps; `save` writes the completions."""
        self._latest: dict[str, float] = {}

    @torch.no_grad()
    def freeze(self, prompt_ids: list[list[int]], completion_ids: list[list[int]], pad: int, forward: Forward) -> None:
        """Freeze one completion of each prompt, as the policy behind `forward` has just sampled them; measure it."""
        prompts, completions = padded(prompt_ids, pad, "left"), padded(completion_ids, pad, "right")
        names = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask")
        self.rows = dict(zip(names, (*prompts, *completions), strict=True))
        self._initial_logprobs_BT = forward(self.rows)[0].cpu()
        self.measure(forward)
        self._latest = {}

    @torch.no_grad()
    def measure(self, forward: Forward) -> None:
        """Measure the present policy: a mean over all tokens for each metric."""
        if not self.rows:
            return
        mask_BT, before = self.rows["completion_mask"].bool(), self.state["entropy"]
        logprobs_BT, entropy_BT = (values_BT.cpu().double() for values_BT in forward(self.rows))
        log_ratios = (logprobs_BT - self._initial_logprobs_BT)[mask_BT]
        values = (entropy_BT[mask_BT], -log_ratios, log_ratios.expm1() - log_ratios)
        self._latest = {name: value.mean().item() for name, value in zip(_METRICS, values, strict=True)}
        self.state["entropy"] = entropy = self._latest["probe/entropy"]
        if before is not None:
            self._latest[_CHANGE] = entropy - before

    def take(self) -> dict[str, float | None]:
        """Return the metrics measured since the last call; None for those that were not."""
        latest, self._latest = self._latest, {}
        return {**dict.fromkeys((*_METRICS, _CHANGE)), **latest}

    def save(self, checkpoint: Path) -> None:
        """Write the completions into a checkpoint's folder."""
        if self.rows:
            torch.save({"rows": self.rows, "initial_logprobs_BT": self._initial_logprobs_BT}, checkpoint / _FILE)

    def load(self, checkpoint: Path) -> None:
        """Read the completions that `save` wrote, if any, without running code in them."""
        if (checkpoint / _FILE).exists():
            content = torch.load(checkpoint / _FILE, weights_only=True)
            self.rows, self._initial_logprobs_BT = content["rows"], content["initial_logprobs_BT"]
