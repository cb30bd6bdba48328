"""Turns what happens in a run into events, a bar on stderr and the run's summary."""

import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn

from trainers.evaluation.evaluate import Evaluation
from trainers.process.events import EventWriter
from trainers.process.progress import bar

if TYPE_CHECKING:
    from tqdm import tqdm

Outcome = Literal["SUCCEEDED", "DIVERGED", "STOPPED"]
_AVERAGED_EVALUATIONS: Final = 3


class Recorder:
    """Writes the events of a run's training; `tokens_total` counts on from a checkpoint's."""

    def __init__(self, events: EventWriter, total_steps: int, first_step: int, state: dict[str, Any]) -> None:
        self._events = events
        self._steps = total_steps, first_step
        self._started = time.monotonic()
        self._tokens_total: float = state.get("tokens_total", 0)
        self._evaluations: list[float] = state.get("evaluations", [])
        self._latest: dict[str, float | None] = state.get("latest", {})

    @property
    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps of this."""
        return {"tokens_total": self._tokens_total, "evaluations": self._evaluations, "latest": self._latest}

    @cached_property
    def _bar(self) -> "tqdm[NoReturn]":
        return bar("training", *self._steps)

    def step(self, step: int, metrics: dict[str, float | None]) -> None:
        """Record an optimizer update."""
        self._tokens_total += metrics["tokens/step"] or 0
        self._events.write("step", step=step, metrics={**metrics, "tokens/total": self._tokens_total})
        shown = {"reward": metrics["reward/mean"], "entropy": metrics["entropy"]}
        known = [f"{name} {value:.2f}" for name, value in shown.items() if value is not None]
        self._bar.set_postfix_str(", ".join(known), refresh=False)
        self._bar.update()

    def evaluation(self, step: int, evaluation: Evaluation) -> None:
        """Record an evaluation and the completions it shows."""
        self._latest = evaluation.metrics
        if (value := evaluation.metrics["eval/avg_at_k"]) is not None:
            self._evaluations = [*self._evaluations, value][-_AVERAGED_EVALUATIONS:]
        self._events.write("evaluation", step=step, metrics=evaluation.metrics)
        self._events.write("samples", step=step, samples=evaluation.samples)

    def warning(self, step: int, warning: dict[str, Any]) -> None:
        """Record that something makes the run's result doubtful: `code`, `message` and `evidence`."""
        self._events.write("warning", step=step, **warning)

    def before_checkpoint(self) -> None:
        """Make sure that no checkpoint is on disk whose events are not."""
        self._events.sync()

    def checkpoint(self, step: int, path: Path) -> None:
        """Record a complete checkpoint."""
        self._events.write("checkpoint", step=step, path=str(path))

    def best(self, step: int, path: Path, value: float) -> None:
        """Record that the weights of the best evaluation so far are kept."""
        self._events.write("best", step=step, path=str(path), value=value)

    def finished(self, outcome: Outcome, step: int) -> None:
        """Record the end and its summary."""
        if step > self._steps[1]:
            self._bar.close()
        summary: dict[str, float | None] = {
            **self._latest,
            "eval/avg_at_k_last3": sum(self._evaluations) / len(self._evaluations) if self._evaluations else None,
            "tokens/total": self._tokens_total,
            "time/train_s": time.monotonic() - self._started,
        }
        self._events.write("finished", outcome=outcome, step=step, summary=summary)
