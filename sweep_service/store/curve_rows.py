"""Reads the records of trials: curves, sampled completions, and counts of right answers by validation problem."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby, pairwise
from statistics import median
from typing import Any

from pydantic_core import from_json
from sqlalchemy import ColumnElement, Label, Text, and_, cast, func, or_, select, tuple_

from sweep_service.store import tables as t
from sweep_service.store.base import IS_TRAINING, Rows
from sweep_service.sweep.own_trainer import is_own
from sweep_service.sweep.records import Curve, ProblemCounts, Record, Sample, Stage
from sweep_service.sweep.series import EVALUATION, Columns, TrialSeries
from sweep_service.sweep.spec import Resources


class NewPoints(Record):
    """Some steps of one trial: `metrics[key][i]` was recorded at `steps[i]`, for the requested metrics only."""

    id: int
    """Number of this part; parts of a sweep that are committed later have higher ones."""
    trial_id: str
    steps: list[int]
    metrics: dict[str, list[float | None]]


class CurveRows(Rows):
    """Reader of curves, samples and counts of right answers."""

    def list_samples(self, sweep_id: str, after: tuple[str, int] = ("", -1), limit: int = 100) -> list[Sample]:
        """Return sampled completions, ordered by trial and step, from the (trial, step) after `after`.

        Args:
            limit: largest number of (trial, step) pairs; each has several samples.
        """
        s = t.samples.c
        query = select(t.samples).join(t.trials).where(t.trials.c.sweep_id == sweep_id)
        query = query.where((s.trial_id > after[0]) | ((s.trial_id == after[0]) & (s.step > after[1])))
        with self._read(sweep_id) as connection:
            return _samples(connection.execute(query.order_by(s.trial_id, s.step).limit(limit)).mappings())

    def last_samples(self, sweep_id: str, trial_ids: Sequence[str]) -> list[Sample]:
        """Return the completions that these trials sampled at their last evaluation that has any, by trial number."""
        s = t.samples.c
        last = select(s.trial_id, func.max(s.step).label("step")).where(s.trial_id.in_(trial_ids))
        last = last.group_by(s.trial_id).subquery()
        query = select(t.samples).join(last, (s.trial_id == last.c.trial_id) & (s.step == last.c.step))
        query = query.join(t.trials, s.trial_id == t.trials.c.id).where(t.trials.c.sweep_id == sweep_id)
        with self._read(sweep_id) as connection:
            return _samples(connection.execute(query.order_by(t.trials.c.number)).mappings())

    def samples_at(self, evaluations: Sequence[tuple[str, int]]) -> list[Sample]:
        """Return the completions written at these evaluations, each a trial's id and a step, in their order."""
        s = t.samples.c
        named = [and_(s.trial_id == trial_id, s.step == step) for trial_id, step in evaluations]
        with self._read() as connection:
            rows = connection.execute(select(t.samples).where(or_(False, *named))).mappings().all()
        return _samples(sorted(rows, key=lambda row: evaluations.index((row["trial_id"], row["step"]))))

    def problem_counts(self, sweep_id: str, last: int) -> Iterator[ProblemCounts]:
        """Yield the counts of the last evaluations of each trial, by trial number and step.

        Args:
            last: number of evaluations of each trial.
        Raises: NotFound.
        """
        c, s = t.problem_counts.c, t.problem_sets.c
        newest_first = func.row_number().over(partition_by=c.trial_id, order_by=c.step.desc())
        ranked = select(t.problem_counts, t.trials.c.number, newest_first.label("place"))
        rows = ranked.join_from(t.problem_counts, t.trials).where(t.trials.c.sweep_id == sweep_id).subquery()
        query = select(rows).where(rows.c.place <= last).order_by(rows.c.number, rows.c.step)
        with self._read(sweep_id) as connection:
            sets = connection.execute(select(s.digest, s.names).where(s.sweep_id == sweep_id))
            names = {row.digest: tuple(row.names) for row in sets}
            counts = connection.execute(query).all()
        for row in counts:
            judged = row.judged if isinstance(row.judged, list) else [row.judged] * len(row.right)
            yield ProblemCounts(
                trial_id=row.trial_id,
                step=row.step,
                names=names[row.digest],
                judged=tuple(judged),
                right=tuple(row.right),
            )

    def judged_samples(self, trial_id: str) -> int | None:
        """Return the number of samples judged at a trial's first evaluation; None where nobody counts them."""
        c = t.problem_counts.c
        query = select(c.judged, c.right).where(c.trial_id == trial_id).order_by(c.step).limit(1)
        row = next(iter(self._rows(query)), None)
        if row is None:
            return None
        return sum(row.judged) if isinstance(row.judged, list) else row.judged * len(row.right)

    def curves(self, sweep_id: str, keys: Sequence[str], trial_ids: Sequence[str] | None = None) -> list[Curve]:
        """Return the curves of these metrics, ordered by trial number, then key, for the trials named or for all.

        A step that several attempts recorded appears once, as the newest attempt has it. Curves without a point are
        left out.
        """
        c, kinds = t.curves.c, {"evaluation" if key.startswith(EVALUATION) else "step" for key in keys}
        of_trial = t.trials.c.config_id, t.trials.c.seed, t.trials.c.stage
        query = select(c.trial_id, self._recorded(keys), *of_trial).join_from(t.curves, t.trials)
        query = query.where(t.trials.c.sweep_id == sweep_id, c.kind.in_(kinds))
        if trial_ids is not None:
            query = query.where(t.trials.c.id.in_(trial_ids))
        query = query.order_by(t.trials.c.number, c.attempt, c.first_step)
        curves: list[Curve] = []
        with self._read(sweep_id) as connection:
            for trial_id, rows in groupby(connection.execute(query).all(), lambda row: row.trial_id):
                first, *_ = parts = list(rows)
                whose: dict[str, Any] = {"trial_id": trial_id, "config_id": first.config_id, "seed": first.seed}
                recorded = [from_json(part.recorded) for part in parts]
                for place, key in enumerate(keys, 2):
                    if columns := [(part[0], part[1], part[place]) for part in recorded if part[place]]:
                        steps, times, values = _joined(columns)
                        points: dict[str, Any] = {"steps": steps, "times": times, "values": values}
                        curves.append(Curve(**whose, stage=Stage(first.stage), key=key, **points))
        return curves

    def _recorded(self, keys: Sequence[str]) -> Label[str]:
        """Return the text of a JSON array for each part: its steps, its times, and its values of each of these metrics.

        A metric that a part does not have is null. The database finds them in long texts faster than Python.
        """
        points = t.curves.c.points
        if self.engine.dialect.name == "sqlite":
            array = func.json_extract(points, "$.steps", "$.times", *(f'$.metrics."{key}"' for key in keys))
        else:
            metrics = [points["metrics"][key] for key in keys]
            array = cast(func.json_build_array(points["steps"], points["times"], *metrics), Text)
        return array.label("recorded")

    def metric_keys(self, sweep_id: str) -> set[str]:
        """Return the names of the metrics that a sweep's trials have recorded.

        The first and the last part of each config's curves are looked at: trials of one config record the same.

        Raises: NotFound.
        """
        c = t.curves.c
        of_config = select(func.min(c.id).label("first"), func.max(c.id).label("last")).join_from(t.curves, t.trials)
        of_config = of_config.where(t.trials.c.sweep_id == sweep_id).group_by(t.trials.c.config_id, c.kind).subquery()
        which = or_(c.id == of_config.c.first, c.id == of_config.c.last)
        with self._read(sweep_id) as connection:
            parts = connection.execute(select(cast(c.points, Text)).join(of_config, which)).scalars()
            return {key for points in parts for key in from_json(points)["metrics"]}

    def series(self, sweep_id: str, keys: Sequence[str]) -> Iterator[TrialSeries]:
        """Yield the values that each trial recorded of these metrics, as arrays, by trial number.

        A step that several attempts recorded appears once, as the newest attempt has it. A metric that never had a
        value is left out, and so is a trial that recorded nothing.
        """
        c = t.trials.c
        query = select(c.id).where(c.sweep_id == sweep_id, IS_TRAINING).order_by(c.number)
        with self._read(sweep_id) as connection:
            ids = list(connection.execute(query).scalars())
        for trial_id in ids:
            if series := self.trial_series(trial_id, keys):
                yield series

    def trial_series(self, trial_id: str, keys: Sequence[str]) -> TrialSeries | None:
        """Return one trial's values, as `series` has them; None if it recorded nothing."""
        # Points may be gigabytes: each is parsed once, and only these become objects.
        kinds = {
            "step": Columns([key for key in keys if not key.startswith(EVALUATION)]),
            "evaluation": Columns([key for key in keys if key.startswith(EVALUATION)]),
        }
        c = t.curves.c
        query = select(c.kind, cast(c.points, Text)).where(c.trial_id == trial_id)
        nonempty = [kind for kind, columns in kinds.items() if columns.values]
        with self._read() as connection:
            for kind, points in connection.execute(query.where(c.kind.in_(nonempty)).order_by(c.attempt, c.first_step)):
                kinds[kind].add(from_json(points))
        steps, _, values = kinds["step"].arrays()
        eval_steps, eval_times, eval_values = kinds["evaluation"].arrays()
        if not steps.size and not eval_steps.size:
            return None
        return TrialSeries(trial_id, steps, eval_steps, eval_times, values | eval_values)

    def new_points(self, sweep_id: str, keys: Sequence[str], after: int, limit: int) -> list[NewPoints]:
        """Return the points that a sweep's trials recorded after the part with the id `after`, in order of arrival.

        A step may come again, from a later attempt: then the later value stands.
        """
        return self._points(sweep_id, keys, t.curves.c.id > after, limit)

    def last_points(self, sweep_id: str, keys: Sequence[str]) -> list[NewPoints]:
        """Return all evaluations of a sweep's trials, and of their steps the part with the last one; as `new_points`.

        The last of these parts is the sweep's newest, unless a trial has been trained again from before its last step.
        """
        c = t.curves.c
        last = select(c.trial_id, func.max(c.last_step)).where(c.kind == "step").group_by(c.trial_id)
        last = last.where(c.trial_id.in_(select(t.trials.c.id).where(t.trials.c.sweep_id == sweep_id)))
        return self._points(sweep_id, keys, or_(c.kind == "evaluation", tuple_(c.trial_id, c.last_step).in_(last)))

    def _points(
        self, sweep_id: str, keys: Sequence[str], which: ColumnElement[bool], limit: int | None = None
    ) -> list[NewPoints]:
        c = t.curves.c
        query = select(c.id, c.trial_id, self._recorded(keys)).join_from(t.curves, t.trials)
        query = query.where(t.trials.c.sweep_id == sweep_id, which).order_by(c.id).limit(limit)
        parts: list[NewPoints] = []
        for row in self._rows(query):
            steps, _, *values = from_json(row.recorded)
            metrics = {key: points for key, points in zip(keys, values, strict=True) if points is not None}
            parts.append(NewPoints(id=row.id, trial_id=row.trial_id, steps=steps, metrics=metrics))
        return parts

    def seconds_per_step(self, training: Mapping[str, Any], resources: Resources) -> float | None:
        """Return the median seconds per update of earlier successful trials of the same shape, None if there are none.

        Args:
            training: the settings of the training, as JSON; their loss and optimizer do not matter for its speed.
            resources: resources of one trial.
        """
        ours = ("task", "model", "rollout", "compute", "evaluation", "device_batch")
        shape = {key: training[key] for key in (("command",) if is_own(training) else ours)}
        c = t.trials.c
        took = (c.held_s / c.total_steps).label("took")  # start to end would include waiting
        own_config = (c.config_id == t.configs.c.id) & (c.sweep_id == t.configs.c.sweep_id)
        query = select(took, t.configs.c.training, t.sweeps.c.spec).join_from(t.trials, t.configs, own_config)
        query = query.join(t.sweeps, c.sweep_id == t.sweeps.c.id)
        query = query.where(c.state == "SUCCEEDED", IS_TRAINING, c.held_s > 0).order_by(c.ended_at.desc()).limit(100)
        held = resources.model_dump(include={"cpus", "gpus", "processes"})
        same = [
            row.took
            for row in self._rows(query)
            if all(row.training.get(key) == value for key, value in shape.items())
            and all(row.spec["resources"].get(key) == value for key, value in held.items())
        ]
        return median(same) if same else None


def _joined(parts: Sequence[tuple[list[int], list[float], list[float | None]]]) -> list[list[Any]]:
    """Join parts of a curve to all steps, times and values; of a step that comes again the later value stands."""
    columns = [[*chain.from_iterable(column)] for column in zip(*parts, strict=True)]
    if any(later <= earlier for earlier, later in pairwise(columns[0])):
        last = {step: place for place, step in enumerate(columns[0])}
        columns = [[column[last[step]] for step in sorted(last)] for column in columns]
    return columns


def _samples(rows: Iterable[Mapping[Any, Any]]) -> list[Sample]:
    return [Sample(trial_id=row["trial_id"], step=row["step"], **sample) for row in rows for sample in row["samples"]]
