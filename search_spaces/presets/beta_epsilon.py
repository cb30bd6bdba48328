"""How much of the gradient to keep against how far the ratio may go: beta1 x epsilon, beta2 at the paper's 1."""

from search_spaces.distributions import Categorical, Fixed, Float
from search_spaces.space import SearchSpace

SPACE = SearchSpace(
    {
        "loss.beta1": Categorical(choices=(0.0, 0.5, 1.0)),
        "loss.beta2": Fixed(value=1.0),
        "loss.epsilon": Float(low=0.15, high=0.3, step=0.05),
    }
)
