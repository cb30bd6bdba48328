"""The report of a large sweep: 1,000 trials of 1,000 updates, every metric of each, 25 evaluations.

    python bench/report_scale.py                               makes the sweep if need be (minutes, 2 GB), reports on it
    python bench/report_scale.py --database URL --sweep SWEEP  reports on another one

Sweep and report lie in --folder, by default a temporary one that is kept. The report is built in a fresh process on two
cores. The exit code is 1 if it takes more than 60 s or 1 GiB, or if its HTML is larger than 10 MB.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import event

from sweep_service.settings import Settings
from sweep_service.store import Fence, Store, open_store
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.objective import choose, config_objectives, objective_metrics, trial_objectives
from sweep_service.sweep.plan import confirm_records, first_records
from sweep_service.sweep.records import Attempt, Config, DesiredState, Stage, Sweep, SweepState, Trial
from sweep_service.sweep.spec import SweepSpec
from trainers.record.metrics import EVALUATION_METRICS, STEP_METRICS

LIMITS = {"seconds": 60.0, "peak MiB": 1024.0, "html MB": 10.0}
EVERY, CHUNK = 40, 8
"""Updates between two evaluations of a trial, and in a part that its actor ships."""
SWEEP = "swp_scale"
SPEC: dict[str, Any] = {
    "name": "large",
    "training": {"loss": {"name": "ce_gppo"}, "steps": 1000, "evaluation": {"every_steps": EVERY}},
    "space": {
        "loss.beta1": [0.0, 0.25, 0.5, 0.75, 1.0],
        "loss.beta2": [0.0, 0.5, 1.0, 1.5, 2.0],
        "loss.epsilon": [0.1, 0.2, 0.3, 0.4],
    },
    "seeds": {"tune": list(range(9)), "confirm": {"top_k": 4, "seeds": list(range(100, 114))}},
}


def generate(url: str, raw: Mapping[str, Any] = SPEC) -> None:
    """Store a made-up sweep as its runner would, both stages."""
    store = open_store(url)
    if url.startswith("sqlite"):
        event.listen(store.engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous=OFF"))
    spec = SweepSpec.model_validate(raw)
    wanted = {"state": SweepState.QUEUED, "desired_state": DesiredState.RUN, "created_at": 1.79e9}
    sweep = Sweep(id=SWEEP, name=spec.name, spec=spec, spec_digest=spec.digest, **wanted)
    configs, trials = first_records(spec, SWEEP)
    store.create_sweep(sweep, configs, trials)
    claimed = store.claim("bench", 1e6)
    assert claimed is not None
    fence = Fence(SWEEP, claimed.epoch)
    store.set_sweep_state(fence, SweepState.RUNNING)
    train(store, fence, configs, trials)
    values = trial_objectives(store.list_trials(SWEEP), store.curves(SWEEP, objective_metrics(spec)), spec)
    chosen = choose(configs, config_objectives(store.list_trials(SWEEP), values, Stage.TUNE), 4)
    changed, more = confirm_records(spec, SWEEP, configs, chosen, len(trials))
    store.add_configs(fence, changed, more)
    train(store, fence, store.list_configs(SWEEP), more)
    store.set_sweep_state(fence, SweepState.FINALIZING)
    store.close()


def train(store: Store, fence: Fence, configs: list[Config], trials: list[Trial]) -> None:
    """Record trials; a few crash once, a few fail or diverge half-way."""
    by_id = {config.id: config for config in configs}
    for trial in trials:
        config, early = by_id[trial.config_id], trial.number % 97 == 5
        steps = trial.total_steps // 2 if early else trial.total_steps
        metrics = [updates(config, trial), evaluations(config, trial)]
        attempt = store.start_attempt(fence, trial.id, "/nowhere/{attempt}")
        if trial.number % 50 == 7:
            ship(store, fence, attempt, happened(*metrics, 0, 3 * trial.total_steps // 4))
            store.finish_attempt(fence, attempt, Ending.CRASHED, "the trainer was ended by signal 9", 3)
            attempt, resumed = store.start_attempt(fence, trial.id, "/nowhere/{attempt}"), trial.total_steps // 2
        else:
            resumed = 0
        ship(store, fence, attempt, happened(*metrics, resumed, steps))
        outcome = (Ending.FAILED if trial.number % 2 else Ending.DIVERGED) if early else Ending.SUCCEEDED
        store.finish_attempt(fence, attempt, outcome, "made up to end early" if early else None, 3)
        if trial.number % 100 == 99:
            print(f"  {trial.number + 1} trials stored", flush=True)


def ship(store: Store, fence: Fence, attempt: Attempt, events: Iterator[dict[str, Any]]) -> None:
    """Store events in parts, as the actor sends them."""
    part: list[dict[str, Any]] = []
    sent = 0
    for number, found in enumerate(events, 1):
        part.append(found)
        if number % CHUNK == 0:
            store.ingest(fence, attempt, sent, number, part)
            part, sent = [], number
    store.ingest(fence, attempt, sent, sent + 1, part)


def happened(
    steps: Mapping[str, list[float]], evaluated: Mapping[str, list[float]], first: int, last: int
) -> Iterator[dict[str, Any]]:
    """A trainer's events after the update `first`, up to `last`. NaN stands for no value."""
    for step in range(first + 1, last + 1):
        yield {"type": "step", "step": step, "time": 1.79e9 + step, "metrics": at(steps, step - 1)}
        if step % EVERY == 0:
            metrics = at(evaluated, step // EVERY - 1)
            yield {"type": "evaluation", "step": step, "time": 1.79e9 + step + 0.5, "metrics": metrics}
            told = {"prompt": f"{step} + {step} =", "completion": "7" * 40, "reward": 0.5}
            yield {"type": "samples", "step": step, "samples": [told] * 4}
            yield {"type": "checkpoint", "step": step, "time": 1.79e9 + step, "path": f"/nowhere/checkpoint-{step}"}


def at(metrics: Mapping[str, list[float]], index: int) -> dict[str, float | None]:
    """One step's values."""
    return {key: None if values[index] != values[index] else values[index] for key, values in metrics.items()}


def updates(config: Config, trial: Trial) -> dict[str, list[float]]:
    """Every metric of an update, drawn like the real ones: entropy and reward by the betas, the others as levels."""
    rng = np.random.default_rng([config.number, trial.seed])
    steps = np.arange(1, trial.total_steps + 1)
    share = steps / trial.total_steps
    found = {}
    for index, name in enumerate(STEP_METRICS):
        level, trend = np.random.default_rng(index).lognormal(-2, 1), np.random.default_rng(index + 1).normal()
        found[name] = level * (1 + 0.4 * trend * share) * rng.lognormal(0, 0.2, share.size)
    loss = config.training["loss"]
    beta1, beta2 = loss.get("beta1", 0.0), loss.get("beta2", 0.0)
    found["entropy"] = 1.1 * np.exp(-(1.2 + beta1 - 0.5 * beta2) * share) + rng.normal(0, 0.02, share.size) ** 2
    found["reward/mean"] = np.clip(learned(config, trial, share) + rng.normal(0, 0.04, share.size), 0, 1)
    found["completion/length_mean"] = 400 + 200 * beta2 * share + rng.normal(0, 10, share.size)
    found["tokens/total"] = np.cumsum(64 * found["completion/length_mean"]).round()
    for name in ("probe/entropy", "probe/kl_from_initial", "probe/kl_from_initial_k3", "entropy_change/measured"):
        found[name][steps % config.updates_per_rollout != 0] = np.nan
    for name in ("loss/entropy", "loss/positive_nll", "share/selected"):
        found[name][:] = np.nan
    return {name: values.tolist() for name, values in found.items()}


def evaluations(config: Config, trial: Trial) -> dict[str, list[float]]:
    """Every metric of an evaluation."""
    rng = np.random.default_rng([config.number, trial.seed, 1])
    share = np.arange(EVERY, trial.total_steps + 1, EVERY) / trial.total_steps
    found = {name: rng.uniform(0.01, 0.02, share.size) for name in EVALUATION_METRICS}
    found["eval/avg_at_k"] = np.clip(learned(config, trial, share) + rng.normal(0, 0.008, share.size), 0, 1)
    found["eval/pass_at_k"] = np.clip(found["eval/avg_at_k"] + 0.1, 0, 1)
    found["eval/length_mean"] = 400 + 200 * share
    return {name: values.tolist() for name, values in found.items()}


def learned(config: Config, trial: Trial, share: Any) -> Any:
    """What a policy is worth: moderate betas learn more, a large beta1 falls back."""
    loss = config.training["loss"]
    beta1, beta2 = loss.get("beta1", 0.0), loss.get("beta2", 0.0)
    rng = np.random.default_rng([config.number, trial.seed, 2])
    top = 0.6 - 0.1 * (beta1 - 0.5) ** 2 - 0.03 * (beta2 - 1) ** 2 + rng.normal(0, 0.015)
    fall = (beta1 == 1) * 0.6 / (1 + np.exp((0.7 - share) * 25))
    return (0.1 + (top - 0.1) * (1 - np.exp(-4 * share))) * (1 - fall)


def measure(url: str, sweep_id: str, folder: Path) -> dict[str, float]:
    """Build the report and keep its files in `folder`; seconds by part, peak memory, sizes."""
    clock = [time.perf_counter()]
    cpu = time.process_time()
    seconds: dict[str, float] = {}

    def took(part: str) -> None:
        clock.append(time.perf_counter())
        seconds[f"{part} s"] = clock[-1] - clock[-2]

    from sweep_service.report import report_json
    from sweep_service.report.build import build
    from sweep_service.report.render.html import render_html
    from sweep_service.report.render.markdown import render_markdown
    from sweep_service.worker.reports.contents import gather

    took("import")
    store = open_store(url)
    inputs = gather(store, sweep_id, Settings(home=folder))
    took("gather")
    gathered = peak_mib()
    report = build(inputs)
    took("build")
    contents = {"html": render_html(report)}
    took("html")
    contents["json"] = report_json(report)
    took("json")
    contents["md"] = render_markdown(report)
    took("md")
    for format_, content in contents.items():
        (folder / f"report.{format_}").write_bytes(content)
    store.close()
    sizes = {f"{format_} MB": len(content) / 1e6 for format_, content in contents.items()}
    facts = {"trials": len(inputs.trials), "configs": len(inputs.configs), "gathered MiB": gathered}
    whole = {"seconds": clock[-1] - clock[0], "CPU seconds": time.process_time() - cpu, "peak MiB": peak_mib()}
    return facts | seconds | whole | sizes


def peak_mib() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> int:
    """Make the sweep if it is not there, report on it in a fresh process, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(tempfile.gettempdir()) / "sweeps-report-scale"
    parser.add_argument("--folder", type=Path, default=default, help="for the made-up sweep and the report")
    parser.add_argument("--database", metavar="URL", help="of a store that has the sweep")
    parser.add_argument("--sweep", default=SWEEP)
    parser.add_argument("--part", choices=("generate", "measure"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    folder: Path = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    made, partial = folder / "large.db", folder / "partial.db"
    url = options.database or f"sqlite:///{made}"
    if options.part == "measure":
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
        print(json.dumps(measure(url, options.sweep, folder)))
        return 0
    if options.part == "generate":
        partial.unlink(missing_ok=True)
        generate(f"sqlite:///{partial}")
        partial.rename(made)
        return 0
    command = [sys.executable, __file__, "--folder", str(folder), "--database", url, "--sweep", options.sweep, "--part"]
    if not options.database and not made.exists():
        print("making the sweep")
        subprocess.run([*command, "generate"], check=True)
    result: dict[str, float] = json.loads(subprocess.run([*command, "measure"], check=True, stdout=-1).stdout)
    for name, value in result.items():
        limit = LIMITS.get(name)
        print(f"{name:14} {value:10.1f}" + (f"   limit {limit:g}" if limit else ""))
    return int(any(result[name] > limit for name, limit in LIMITS.items()))


if __name__ == "__main__":
    sys.exit(main())
