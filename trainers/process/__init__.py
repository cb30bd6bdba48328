"""Processes and files of a run: lifelines, locks, durable files, events, progress."""
