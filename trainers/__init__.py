"""One training run of a policy: data, rollouts, policy loss, evaluation, checkpoints and a record of every step."""
