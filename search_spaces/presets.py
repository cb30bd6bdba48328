"""Published or vetted search spaces by name.

The base configuration names the loss that they vary: `dcpo` for `dcpo_bounds`, `bapo` for `bapo_bounds`, `ce_gppo` for
those of betas and epsilon. Those of advantages, terms and critic vary any loss.
"""

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
    # How strongly to pull towards the initial model: not at all, as in DAPO and CE-GPPO; 0.001 as in verl's recipes of
    # GRPO (kl_loss_coef); 0.04 as in GRPO's paper (arXiv:2402.03300 section 4.2), and a step between.
    "kl_reference": SearchSpace({"terms.kl.coefficient": Categorical(choices=(0.0, 0.001, 0.01, 0.04))}),
    # PPO with a critic: how far a token's advantage looks ahead, and what the values' loss weighs beside the policy's.
    # 0.95 and 0.1 are TRL's; with 1 a long completion's reward reaches its first token whole.
    "ppo_critic": SearchSpace(
        {
            "critic.gae_lambda": Categorical(choices=(0.95, 0.99, 1.0)),
            "critic.value_coeff": Categorical(choices=(0.1, 0.5)),
        }
    ),
    # The ranges to start from where nothing is known, for strategies that draw points.
    "seed_ranges": SearchSpace(
        {
            "loss.beta1": Float(low=0.0, high=1.0),
            "loss.beta2": Float(low=0.0, high=1.0),
            "loss.epsilon": Float(low=0.15, high=0.3),
        }
    ),
    # How much of the loss of tokens with positive advantages to keep (arXiv:2511.05993); 1 is the loss as it is.
    "positive_weight": SearchSpace(
        {"advantage.positive_weight.weight": Categorical(choices=(0.0, 0.25, 0.5, 0.75, 1.0))}
    ),
    # The entropy-based advantage (arXiv:2506.14758): off, and its alphas for PPO and GRPO; kappa is the paper's.
    "entropy_advantage": SearchSpace(
        {
            "advantage.entropy.alpha": Categorical(choices=(0.0, 0.1, 0.4)),
            "advantage.entropy.kappa": Fixed(value=2.0),
        }
    ),
    # GTPO and GRPO-S (arXiv:2508.04349) with the paper's share of 0.1, and with twice that.
    "entropy_reward": SearchSpace(
        {
            "advantage.entropy_reward.level": Categorical(choices=("token", "sequence")),
            "advantage.entropy_reward.share": Categorical(choices=(0.1, 0.2)),
        }
    ),
    # DCPO's epsilons in its paper (0.16, 0.2) and in its recipes (0.2, 0.28) (arXiv:2509.02333). All losses have such;
    # the largest bound, DCPO's own, makes a base with another loss an error.
    "dcpo_bounds": SearchSpace(
        {
            "loss.epsilon_low": Categorical(choices=(0.16, 0.2)),
            "loss.epsilon_high": Categorical(choices=(0.2, 0.28)),
            "loss.largest_bound": Fixed(value=10.0),
        }
    ),
    # BAPO's target and end of the lower bound in its example and in its configuration (arXiv:2510.18927).
    "bapo_bounds": SearchSpace(
        {
            "loss.target": Categorical(choices=(0.5, 1.0)),
            "loss.low_end": Categorical(choices=(0.8, 0.95)),
        }
    ),
}
