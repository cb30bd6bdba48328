"""What a repetition of a training needs besides its file: code, packages, data, model."""

import hashlib
import json
from typing import Any, Final

from sweep_service.records import Config
from sweep_service.report.facts import Facts

_SHORT: Final = 12


def provenance(facts: Facts, config: Config) -> dict[str, str]:
    """Return versions and digests by what they are of. What is not recorded is said to be."""
    inputs, training = facts.inputs, config.training
    task, model = training.get("task", {}), training.get("model", {})
    commit = inputs.provenance.get("commit")
    version = inputs.versions.get("sweep-service")
    code = [f"sweep-service {version}" if version else "", f"commit {commit}" if commit else "no commit known"]
    packages = ", ".join(
        f"{name} {found}" for name, found in sorted(inputs.versions.items()) if name != "sweep-service"
    )
    found = {
        "config": f"{config.id}, the digest of all settings but the seed",
        "spec": f"sha256:{inputs.sweep.spec_digest}",
        "code": f"{', '.join(filter(None, code))} (as installed where this report was built)",
        "packages": packages,
        "data": _data(task, facts),
        "model": _model(model, task),
        "machine": _machine(facts, config),
    }
    return {name: text for name, text in found.items() if text}


def _data(task: dict[str, Any], facts: Facts) -> str:
    if task.get("name") != "word_problems":
        return f"made by the code from the task's settings, {_digest(task)}"
    file = f"{task.get('data')}.jsonl"
    digest = facts.inputs.provenance.get(file)
    return f"{file}, {digest} (when this report was built)" if digest else f"{file}; its digest is not recorded"


def _model(model: dict[str, Any], task: dict[str, Any]) -> str:
    if model.get("name") == "pretrained":
        return f"models/{model.get('model')} of the cache; the digest of its weights is not recorded"
    return f"made and warm-started by the code from the settings of model and task, {_digest([model, task])}"


def _machine(facts: Facts, config: Config) -> str:
    threads = sorted({trial.threads for trial in facts.inputs.trials if trial.config_id == config.id})
    gpus = facts.inputs.sweep.spec.resources.gpus
    cpu = f"{' or '.join(map(str, threads))} CPU thread{'s' if threads != [1] else ''}"
    return f"{cpu}, {f'{gpus:g} GPU' if gpus else 'no GPU'} a trial; other machines may differ in the last digits"


def _digest(settings: Any) -> str:
    canonical = json.dumps(settings, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()[:_SHORT]} of the settings"
