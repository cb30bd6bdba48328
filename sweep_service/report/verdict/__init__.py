"""From confirm results to the verdict: comparisons, collapses, ties, and what to train next."""
