"""What the CE-GPPO paper says (arXiv 2509.20712), held against this sweep."""

from sweep_service.report.facts import Facts
from sweep_service.report.model import Claim


def claims(facts: Facts) -> list[Claim]:
    """What the CE-GPPO paper says (arXiv 2509.20712), held against this sweep."""
    del facts
    return []
