"""PPO's critic in the trainer: a value head that reads the policy's last hidden state, its targets and its state.

The head is no part of the model, so checkpoints stay ordinary model folders; its parameters are in the policy's
optimizer, in groups of their own. Shapes: B completions, S tokens of prompt and completion, T completion tokens, H
hidden.
"""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch
from peft import PeftModel
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from trainers.config import TrainingConfig
from trainers.losses.critic import CriticParams, gae, moments, normalized
from trainers.record.rollout_stats import critic_stats

_FILE: Final = "value_head.pt"


class Critic:
    """A linear value head, V = w h + b, which begins at 0. All layers below it are shared with the policy.

    Its loss is differentiated through the hidden state, too, so it also trains the policy's layers, weighted by
    `value_coeff`.

    Args:
        policy: the causal language model, perhaps with LoRA adapters.
    """

    def __init__(self, params: CriticParams, policy: Any, config: TrainingConfig, accelerator: Any) -> None:
        self._params, self._optimizer_config, self._accelerator = params, config.optimizer, accelerator
        self._read: list[Tensor] | None = None
        language_model: Any = policy.get_base_model() if isinstance(policy, PeftModel) else policy
        self.head = torch.nn.Linear(language_model.config.get_text_config().hidden_size, 1, device=accelerator.device)
        with torch.no_grad():
            for parameter in self.head.parameters():
                parameter.zero_()
        language_model.base_model.register_forward_hook(self._after_layers)

    def _after_layers(self, _: Any, __: Any, output: Any) -> None:
        if self._read is None:
            return
        hidden_BSH = output.last_hidden_state
        with torch.autocast(hidden_BSH.device.type, enabled=False):
            self._read.append(self.head(hidden_BSH.to(self.head.weight.dtype)).squeeze(-1))

    @contextmanager
    def reading(self) -> Generator[None]:
        """Note the values of all rows that the policy reads in this block, for `values`."""
        self._read = []
        try:
            yield
        except BaseException:
            self._read = None
            raise

    def values(self, width: int) -> Tensor:
        """Return the values (B, T) before each of the last `width` tokens read, and forget them."""
        assert self._read, "the policy has read nothing"
        values_BS, self._read = torch.cat(self._read), None
        return values_BS[:, -width - 1 : -1]

    def targets(
        self, rewards_B: Tensor, old_values_BT: Tensor, mask_BT: Tensor
    ) -> tuple[dict[str, Tensor], dict[str, float | None]]:
        """Return a rollout's advantages, old values and the values' targets, and its metrics over all processes."""
        raw_BT = gae(rewards_B, old_values_BT, mask_BT, self._params)
        missing_B1 = rewards_B.isnan().unsqueeze(1)
        judged_BT = mask_BT.bool() & ~missing_B1
        returns_BT = (raw_BT + old_values_BT).masked_fill(missing_B1, torch.nan)
        sums = torch.stack([moments(part_BT, judged_BT) for part_BT in (raw_BT, old_values_BT, returns_BT)])
        if self._accelerator.num_processes > 1:
            sums = self._accelerator.reduce(sums, reduction="sum")
        advantages_BT = normalized(raw_BT, judged_BT, sums[0]) if self._params.normalize else raw_BT
        tensors = {"advantages": advantages_BT, "old_values": old_values_BT, "returns": returns_BT}
        return tensors, critic_stats(*sums)

    # optimizer and checkpoints

    def join(self, optimizer: torch.optim.Optimizer) -> None:
        """Let the policy's optimizer update the head, too."""
        config, rate = self._optimizer_config, self._params.learning_rate or self._optimizer_config.learning_rate
        for parameter, decay in ((self.head.weight, config.weight_decay), (self.head.bias, 0.0)):
            optimizer.add_param_group({"params": [parameter], "lr": rate, "weight_decay": decay})
        optimizer.register_step_post_hook(lambda *_: self.head.zero_grad())

    def clip_grad_norm(self) -> Tensor:
        """Average the head's gradient over processes, cut it to `max_grad_norm` by itself, and return its norm."""
        for parameter in self.head.parameters():
            if self._accelerator.num_processes > 1 and parameter.grad is not None:
                parameter.grad = self._accelerator.reduce(parameter.grad, reduction="mean")
        return clip_grad_norm_(self.head.parameters(), self._optimizer_config.max_grad_norm)

    def save(self, folder: Path) -> None:
        """Write the head's weights beside the model's; its moments are in the optimizer's state."""
        torch.save(self.head.state_dict(), folder / _FILE)

    def load(self, folder: Path) -> None:
        """Read what `save` wrote."""
        device = self._accelerator.device.type
        self.head.load_state_dict(torch.load(folder / _FILE, weights_only=True, map_location=device))
