"""Two minutes of the nemesis break nothing; with a mistake planted in the service, it finds what is broken."""

from pathlib import Path

import pytest

from tests.chaos.run import Result, chosen, run

pytestmark = [pytest.mark.hunt, pytest.mark.timeout(3600)]


def nemesis_with(mistake: str, only: str, tmp_path: Path) -> Result:
    """Run it for a minute over two sweeps, with a mistake in the service and the one fault in which that must show.

    The mistake may leave a sweep that never ends, for which it waits no longer than it must.
    """
    evidence = tmp_path / "evidence"
    return shown(run(1, 1, chosen(only), print, evidence, mistake, sweeps=("grid",), verbs=("plan",), calm_s=90))


def shown(result: Result) -> Result:
    print(*result.table, *result.broken, sep="\n")
    return result


def test_two_minutes_of_faults_break_nothing(tmp_path: Path) -> None:
    assert shown(run(2, 1, chosen(""), print, tmp_path / "evidence")).broken == []


def test_a_runner_without_the_fence_is_found(tmp_path: Path) -> None:
    """On quick cores the returned runner may have ended by itself; then the sweep that two runners led tells."""
    assert nemesis_with("no-fence", "returning runner", tmp_path).broken


def test_events_that_a_new_runner_does_not_read_are_found(tmp_path: Path) -> None:
    broken = nemesis_with("no-rest", "stop runner", tmp_path).broken
    assert any("its curves are not those of the undisturbed trial" in line for line in broken), broken
