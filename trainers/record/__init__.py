"""The measurements of a run: names and units of metrics, statistics of rollouts and steps, frozen completions."""
