"""One training run from its configuration to its outcome: TRL's trainer with our parts, its schedule, its arguments."""
