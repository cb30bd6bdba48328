"""What a runner asks of a trial's actor."""

from sweep_service.runner.trainer_process import Job

JOB = Job(trial_id="t", attempt=1, directory="/d", config={}, threads=3, gpus=0, resume_from=None, cache="/c")
