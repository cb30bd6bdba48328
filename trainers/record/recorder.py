"""Records a run: its events, a progress bar on stderr and its summary."""

import time
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn

from trainers.evaluation.evaluate import EvaluationResult
from trainers.process.events import EventWriter
from trainers.process.progress import bar

if TYPE_CHECKING:
    from tqdm import tqdm

Outcome = Literal["SUCCEEDED", "DIVERGED", "STOPPED"]
_AVERAGED_EVALUATIONS: Final = 3


class Recorder:
    """Writes a run's record into `events`; its counters go on from the `state` that a checkpoint keeps."""

    def __init__(self, events: EventWriter, total_steps: int, first_step: int, state: dict[str, Any]) -> None:
        self.events = events
        self._steps = total_steps, first_step
        self._started = time.monotonic()
        self._tokens_total: float = state.get("tokens_total", 0)
        self._evaluations: list[float] = state.get("evaluations", [])
        self._latest: dict[str, float | None] = state.get("latest", {})
        self._named_problems: str | None = None

    @property
    def state(self) -> dict[str, Any]:
        """The counters that a checkpoint keeps."""
        return {"tokens_total": self._tokens_total, "evaluations": self._evaluations, "latest": self._latest}

    @cached_property
    def _bar(self) -> "tqdm[NoReturn]":
        return bar("training", *self._steps)

    def step(self, step: int, metrics: dict[str, float | None]) -> None:
        """Record an optimizer update."""
        self._tokens_total += metrics["tokens/step"] or 0
        self.events.write("step", step=step, metrics={**metrics, "tokens/total": self._tokens_total})
        shown = {"reward": metrics["reward/mean"], "entropy": metrics["entropy"]}
        texts = [f"{name} {value:.2f}" for name, value in shown.items() if value is not None]
        self._bar.set_postfix_str(", ".join(texts), refresh=False)
        self._bar.update()

    def evaluation(self, step: int, evaluation: EvaluationResult) -> None:
        """Record an evaluation, its counts problem by problem, and the completions it shows.

        The problems' names come once before the first evaluation of this process.
        """
        self._latest = evaluation.metrics
        if (value := evaluation.metrics["eval/avg_at_k"]) is not None:
            self._evaluations = [*self._evaluations, value][-_AVERAGED_EVALUATIONS:]
        problems = evaluation.problems
        if self._named_problems != problems.digest:
            self._named_problems = problems.digest
            self.events.write("problems", digest=problems.digest, names=problems.names)
        self.events.write("evaluation", step=step, metrics=evaluation.metrics, problems=problems.event)
        self.events.write("samples", step=step, samples=evaluation.samples)

    def finished(self, outcome: Outcome, step: int, message: str | None = None) -> None:
        """Record the end and its summary, and why it diverged."""
        if step > self._steps[1]:
            self._bar.close()
        summary: dict[str, float | None] = {
            **self._latest,
            "eval/avg_at_k_last3": sum(self._evaluations) / len(self._evaluations) if self._evaluations else None,
            "tokens/total": self._tokens_total,
            "time/train_s": time.monotonic() - self._started,
        }
        why = {} if message is None else {"message": message}
        self.events.write("finished", outcome=outcome, step=step, summary=summary, **why)
