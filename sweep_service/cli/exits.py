"""Exit codes, for scripts."""

from enum import IntEnum


class ExitCode(IntEnum):
    """The code with which a command ends. Usage errors are 2, as everywhere."""

    OK = 0
    ERROR = 1
    USAGE = 2
    INVALID_SPEC = 3
    UNAUTHORIZED = 4
    NOT_FOUND = 5
    CONFLICT = 6
    SWEEP_FAILED = 7
    SWEEP_CANCELLED = 8
    TOO_LATE = 9
    UNREACHABLE = 10
    NOT_CHECKED = 11
    INTERRUPTED = 130


HELP = """Exit codes

\b
0 ok                    1 error                   2 usage
3 sweep cannot run      4 token missing or wrong  5 not found
6 conflict, or not yet  7 the sweep FAILED        8 it was CANCELLED
9 out of time           10 no server answers       11 plan could not read data
130 interrupted"""
