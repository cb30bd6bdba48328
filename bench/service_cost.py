"""What the service costs beyond its trainings: a sweep of 8 runs of 480 updates, and the same runs started by hand.

    python bench/service_cost.py                      the sweep and the runs by hand, in turns, twice each
    python bench/service_cost.py --rounds 1 --steps 48

The sweep is timed from its submission to SUCCEEDED, on an installation that has run one of its trials before; by hand
are `python -m trainers` of the same configurations, as many at a time as the sweep has. Both find the first model in
the cache. Processor seconds are those of the whole machine, so nothing else should run.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from sweep_service.auth import read_token
from sweep_service.client import Client
from sweep_service.settings import Settings
from sweep_service.store import open_store
from trainers.yaml_text import write_yaml

PARALLEL = 2


def spec(name: str, steps: int, seeds: list[int]) -> dict[str, Any]:
    """Return the sweep: four betas on these seeds, two trials at a time."""
    return {
        "name": name,
        "training": {"steps": steps},
        "space": {"loss.beta1": [0, 0.5, 0.75, 1], "loss.beta2": 1},
        "seeds": {"tune": seeds},
        "baselines": {"ppo_clip": False, "dapo": False, "matched": False},
        "resources": {"cpus": 1, "max_parallel": PARALLEL},
        "probe": "off",
    }


@contextmanager
def serving(settings: Settings) -> Iterator[Client]:
    """Run `sweeps serve`."""
    environment = os.environ | settings.environment() | {"OMP_NUM_THREADS": "1"}
    with (settings.home / "serve.log").open("wb") as log:
        command = [sys.executable, "-m", "sweep_service", "serve"]
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        while b"Ctrl-C stops" not in (settings.home / "serve.log").read_bytes():
            assert process.poll() is None, (settings.home / "serve.log").read_text()
            time.sleep(0.5)
        with Client(settings.url, read_token(settings.token_file), timeout_s=60) as client:
            yield client
    finally:
        process.terminate()
        process.wait()


@contextmanager
def timed(figures: list[tuple[float, float]]) -> Iterator[None]:
    """Note the wall's and the processors' seconds."""
    begun, spent = time.monotonic(), _spent()
    yield
    figures.append((time.monotonic() - begun, _spent() - spent))


def _spent() -> float:
    times = psutil.cpu_times()
    return times.user + times.nice + times.system  # a sweep's trainers are nice


def by_hand(configurations: list[dict[str, Any]], folder: Path, cache: Path) -> None:
    """Run these trainings, two at a time."""

    def run(number: int) -> None:
        written = folder / f"{number}.yaml"
        written.write_text(write_yaml(configurations[number]))
        command = [sys.executable, "-m", "trainers", str(written), "--output", str(folder / str(number))]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        with (folder / f"{number}.log").open("wb") as log:
            subprocess.run([*command, "--cache", str(cache)], env=environment, stdout=log, stderr=log, check=True)

    folder.mkdir(parents=True)
    with ThreadPoolExecutor(PARALLEL) as pool:
        list(pool.map(run, range(len(configurations))))


def swept(client: Client, raw: dict[str, Any]) -> str:
    """Run a sweep to its end; return its id."""
    sweep_id = client.submit(raw).id
    sweep = client.wait(sweep_id, 3600)
    assert sweep.state == "SUCCEEDED", sweep.message
    return sweep_id


def configurations_of(settings: Settings, sweep_id: str) -> list[dict[str, Any]]:
    """Return what each trial of a sweep trains, in their order."""
    with closing(open_store(settings.database_url)) as store:
        configs = {config.id: config for config in store.list_configs(sweep_id)}
        return [configs[trial.config_id].training | {"seed": trial.seed} for trial in store.list_trials(sweep_id)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=480)
    options = parser.parse_args()
    service, hand = list[tuple[float, float]](), list[tuple[float, float]]()
    with tempfile.TemporaryDirectory(prefix="sweeps-cost-") as home:
        settings = Settings(home=Path(home, "h"), port=int(os.environ.get("PORT", "8917")))
        settings.home.mkdir(mode=0o700)
        with serving(settings) as client:
            swept(client, spec("warm", 16, [0]))
        for turn in range(options.rounds):
            with serving(settings) as client:
                time.sleep(10)  # until everything that starts has started
                with timed(service):
                    sweep_id = swept(client, spec(f"measured-{turn}", options.steps, [0, 1]))
            configurations = configurations_of(settings, sweep_id)
            with timed(hand):
                by_hand(configurations, Path(home, f"by-hand-{turn}"), settings.cache)
            print(f"sweep {service[-1][0]:.1f} s, {service[-1][1]:.0f} s of processors' time; ", end="")
            print(f"by hand {hand[-1][0]:.1f} s, {hand[-1][1]:.0f} s", flush=True)
    for place, name in enumerate(("time", "processors' time")):
        ratio = median(one[place] / other[place] for one, other in zip(service, hand, strict=True))
        print(f"sweep / by hand, {name}: {ratio:.3f}{' (at most 1.06 is aimed at)' if place == 0 else ''}")


if __name__ == "__main__":
    main()
