"""Rules that end tune runs early, each a pure function of what the runs have come to."""
