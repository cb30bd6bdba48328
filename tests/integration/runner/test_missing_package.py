"""A sweep whose loss comes from a package ends with the package's name where a machine lacks it."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from sweep_service.settings import Settings
from sweep_service.store import Fence, Store
from sweep_service.sweep.endings import Ending
from tests.loss_packages import install, package_site
from tests.sweep_stack import SMALL_TRAINING, runner, small_sweep, submit_and_claim
from tests.waiting import wait_until


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    """A folder with the package, of which this process knows while it submits."""
    (site := tmp_path / "site").mkdir()
    install(site, "tempered_loss", "tempered = tempered_loss:ENTRY")
    with package_site(site):
        yield site


def submitted(store: Store) -> Fence:
    training = SMALL_TRAINING | {"loss": {"name": "tempered"}}
    none = {"ppo_clip": False, "dapo": False, "matched": False}
    raw = small_sweep("missing", training=training, space={"loss.alpha": [0.5]}, baselines=none)
    return submit_and_claim(store, raw)


def ran(settings: Settings, fence: Fence, ray: Mapping[str, str]) -> tuple[int, str]:
    """Return the exit code of a runner, and its log."""
    with runner(settings, fence, ray) as process:
        wait_until("the runner has ended", lambda: process.poll() is not None)
    return process.returncode, (settings.storage / fence.sweep_id / "runner.log").read_text()


@pytest.mark.long
def test_a_node_without_the_package_fails_the_trial_with_its_name(
    settings: Settings, store: Store, ray: Mapping[str, str], site: Path
) -> None:
    fence = submitted(store)
    places = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    code, log = ran(settings, fence, {**ray, "PYTHONPATH": places})
    assert code == 0, log
    (attempt,) = store.list_attempts(fence.sweep_id)
    assert attempt.ending is Ending.FAILED  # and is not tried again
    assert "the package tempered-loss 1, which this configuration needs, is not installed on " in str(attempt.message)


@pytest.mark.long
def test_a_runner_without_the_package_says_which_losses_it_knows(
    settings: Settings, store: Store, ray: Mapping[str, str], site: Path
) -> None:
    code, log = ran(settings, submitted(store), ray)
    assert code == 1, log
    assert "there is no loss 'tempered'; there are 'grpo', " in log
