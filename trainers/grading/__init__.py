"""Tells whether an answer equals the gold answer: by its text where that settles it, else by math-verify in children.

Child processes hold what can hang, crash or eat memory; `GraderPool` is all that others use.
"""

from trainers.grading.grader_pool import GraderPool, GradingCounts
from trainers.grading.grader_process import Verdict
from trainers.grading.readable_golds import unreadable_golds

__all__ = ["GraderPool", "GradingCounts", "Verdict", "unreadable_golds"]
