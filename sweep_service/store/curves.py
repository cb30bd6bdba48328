"""Reading what trials recorded: curves and sampled completions."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
from sqlalchemy import select

from sweep_service.records import Curve, Sample, Stage
from sweep_service.series import EVALUATION, TrialSeries, Values
from sweep_service.store import tables as t
from sweep_service.store.base import Rows, one_sweep


class CurveRows(Rows):
    """Curves and samples."""

    def list_samples(self, sweep_id: str, after: tuple[str, int] = ("", -1), limit: int = 100) -> list[Sample]:
        """Return sampled completions, ordered by trial and step, from the (trial, step) after `after`.

        Args:
            limit: how many (trial, step) pairs; each has several samples.
        """
        s = t.samples.c
        joined = t.samples.join(t.trials, s.trial_id == t.trials.c.id)
        query = select(t.samples).select_from(joined).where(t.trials.c.sweep_id == sweep_id)
        query = query.where((s.trial_id > after[0]) | ((s.trial_id == after[0]) & (s.step > after[1])))
        with self._read() as connection:
            one_sweep(connection, sweep_id)
            rows = connection.execute(query.order_by(s.trial_id, s.step).limit(limit)).mappings().all()
        return [
            Sample(trial_id=row["trial_id"], step=row["step"], **sample) for row in rows for sample in row["samples"]
        ]

    def curves(self, sweep_id: str, keys: Sequence[str], trial_ids: Sequence[str] | None = None) -> list[Curve]:
        """Return metrics over their steps, ordered by trial number, then key: of the trials named, or of all.

        A step that several attempts recorded appears once, as the newest attempt has it. A trial that recorded a key
        never is left out.
        """
        joined = t.curves.join(t.trials, t.curves.c.trial_id == t.trials.c.id)
        query = select(t.curves, t.trials.c.config_id, t.trials.c.seed, t.trials.c.stage).select_from(joined)
        query = query.where(t.trials.c.sweep_id == sweep_id)
        if trial_ids is not None:
            query = query.where(t.trials.c.id.in_(trial_ids))
        c = t.curves.c
        kinds = {"evaluation" if key.startswith("eval/") else "step" for key in keys}
        query = query.where(c.kind.in_(kinds)).order_by(t.trials.c.number, c.attempt, c.first_step)
        found: dict[tuple[str, str], dict[int, tuple[float, float | None]]] = {}
        of_trial: dict[str, Mapping[str, Any]] = {}
        with self._read() as connection:
            one_sweep(connection, sweep_id)
            for row in connection.execute(query).mappings():
                of_trial.setdefault(row["trial_id"], row)
                points = row["points"]
                for key in keys:
                    if key in points["metrics"]:
                        values = zip(points["times"], points["metrics"][key], strict=True)
                        found.setdefault((row["trial_id"], key), {}).update(zip(points["steps"], values, strict=True))
        result: list[Curve] = []
        for trial_id, row in of_trial.items():
            for key in keys:
                if by_step := found.get((trial_id, key)):
                    steps = sorted(by_step)
                    result.append(
                        Curve(
                            trial_id=trial_id,
                            config_id=row["config_id"],
                            seed=row["seed"],
                            stage=Stage(row["stage"]),
                            key=key,
                            steps=steps,
                            times=[by_step[step][0] for step in steps],
                            values=[by_step[step][1] for step in steps],
                        )
                    )
        return result

    def series(self, sweep_id: str, keys: Sequence[str]) -> Iterator[TrialSeries]:
        """Yield what each trial recorded of these metrics, as arrays, trial by trial in the order of their numbers.

        As in `curves`, the newest attempt's value stands; a trial that recorded nothing is left out.
        """
        with self._read() as connection:
            one_sweep(connection, sweep_id)
            c = t.trials.c
            query = select(c.id).where(c.sweep_id == sweep_id).order_by(c.number)
            ids = list(connection.execute(query).scalars())
        for trial_id in ids:
            found = {curve.key: curve for curve in self.curves(sweep_id, keys, [trial_id])}
            if found:
                yield as_arrays(trial_id, found)

    def seconds_per_step(self, training: Mapping[str, Any]) -> float | None:
        """Return the median seconds per update of earlier successful trials of the same shape, None if there are none.

        Args:
            training: a training configuration; its loss and optimizer do not matter for its speed.
        """
        shape = {key: training[key] for key in ("task", "model", "rollout", "compute", "evaluation", "device_batch")}
        c = t.trials.c
        joined = t.trials.join(t.configs, (c.config_id == t.configs.c.id) & (c.sweep_id == t.configs.c.sweep_id))
        took = ((c.ended_at - c.started_at) / c.total_steps).label("took")
        query = select(took, t.configs.c.training).select_from(joined).where(c.state == "SUCCEEDED")
        with self._read() as connection:
            rows = connection.execute(query.order_by(c.ended_at.desc()).limit(100)).all()
        same = [row.took for row in rows if all(row.training.get(key) == value for key, value in shape.items())]
        return median(same) if same else None


def as_arrays(trial_id: str, curves: Mapping[str, Curve]) -> TrialSeries:
    """One trial's curves with common steps; a step that a curve lacks is NaN."""
    evaluations = [curve for key, curve in curves.items() if key.startswith(EVALUATION)]
    updates = [curve for key, curve in curves.items() if not key.startswith(EVALUATION)]
    times = {step: time for curve in evaluations for step, time in zip(curve.steps, curve.times, strict=True)}
    eval_steps = np.array(sorted(times), dtype=np.int64)
    steps = np.array(sorted({step for curve in updates for step in curve.steps}), dtype=np.int64)

    def values(curve: Curve) -> Values:
        own = eval_steps if curve.key.startswith(EVALUATION) else steps
        found = np.full(len(own), np.nan)
        found[np.searchsorted(own, curve.steps)] = [np.nan if value is None else value for value in curve.values]
        return found

    return TrialSeries(
        trial_id=trial_id,
        steps=steps,
        eval_steps=eval_steps,
        eval_times=np.array([times[int(step)] for step in eval_steps]),
        metrics={key: values(curve) for key, curve in curves.items()},
    )
