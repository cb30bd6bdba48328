"""Processes that end with their owner, and the Ray head of this machine."""
