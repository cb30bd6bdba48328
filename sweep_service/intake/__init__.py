"""Checks a spec before anything is stored, and previews its prompts."""
