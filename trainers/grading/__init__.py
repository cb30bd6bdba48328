"""Whether an answer equals the gold answer: by its text where that settles it, else by math-verify in child processes.

The children hold what can hang, crash or eat memory; `GraderPool` is all that others use.
"""

from trainers.grading.pool import Counts, GraderPool
from trainers.grading.process import Verdict

__all__ = ["Counts", "GraderPool", "Verdict"]
