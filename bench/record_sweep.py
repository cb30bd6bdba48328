"""Write bench/recorded_sweeps.json, which validate_report.py draws from: a finished sweep's tune trials, arm by arm.

python bench/record_sweep.py sqlite:////path/to/sweeps.db SWEEP_ID
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.settings import Settings
from sweep_service.store import open_store
from sweep_service.sweep.records import Config, Role, Stage, Trial, TrialState
from sweep_service.worker.reports.contents import gather

RECORDED: Final = Path(__file__).with_name("recorded_sweeps.json")


def arm(config: Config, inputs: ReportInputs) -> dict[str, Any]:
    """One config and what its trials came to, by seed."""
    mine = [trial for trial in inputs.trials if trial.config_id == config.id and trial.stage is Stage.TUNE]
    role = next((role.value for role in (Role.BASELINE, Role.DAPO) if role in config.roles), "space")
    return {"role": role, "params": config.params, "runs": [run(trial, inputs) for trial in mine]}


def run(trial: Trial, inputs: ReportInputs) -> dict[str, Any]:
    """One trial's last evaluations, and whether it collapsed.

    Raises: SystemExit: it has none; the bank needs every config on the same seeds.
    """
    objective = inputs.sweep.spec.objective
    evaluations = inputs.get(trial.id, objective.metric)
    if trial.state is not TrialState.SUCCEEDED or evaluations is None:
        raise SystemExit(f"{trial.id} is {trial.state}: only a sweep whose tune trials all succeeded will do")
    health = inputs.run_curves(trial).health
    return {
        "seed": trial.seed,
        "evaluations": [round(float(value), 5) for value in evaluations.present.values[-objective.last :]],
        "reward_peak": round(health.reward_peak or 0, 4),
        "reward_final": round(health.reward_final or 0, 4),
        "collapsed": health.reward_collapsed,
    }


def main() -> None:
    """Read the sweep and write the file."""
    _, url, sweep_id = sys.argv
    inputs = gather(open_store(url), sweep_id, Settings())
    spec = inputs.sweep.spec
    arms = [arm(config, inputs) for config in inputs.configs]
    text = json.dumps({"name": spec.name, "metric": spec.objective.metric, "steps": spec.base.steps, "arms": arms})
    RECORDED.write_text(text.replace('{"role"', '\n {"role"').replace('{"seed"', '\n  {"seed"') + "\n")


if __name__ == "__main__":
    main()
