import re
from typing import Any, cast

import pytest

from sweep_service.pages import rendering
from sweep_service.pages.rendering import static_file
from sweep_service.sweep.endings import TrialState


def test_names_that_strangers_make_up_are_not_kept() -> None:
    assert static_file("page.css") is not None
    size = rendering._content.cache_info().currsize
    for name in ("x", "../page.css", "page.css/", "", *(f"{number}.css" for number in range(1000))):
        assert static_file(name) is None
    assert rendering._content.cache_info().currsize == size


@pytest.mark.parametrize(
    ("counts", "share", "percent"),
    [
        ({TrialState.RUNNING: 2, TrialState.PENDING: 2}, 0.0, 0),
        ({TrialState.RUNNING: 2, TrialState.PENDING: 2}, 0.2496, 24),
        ({TrialState.SUCCEEDED: 1, TrialState.FAILED: 1, TrialState.RUNNING: 1, TrialState.PENDING: 1}, 0.6, 60),
        ({TrialState.SUCCEEDED: 3, TrialState.DIVERGED: 1}, 1.0, 100),
        ({}, 0.0, 0),
    ],
)
def test_a_bar_is_as_long_as_the_percentage_says(counts: dict[TrialState, int], share: float, percent: int) -> None:
    macros = cast("Any", rendering._environment().get_template("macros.html.j2").module)
    drawn = str(macros.bar(counts, 4, share))
    parts = [
        (state, float(width)) for state, width in re.findall(r'class="s-(\w+)" x="[\d.]+" width="([\d.]+)"', drawn)
    ]
    assert sum(width for _, width in parts) == pytest.approx(1000 * share)
    for state, width in parts[: -1 if counts.get(TrialState.RUNNING) and parts else None]:
        assert width == 250 * counts[TrialState(state.upper())]
    assert f'aria-label="{percent} % done"' in drawn
