"""What a run costs, measured by a few updates at full length before it starts."""
