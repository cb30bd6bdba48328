"""What a report is built from: the rows of one sweep, frozen, with a digest that names them."""

import hashlib
from typing import Final

from pydantic import BaseModel, ConfigDict

from sweep_service.records import Config, Curve, Sample, Sweep, SweepState, Trial

REPORT_VERSION: Final = 2
"""Rises when the same rows give another report, so that kept reports are built anew."""

CURVE_KEYS: Final = (
    "eval/avg_at_k",
    "eval/pass_at_k",
    "eval/avg_at_k_se",
    "entropy",
    "reward/mean",
    "share/na_lp",
    "share/pa_lp",
    "clip_fraction/low",
    "clip_fraction/high",
    "ppo_kl",
    "grad_norm",
    "completion/length_mean",
)
"""The metrics that a report reads; the first three come from evaluations, the others from optimizer updates."""


class ReportInputs(BaseModel):
    """Everything that a report says follows from these rows, and from nothing else."""

    model_config = ConfigDict(frozen=True)

    sweep: Sweep
    configs: tuple[Config, ...]
    trials: tuple[Trial, ...]
    curves: tuple[Curve, ...]
    """Of `CURVE_KEYS`; a trial that recorded a key never is left out."""
    samples: tuple[Sample, ...] = ()
    mlflow_url: str | None = None
    """Where people reach MLflow; None leaves its links out."""
    versions: dict[str, str] = {}
    """Package versions that the trials ran with."""

    @property
    def interim(self) -> bool:
        """Whether trials may still change; in every later state of a sweep they have all ended."""
        return self.sweep.state in (SweepState.QUEUED, SweepState.RUNNING)

    @property
    def digest(self) -> str:
        """Hash of the rows and of the report's version."""
        found = hashlib.sha256(f"{REPORT_VERSION}\n".encode())
        found.update(self.model_dump_json(exclude={"sweep": {"epoch"}, "curves": True}).encode())
        for curve in self.curves:  # one by one: together they may be some hundred megabytes
            found.update(curve.model_dump_json().encode())
        return found.hexdigest()
