"""Settings of what is done with a run that shows a sign of ill health; the signs are in `health`. Pure."""

from typing import Literal

from pydantic import Field

from trainers.config import Frozen

Action = Literal["warn", "stop", "pause"]


class HealthActions(Frozen):
    """What is done with a run that shows a sign: the report warns, its config is dropped, or the sweep is paused."""

    answers_lost: Action | None = Field(
        default=None,
        description="It has lost half of its right answers: stop ends it at once as ruined, and it counts as "
        "objective.diverged; the default with early_stopping, else warn.",
    )
    reward_collapse: Action = Field(default="warn", description="Its reward fell below half of its best.")
    entropy_collapse: Action = Field(default="warn", description="Its entropy fell below a fifth of its start.")
    entropy_explosion: Action = Field(default="warn", description="Its entropy rose above 3 times its start.")
    reward_hacking_suspect: Action = Field(default="warn", description="Its reward rises as held-out accuracy falls.")
    length_hacking: Action = Field(default="warn", description="Its completions grow, or are cut at their limit.")
    dead_groups: Action = Field(default="warn", description="Most of its groups have equal rewards.")
    kl_explosion: Action = Field(default="warn", description="It went far from the initial model.")
    clip_dominated: Action = Field(default="warn", description="Much of its tokens lies outside the clip range.")

    @property
    def drops(self) -> bool:
        """True if a sign has configs dropped; the loss of its answers ends one run alone."""
        return any(getattr(self, name) == "stop" for name in type(self).model_fields if name != "answers_lost")

    @property
    def acts(self) -> bool:
        """True if a sign has more than a warning follow."""
        return any(getattr(self, name) not in (None, "warn") for name in type(self).model_fields)
