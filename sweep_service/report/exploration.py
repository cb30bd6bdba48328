"""What the tune stage shows about parameters: main effects, a response surface."""

from sweep_service.report.facts import Facts
from sweep_service.report.model import Exploration


def exploration(facts: Facts) -> Exploration | None:
    """What the tune stage shows about parameters: main effects, a response surface."""
    del facts
    return None
