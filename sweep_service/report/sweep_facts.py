"""The facts about one sweep that everything in its report starts from: its tables, comparisons and verdict."""

from collections.abc import Sequence
from functools import cached_property

from sweep_service.report.facts.report_tables import ReportTables
from sweep_service.report.model import Comparison, Verdict
from sweep_service.report.statistics.critical_values import confidence_of
from sweep_service.report.verdict.interval_basis import interval_basis
from sweep_service.report.verdict.purchase import next_purchase
from sweep_service.report.verdict.ruin import RuinsOf, tuning_text
from sweep_service.report.verdict.ties import tie_set
from sweep_service.report.verdict.verdict import compare, judge


class Facts(ReportTables):
    """The rows of one sweep, summed up, with the answers that follow from them."""

    @cached_property
    def comparisons(self) -> Sequence[Comparison]:
        """The candidates against their comparators; first with the verdict's, the best one first."""
        return compare(self)

    @cached_property
    def verdict(self) -> Verdict:
        """The verdict on the best config, with its basis, the configs that may be as good, and what to train next."""
        verdict = judge(self, self.comparisons)
        basis = interval_basis(verdict.comparison, self.inputs)
        if verdict.comparison is not None:
            basis += tuning_text(self, verdict.comparison.config_id)
        further = None if self.inputs.interim else next_purchase(verdict, self)
        confidence, ruins = confidence_of(self.inputs.looks), RuinsOf.in_tables(self)
        ties = tie_set(self.rows, self.arms, self.sound_arms, ruins, confidence, self.comparisons)
        return verdict.model_copy(update={"basis": basis, "ties": ties, "next": further})
