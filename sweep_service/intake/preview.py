"""Previews a sweep's prompts before it runs: a trainer reads data and tokenizer, in a process of its own."""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from sweep_service.errors import InvalidSpec, SpecError
from sweep_service.processes.child_processes import log_tail, start_kept, stop
from sweep_service.settings import without_secrets
from sweep_service.sweep.plan import SweepPlan
from sweep_service.sweep.spec import SweepSpec
from trainers.config import PretrainedModel, TrainingConfig, WordProblemsTask
from trainers.process.environment import EXIT_CODES
from trainers.tasks.data_record import DataRecord, Preview, worked_warning

LIMIT_S: Final = 45.0
LIMIT_BYTES: Final = 4 * 2**30
"""Memory that reading may take; it takes half a GB, and more for a large dataset."""
_MANY: Final = 0.1
"""Share of problems left out from which the plan warns."""
_FEW: Final = 8
"""Number of validation problems below which the plan warns."""
WAIT_S: Final = 10.0
"""Seconds to wait for another plan's preview; `WAIT_S` + `LIMIT_S` is less than the minute for which clients wait."""
_ONE_AT_A_TIME: Final = threading.Lock()  # each takes a core, and half a GB
MAX_WAITING: Final = 3
"""Plans that may wait for it; each keeps one of the API's forty threads meanwhile."""
_PLACES: Final = threading.BoundedSemaphore(1 + MAX_WAITING)
_BUSY: Final = "the server is reading those of another plan; plan again in a minute"
_OUT_OF_MEMORY: Final = re.compile(
    r"MemoryError|error return without exception set|memory allocation|[Cc]annot allocate memory|bad_alloc|"
    r"(failed to|cannot) map"
)
_SETTING: Final = re.compile(r"[a-z_]+(\.[a-z0-9_-]+)*")


def with_prompts(plan: SweepPlan, spec: SweepSpec, cache: Path, limit_s: float = LIMIT_S) -> SweepPlan:
    """Return the plan with the base configuration's prompts and data; unchanged if the task makes its problems itself
    and the policy starts from scratch.

    Raises: InvalidSpec, if the trainer refuses data, tokenizer or template, or fails on them.
    """
    if not isinstance(spec.base.model, PretrainedModel) and not isinstance(spec.base.task, WordProblemsTask):
        return plan
    preview = _in_turn(spec.base, cache, limit_s)
    if isinstance(preview, str):
        return plan.model_copy(update={"warnings": [*plan.warnings, f"no prompts are shown: {preview}"]})
    warnings = [*plan.warnings, *_warnings(spec.base, preview)]
    return plan.model_copy(update={"prompts": preview.prompts, "data": preview.data, "warnings": warnings})


def _in_turn(config: TrainingConfig, cache: Path, limit_s: float) -> Preview | str:
    """Return the trainer's preview, or the reason for none; one trainer reads at a time, and few plans wait for it."""
    if not _PLACES.acquire(blocking=False):
        return _BUSY
    try:
        if not _ONE_AT_A_TIME.acquire(timeout=WAIT_S):
            return _BUSY
        try:
            return _preview(config, cache, limit_s)
        finally:
            _ONE_AT_A_TIME.release()
    finally:
        _PLACES.release()


def _preview(config: TrainingConfig, cache: Path, limit_s: float) -> Preview | str:
    """Return the trainer's preview, or that it took more time or memory than it may."""
    with tempfile.TemporaryDirectory(prefix="preview-") as name:
        folder = Path(name)
        code = _run(config, cache, folder, limit_s)
        output, last = (folder / "output").read_bytes(), (log_tail(folder / "log").splitlines() or ["nothing"])[-1]
    if code is None:
        return f"reading data and tokenizer took longer than {limit_s:g} s"
    answer = (output.splitlines() or [b""])[-1]  # libraries may have printed before
    if code == EXIT_CODES["SUCCEEDED"] and answer:
        return Preview.model_validate_json(answer)
    if code == EXIT_CODES["BAD_CONFIG"]:
        problems = [" ".join(problem.split()) for problem in json.loads(answer)["problems"]]
        raise InvalidSpec([SpecError(_pointer(problem), f"{problem:.1000}") for problem in problems])
    ended = f"ended by signal {code - 128}" if code > 128 else f"exit code {code}"
    if _OUT_OF_MEMORY.search(last):
        return f"reading data and tokenizer took more than {LIMIT_BYTES / 2**30:g} GiB"
    detail = f"the trainer could not read data and tokenizer: {last:.500} ({ended})"
    raise InvalidSpec([SpecError("/training/task", detail)])


def _run(config: TrainingConfig, cache: Path, folder: Path, limit_s: float) -> int | None:
    """Run the trainer, its answer and its log into files of the folder; None if it took longer than the limit."""
    file = folder / "config.yaml"
    file.write_text(config.model_dump_json(), encoding="utf-8")
    limited = ["sh", "-c", f'ulimit -d {LIMIT_BYTES >> 10}; exec "$@"', "sh"]  # below the keeper, which has no limit
    command = [sys.executable, "-m", "trainers", str(file), "--preview", "--json", "--cache", str(cache)]
    environment = without_secrets(os.environ) | {"OMP_NUM_THREADS": "1"}
    process = start_kept([*limited, *command], environment, folder / "log", answer=folder / "output")
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        stop(process, 0)


def _pointer(problem: str) -> str:
    """Return the place of the setting with which a problem begins; the task's, if it begins with none."""
    match = _SETTING.match(problem)
    path = match[0].split(".") if match else [""]
    return "/training/" + ("/".join(path) if path[0] in TrainingConfig.model_fields else "task")


def _warnings(config: TrainingConfig, preview: Preview) -> Iterator[str]:
    task, answers = config.task.model_dump(), preview.answers
    if preview.chat_template and task.get("data", {}).get("template") == "raw":
        yield (
            "the model's tokenizer has a chat template and task.data.template is raw: right for base models; for a "
            "chat model set it to chat"
        )
    if answers is not None and answers.refused:
        yield (
            f"of {answers.tried} answers tried {answers.refused} are not right by the reward {answers.reward}, "
            f"such as {answers.example!r:.80}: see task.data.answer, answer_after and answer_boxed"
        )
    if answers is not None and (worked := worked_warning(answers)):
        yield worked
    yield from _data_warnings(preview.data, task)


def _data_warnings(data: DataRecord, task: dict[str, Any]) -> Iterator[str]:
    held_out, long = data.validation.problems, data.left_out.get("too_long")
    if held_out < _FEW:
        yield (
            f"only {held_out} problem{'s' * (held_out != 1)} to validate on: the objective is about these alone; keep "
            "more by task.validation, or by a lower task.validation_every"
        )
    total = data.training.problems + held_out + (long.problems if long else 0)
    if long is not None and long.problems > _MANY * total:
        yield (
            f"{long.problems} of {total} problems are left out: their prompts are longer than "
            f"task.max_prompt_tokens {task['max_prompt_tokens']}"
        )
    if data.contradicting:
        yield f"{data.contradicting} rows repeat a problem with another answer"
