"""The accuracy of a policy on held-out problems: avg@k and pass@k with their standard errors."""
