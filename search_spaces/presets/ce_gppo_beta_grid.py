"""The values of beta1 and beta2 that the CE-GPPO paper compares (arXiv:2509.20712, Fig. 3), in all 15 combinations.

The paper shows (1, .5), (1, .75), (.75, 1), (.5, 1), (.25, 1), (0, 1) for its 1.5B model and (0, 1), (.5, 1), (.75, 1),
(1, 1) for its 7B one.
"""

from search_spaces.distributions import Categorical
from search_spaces.space import SearchSpace

SPACE = SearchSpace(
    {
        "loss.beta1": Categorical(choices=(0.0, 0.25, 0.5, 0.75, 1.0)),
        "loss.beta2": Categorical(choices=(0.5, 0.75, 1.0)),
    }
)
