"""Published or vetted search spaces by name. All vary the `ce_gppo` loss; the base configuration names that loss."""

from typing import Final

from search_spaces.presets import beta_epsilon, ce_gppo_beta_grid, seed_ranges
from search_spaces.space import SearchSpace

PRESETS: Final[dict[str, SearchSpace]] = {
    "beta_epsilon": beta_epsilon.SPACE,
    "ce_gppo_beta_grid": ce_gppo_beta_grid.SPACE,
    "seed_ranges": seed_ranges.SPACE,
}

__all__ = ["PRESETS"]
