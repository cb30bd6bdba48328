"""Runner, worker and `serve` are killed at random moments while rules drop configs: nothing is decided otherwise."""

import random
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sweep_service.settings import Settings
from sweep_service.store import Store, open_store
from tests.chaos.installation import Installation, installed
from tests.chaos.processes import victims
from tests.integration.runner.test_early_stopping import decided, sweep
from tests.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.hunt]

KILLS = 7
"""For each rule: 21 in all."""
ROLES = ("runner", "worker", "serve")


@pytest.mark.parametrize("rule", ["paired", "rungs", "asha"])
def test_what_is_killed_at_any_moment_decides_as_if_undisturbed(rule: str, tmp_path: Path) -> None:
    dice = random.Random()
    with installed(disk=False) as service:
        own = Settings(home=service.home, port=service.settings.port, trainer_commands=sys.executable)
        service.settings, service.environment = own, service.environment | own.environment()
        service.start()
        service.wait_until_ready()
        client, store = service.client(patience_s=600, timeout_s=60), open_store(own.database_url)
        undisturbed = client.submit(sweep(tmp_path, rule, seeds=6, step_s=0.2)).id
        wait_until("the undisturbed sweep has ended", lambda: client.get(undisturbed).state.is_over, 600)
        killed, told = client.submit(sweep(tmp_path, rule, seeds=6, step_s=0.2, name="killed")).id, [str(rule)]
        before: list[dict[str, Any]] = []
        kills = 0
        while not client.get(killed).state.is_over:
            if kills < KILLS:
                time.sleep(dice.uniform(0, 6))
                before = _goes_on_from(before, store, killed)
                kills += _kill(service, dice.choice(ROLES), told)
            service.tend()
            service.wait_until_ready()
            time.sleep(0.5)
        assert kills == KILLS, f"the sweep ended too early for {KILLS} kills: {told}"
        after = _goes_on_from(before, store, killed)
        if rule != "asha":  # which depends on what has arrived
            assert after == decided(store, undisturbed), told
        store.close()


def _kill(service: Installation, role: str, told: list[str]) -> int:
    """Kill a process of this role; return 1, or 0 if there is none now."""
    found = victims(service, role)
    if not found:
        return 0
    found[0].process.kill()
    told.append(f"{time.strftime('%H:%M:%S')} {found[0]}")
    return 1


def _goes_on_from(before: list[dict[str, Any]], store: Store, sweep_id: str) -> list[dict[str, Any]]:
    """Return all judgements so far; the earlier ones stand as they were."""
    now = decided(store, sweep_id)
    assert now[: len(before)] == before
    return now
