"""What is done for the signs that runs show, by the spec: warned of, a config dropped, a run ended as ruined. Pure."""

from collections.abc import Sequence

from sweep_service.health.run_health import RunCurves, window
from sweep_service.health.signs import ANSWERS_LOST, SIGNS
from sweep_service.stopping.standing import Standing
from sweep_service.sweep.records import Judgement, Stage, Trial, TrialWarning
from sweep_service.sweep.spec import SweepSpec


def signs_shown(run: RunCurves) -> list[TrialWarning]:
    """Return a warning for each sign that a run shows; before it has a whole window, only of what evaluations show."""
    whole = run.step >= window(run.total_steps)
    seen = ((sign, sign.look(run)) for sign in SIGNS if whole or sign.code == ANSWERS_LOST)
    return [
        TrialWarning(code=sign.code, message=found.words, evidence={}, step=run.step, is_sign=True)
        for sign, found in seen
        if found
    ]


def stopping_sign(spec: SweepSpec, trial: Trial, shown: Sequence[TrialWarning]) -> TrialWarning | None:
    """Return the first sign for which a trial's config is to be dropped; None if it goes on.

    Only configs that tune are dropped. One whose answers are lost is not: that run alone ends, and is a result.
    """
    if trial.stage is not Stage.TUNE:
        return None
    return next((one for one in shown if one.code != ANSWERS_LOST and spec.action(one.code) == "stop"), None)


def dropped_for(trial: Trial, stop: TrialWarning, standing: Standing) -> list[Judgement]:
    """Return the judgement that drops a trial's config for a sign; empty if it is none that may be dropped."""
    may = trial.config_id in standing.left and trial.config_id not in standing.taken_back
    if not may or not standing.droppable([trial.config_id]):
        return []
    values = standing.runs[trial.config_id][trial.seed].values
    return [
        Judgement(
            config_id=trial.config_id,
            dropped=True,
            seed=trial.seed,
            mark=stop.step,
            value=values[-1] if values else None,
            bound=None,
            sign=stop.code,
            message=f"{stop.code} at step {stop.step} of seed {trial.seed}: {stop.message}",
        )
    ]


def ruin(spec: SweepSpec, run: RunCurves) -> str | None:
    """Say that a run is ruined and ends so, whatever came later; None if it goes on."""
    if spec.action(ANSWERS_LOST) != "stop" or run.lost_at is None:
        return None
    found = next(sign for sign in SIGNS if sign.code == ANSWERS_LOST).look(run)
    return f"ruined: {found.words}" if found else None
