"""Trainers without a model: each test gives one the few attributes that the method it calls looks at."""

from collections.abc import Mapping
from typing import Any

from trainers.config import TrainingConfig, with_params


def config(base: Mapping[str, Any] | None = None, /, **settings: Any) -> TrainingConfig:
    """Return a configuration, else the default one, with these settings; in their names `__` stands for a dot."""
    named = {name.replace("__", "."): value for name, value in settings.items()}
    return TrainingConfig.model_validate(with_params(base or {}, named))


def bare(trainer: type[Any], settings: TrainingConfig, **attributes: Any) -> Any:
    """Return a trainer of one process that was not initialized and has these attributes, or methods, only."""
    bare_trainer = trainer.__new__(trainer)
    common = {"_config": settings, "_rank": 0, "_processes": 1}
    common |= {"vllm_generation": None, "_critic": None}
    for name, value in {**common, **attributes}.items():
        setattr(bare_trainer, name, value)
    return bare_trainer
