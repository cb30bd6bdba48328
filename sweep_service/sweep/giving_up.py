"""The rule by which a sweep that only fails ends before it has tried all of its trials. Pure."""

from collections.abc import Sequence

from sweep_service.sweep.endings import TrialState, without_log_command
from sweep_service.sweep.records import Sweep, Trial


def reason_to_give_up(sweep: Sweep, trials: Sequence[Trial]) -> str | None:
    """Return why no other trial of a sweep is to begin: too many have failed, and none has a result; None to go on."""
    most = sweep.spec.retries.max_failed_trials
    failed = [trial for trial in trials if trial.state is TrialState.FAILED]
    if most is None or len(failed) < most or any(trial.state.has_result for trial in trials):
        return None
    last = max(failed, key=lambda trial: trial.ended_at or 0.0)
    why = without_log_command(last.message or "it did not say why")
    return (
        f"{len(failed)} trials have FAILED and none has a result, so no other begins (retries.max_failed_trials is "
        f"{most}). The last one, {last.id}: {why}\nOnce that is mended, sweeps retry {sweep.id} tries all of them; "
        f"sweeps extend {sweep.id} --max-failed-trials none tries those that never began"
    )
