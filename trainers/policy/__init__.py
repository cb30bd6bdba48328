"""The policy that is trained: loading it, making the tiny one, its checkpoints and its folder on disk."""
