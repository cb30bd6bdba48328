"""Rules that every policy loss keeps, ours or a package's, in a form that tests can use.

    from trainers.losses.contract import check_loss

    def test_it_keeps_the_contract_of_a_loss():
        check_loss(TEMPERED, TemperedParams(alpha=0.3), weight=lambda ratio, advantage, params: ratio**params.alpha)

`RULES` has the rules by name, for tests that ask for them one by one. Nothing here needs pytest.
"""

from typing import Final

from trainers.losses.base import ClipParams
from trainers.losses.contract_rules import (
    Rule,
    Subject,
    Weight,
    an_empty_batch_gives_zero,
    entry_is_usable,
    importing_it_imports_no_torch,
    inputs_stay_as_they_are,
    large_ratios_stay_finite,
    output_is_complete,
    padding_changes_nothing,
    parts_add_up,
    regions_partition_the_tokens,
    reinforce_at_ratio_one,
    the_clamp_is_the_setting,
    the_same_twice,
    weight_is_as_stated,
)
from trainers.losses.entry import LossEntry

RULES: Final[dict[str, Rule]] = {
    rule.__name__: rule
    for rule in (
        entry_is_usable,
        importing_it_imports_no_torch,
        output_is_complete,
        weight_is_as_stated,
        reinforce_at_ratio_one,
        padding_changes_nothing,
        an_empty_batch_gives_zero,
        large_ratios_stay_finite,
        the_clamp_is_the_setting,
        parts_add_up,
        inputs_stay_as_they_are,
        the_same_twice,
        regions_partition_the_tokens,
    )
}


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
    broken = {name: said for name, rule in RULES.items() if (said := judged(rule, subject))}
    if broken:
        lines = [f"{type(params).__name__}({params}) breaks {len(broken)} of {len(RULES)} rules:"]
        raise AssertionError("\n".join([*lines, *(f"  {name}: {said}" for name, said in broken.items())]))


def judged(rule: Rule, subject: Subject) -> str | None:
    """Return what a rule says; an error of the loss breaks it, too."""
    try:
        return rule(subject)
    except Exception as error:  # noqa: BLE001 the loss may raise anything
        return f"it raises {type(error).__name__}: {error}"


__all__ = ["RULES", "Rule", "Subject", "Weight", "check_loss", "judged"]
