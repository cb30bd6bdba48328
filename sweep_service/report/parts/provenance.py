"""Provenance: the code, packages, data and model that repeating a training takes besides its file."""

import hashlib
import json
import shlex
from collections.abc import Mapping
from typing import Any, Final

from sweep_service.report.sweep_facts import Facts
from sweep_service.sweep.records import Config
from trainers.config import WordProblemsTask

_SHORT: Final = 12
_UNKNOWN: Final = ", of which no version is recorded"


def provenance(facts: Facts, config: Config) -> dict[str, str]:
    """Return the version or digest of each thing by its name; one that was not recorded says so."""
    inputs, training = facts.inputs, config.training
    task, model = ({}, {}) if config.is_own else (training.get("task", {}), training.get("model", {}))
    commit = inputs.provenance.get("commit")
    version = inputs.versions.get("sweep-service")
    code = [f"sweep-service {version}" if version else "", f"commit {commit}" if commit else "no commit known"]
    packages = ", ".join(
        f"{name} {version}" for name, version in sorted(inputs.versions.items()) if name != "sweep-service"
    )
    made = f"made and warm-started by the code from the settings of model and task, {_digest([model, task])}"
    named = f"models/{model.get('model')} of the cache; the digest of its weights is not recorded"
    threads = sorted({trial.threads for trial in inputs.trials if trial.config_id == config.id})
    gpus = inputs.sweep.spec.resources.gpus
    machine = f"{' or '.join(map(str, threads))} CPU thread{'s' if threads != [1] else ''}"
    machine += f", {gpus:g} GPU" if gpus else ", no GPU"
    texts = {
        "config": f"{config.id}, the digest of all settings but the seed",
        "spec": f"sha256:{inputs.sweep.spec_digest}",
        "code": f"{', '.join(filter(None, code))} (as installed where this report was built)",
        "packages": "" if config.is_own else f"{packages} (as installed there)",
        "data": "" if config.is_own else _data(task, facts),
        "model": "" if config.is_own else made if model.get("name") != "pretrained" else named,
        "trained with": (noted := _trained_with(facts, config)),
        "program": f"{shlex.join(training['command'])}{_UNKNOWN * (not noted)}" if config.is_own else "",
        "machine": f"{machine} a trial; other machines may differ in the last digits",
    }
    return {name: text for name, text in texts.items() if text}


def _trained_with(facts: Facts, config: Config) -> str:
    """Name the packages, with all their versions, that the config's attempts have noted."""
    noted = dict[str, dict[str, None]]()
    for trial in facts.trials_of(config.id):
        for versions in facts.inputs.trained_with.get(trial.id, ()):
            for name, version in versions.items():
                noted.setdefault(name, {})[version] = None
    return ", ".join(f"{name} {' and '.join(versions)}" for name, versions in sorted(noted.items()))


def _data(task: dict[str, Any], facts: Facts) -> str:
    parts = ["/".join(part) for part in data_parts(task)]
    if not parts:
        return f"made by the code from the task's settings, {_digest(task)}"
    digests = facts.inputs.provenance
    held_out = task.get("validation") or {}
    benchmark = [f"benchmarks/{name}; its digest is not recorded"] if (name := held_out.get("benchmark")) else []
    recorded = [f"{part}, {digests[part]} (when this report was built)" for part in parts if part in digests]
    others = [f"{part}; its digest is not recorded" for part in parts if part not in digests]
    return "; ".join(recorded + others + benchmark)


def data_parts(task: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the datasets and splits that a task trains and validates on; empty if the code makes its problems."""
    if task.get("name") != "word_problems":
        return []
    config = WordProblemsTask.model_validate(task)
    data, held_out = config.data, config.validation
    parts = [(data.ref, data.split)]
    if held_out is not None and held_out.benchmark is None:
        parts.append((held_out.ref or data.ref, held_out.split))
    return list(dict.fromkeys(parts))


def _digest(settings: Any) -> str:
    canonical = json.dumps(settings, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()[:_SHORT]} of the settings"
