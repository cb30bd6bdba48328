"""Rules that every policy loss keeps, ours or a package's, in a form that tests can use.

    from trainers.losses.contract import check_loss

    def test_it_keeps_the_contract_of_a_loss():
        check_loss(TEMPERED, TemperedParams(alpha=0.3), weight=lambda ratio, advantage, params: ratio**params.alpha)

`RULES` has the rules by name, for tests that ask for them one by one. Nothing here needs pytest.
"""

from trainers.losses.base import ClipParams
from trainers.losses.contract_rules import RULES, Rule, Subject, Weight
from trainers.losses.entry import LossEntry

__all__ = ["RULES", "Rule", "Subject", "Weight", "check_loss", "judged"]


def check_loss(
    entry: LossEntry,
    params: ClipParams,
    *,
    weight: Weight | None = None,
    reinforce: bool = True,
    looks_at_the_batch: bool = False,
) -> None:
    """Hold a loss with these parameters to all rules; the arguments after them are those of `Subject`.

    Raises: AssertionError, naming every rule that it breaks, and how.
    """
    subject = Subject(entry, params, weight, reinforce, looks_at_the_batch)
    faults = {name: fault for name, rule in RULES.items() if (fault := judged(rule, subject))}
    if faults:
        lines = [f"{type(params).__name__}({params}) breaks {len(faults)} of {len(RULES)} rules:"]
        raise AssertionError("\n".join([*lines, *(f"  {name}: {fault}" for name, fault in faults.items())]))


def judged(rule: Rule, subject: Subject) -> str | None:
    """Return what a rule says; an error of the loss breaks it, too."""
    try:
        return rule(subject)
    except Exception as error:  # noqa: BLE001 the loss may raise anything
        return f"it raises {type(error).__name__}: {error}"
