"""Processes and files of a run: who ends with whom, locks, durable files, events, progress."""
