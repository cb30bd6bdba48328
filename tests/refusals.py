"""Why a document is refused, as its sender is told."""

from collections.abc import Callable

import pytest

from sweep_service.errors import InvalidSpec
from sweep_service.intake.spec_check import parse_spec


def refusals(document: object, *further: object, check: Callable[..., object] = parse_spec) -> dict[str, str]:
    """Return the reasons for which a check refuses a document, by their pointers into it.

    Args:
        further: what the check takes beside the document.
    """
    with pytest.raises(InvalidSpec) as caught:
        check(document, *further)
    return {error.pointer: error.detail for error in caught.value.errors}
