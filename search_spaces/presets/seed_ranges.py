"""The ranges to start from where nothing is known, for the strategies random and tpe."""

from search_spaces.distributions import Float
from search_spaces.space import SearchSpace

SPACE = SearchSpace(
    {
        "loss.beta1": Float(low=0.0, high=1.0),
        "loss.beta2": Float(low=0.0, high=1.0),
        "loss.epsilon": Float(low=0.15, high=0.3),
    }
)
