"""A terminal for tests of what is asked and printed there alone."""

import io


class Terminal(io.StringIO):
    """Standard input or output that says it is a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True
