"""Published or vetted search spaces by name. All vary the `ce_gppo` loss; the base configuration names that loss."""

from typing import Final

from search_spaces.distributions import Categorical, Fixed, Float
from search_spaces.space import SearchSpace

PRESETS: Final[dict[str, SearchSpace]] = {
    # How much of the gradient to keep against how far the ratio may go: beta1 x epsilon, beta2 at the paper's 1.
    "beta_epsilon": SearchSpace(
        {
            "loss.beta1": Categorical(choices=(0.0, 0.5, 1.0)),
            "loss.beta2": Fixed(value=1.0),
            "loss.epsilon": Float(low=0.15, high=0.3, step=0.05),
        }
    ),
    # The values of beta1 and beta2 that the CE-GPPO paper compares (arXiv:2509.20712, Fig. 3), in all 15 combinations.
    # The paper shows (1, .5), (1, .75), (.75, 1), (.5, 1), (.25, 1), (0, 1) for its 1.5B model and (0, 1), (.5, 1),
    # (.75, 1), (1, 1) for its 7B one.
    "ce_gppo_beta_grid": SearchSpace(
        {
            "loss.beta1": Categorical(choices=(0.0, 0.25, 0.5, 0.75, 1.0)),
            "loss.beta2": Categorical(choices=(0.5, 0.75, 1.0)),
        }
    ),
    # The ranges to start from where nothing is known, for the strategies random and tpe.
    "seed_ranges": SearchSpace(
        {
            "loss.beta1": Float(low=0.0, high=1.0),
            "loss.beta2": Float(low=0.0, high=1.0),
            "loss.epsilon": Float(low=0.15, high=0.3),
        }
    ),
}
