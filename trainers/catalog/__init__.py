"""Models, datasets and benchmarks of this machine, by name."""
