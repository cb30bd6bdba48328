"""Makes the jobs that actors get: of a trial, of an evaluation on benchmarks, of a cost probe."""

from sweep_service.runner.plain_files import is_there
from sweep_service.runner.trainer_process import Job, OwnJob, needed_packages
from sweep_service.settings import Settings
from sweep_service.store import Store
from sweep_service.sweep.budget import left_s
from sweep_service.sweep.evaluations import benchmarks_of, measuring_request, steps_to_keep
from sweep_service.sweep.records import Attempt, Config, CostProbe, Evaluation, Sweep, Trial, Work
from sweep_service.sweep.spec import Resources, SweepSpec
from trainers.config import TrainingConfig


def resources_of(spec: SweepSpec, work: Work) -> Resources:
    """Return the resources of a trial or an evaluation."""
    return spec.evaluation_resources if isinstance(work, Evaluation) else spec.resources


def own_job(spec: SweepSpec, after_step: int = 0) -> OwnJob | None:
    """Return the job of a sweep's own trainer; None where ours trains."""
    if spec.trainer is None:
        return None
    command, steps = spec.trainer.command, spec.trainer.steps
    return OwnJob(command=command, steps=steps, metric=spec.objective.metric, after_step=after_step)


def work_job(
    store: Store, settings: Settings, sweep: Sweep, config: Config, work: Work, attempt: Attempt, model: str | None
) -> Job:
    """Return the job of a trial's or an evaluation's attempt.

    Args:
        config: the config that it trains or measures.
        model: folder of the trained model that an evaluation measures; None for a trial, or for the initial model.
    """
    spec, resources = sweep.spec, resources_of(sweep.spec, work)
    document = config.settings | {"seed": work.seed}
    training = TrainingConfig.model_validate(document) if spec.trainer is None else None
    checkpoint, measure, keep_models, processes = None, None, (), 1
    if isinstance(work, Evaluation):
        trial = None if work.trial_id is None else store.get_trial(work.trial_id)
        benchmarks = benchmarks_of(sweep, trial, work.model_step if trial else 0)
        results = settings.storage / work.sweep_id / work.id / "results"  # samples stay there over all attempts
        measure = measuring_request(benchmarks, model, str(results) if trial else None)
    elif isinstance(work, Trial):
        checkpoint, keep_models = store.newest_checkpoint(work.id), steps_to_keep(spec, work)
        processes = 1 if training is None else resources.processes_for(training)
    if checkpoint is not None and not is_there(checkpoint.path):
        checkpoint = None
    return Job(
        trial_id=work.id,
        attempt=attempt.number,
        directory=attempt.directory,
        config=document,
        threads=work.threads,
        cpus=resources.cpus,
        gpus=resources.gpus,
        processes=processes,
        resume_from=checkpoint.path if checkpoint else None,
        own=own_job(spec, checkpoint.step if checkpoint else 0),
        cache=str(settings.cache),
        needs=() if training is None else needed_packages(training),
        limit_s=left_s(spec, work.held_s),
        hung_after_s=60 * spec.retries.hung_after_minutes,
        keep_models=keep_models,
        measure=measure,
    )


def probe_job(sweep: Sweep, settings: Settings, probe: CostProbe, training: TrainingConfig, gpu_hours: float) -> Job:
    """Return the job of the probe's actor.

    Args:
        gpu_hours: GPU-hours that earlier probes of the sweep took; all its probes share the time limit of one trial.
    """
    resources = sweep.spec.resources
    held_s = gpu_hours * 3600 / resources.gpus if resources.gpus else 0.0
    return Job(
        trial_id="probe",
        attempt=probe.number,
        directory=str(settings.storage / sweep.id / "probe" / str(probe.number)),
        config=training.model_dump(mode="json"),
        needs=needed_packages(training),
        threads=max(1, int(resources.cpus)),
        gpus=resources.gpus,
        processes=resources.processes_for(training),
        resume_from=None,
        cache=str(settings.cache),
        limit_s=left_s(sweep.spec, held_s),
        hung_after_s=60 * sweep.spec.retries.hung_after_minutes,
        probe=True,
    )
