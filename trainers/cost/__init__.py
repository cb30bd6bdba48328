"""The cost of a run, measured by a few updates at full length before it starts."""
