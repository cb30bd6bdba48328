"""The checks that a spec must pass before anything is stored, and the preview of its prompts."""
