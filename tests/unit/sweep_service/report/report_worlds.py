"""Sweeps to each of which one thing happened, by that thing: whole tables of them are held against golden files."""

import re
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import numpy as np

from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.model import Report
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.records import (
    AskedBefore,
    Config,
    ProblemCounts,
    Role,
    Stage,
    SweepState,
    Trial,
    TrialState,
    TrialWarning,
    ValidatedSweep,
)
from sweep_service.sweep.series import TrialSeries
from tests.unit.sweep_service.report.report_benchmarks import evaluated, measured_inputs
from tests.unit.sweep_service.report.report_claims import Curve, with_curves
from tests.unit.sweep_service.report.report_sweeps import Fate, in_halves, on_seeds, succeed, sweep_inputs
from trainers.evaluation.problem_parts import PARTS

Where = Callable[[Config, Trial], Any]
World = Callable[[], ReportInputs]

CONFIRM = on_seeds(confirm=range(10, 16))
MANY = on_seeds(confirm=range(10, 46), top_k=1)
EXPLORED = on_seeds(confirm=())
HEALTHY: dict[str, Any] = {"space": {"loss.beta1": [0.0, 0.25], "loss.beta2": 1.0}}
RATES = {
    "space": {"loss.beta1": [0.0, 0.25], "loss.beta2": 1.0, "optimizer.learning_rate": [3e-4, 1e-3]},
} | on_seeds(top_k=3)
NO_BASELINE = {"ppo_clip": False, "dapo": False, "matched": False}
SAME_PROBLEMS = {"seeds": {"tune": [0, 1], "confirm": {"seeds": [10, 11, 12, 13], "problems": "same"}}}
NAMES = tuple(f"{number:012x}0000" for number in range(20))
"""Of validation problems."""
LIMITS: dict[str, Any] = {"resources": {"gpus": 2}, "budget": {"max_trial_hours": 0.01, "max_gpu_hours": 1}}


def ending(where: Where, state: TrialState = TrialState.FAILED, **changes: Any) -> Fate:
    """Every trial trains to its end, but for those that end otherwise."""

    def fate(config: Config, trial: Trial) -> Trial:
        if where(config, trial):
            return trial.model_copy(update={"state": state, **changes})
        return succeed(config, trial)

    return fate


def warned(where: Where, *warnings: TrialWarning) -> Fate:
    """Every trial trains to its end, and some warn."""
    return lambda config, trial: succeed(
        config, trial.model_copy(update={"warnings": warnings}) if where(config, trial) else trial
    )


def warning(code: str, message: str, step: int = 12) -> TrialWarning:
    return TrialWarning(code=code, message=message, evidence={}, step=step)


def never_begun(number: int, why: Ending = Ending.OVER_BUDGET) -> Fate:
    """Tune trials from this one on never began."""
    never = {"ending": why, "attempts": 0, "held_s": 0.0, "started_at": None}
    return ending(lambda _, t: t.stage is Stage.TUNE and t.number >= number, TrialState.CANCELLED, **never)


def is_baseline(config: Config) -> bool:
    return Role.BASELINE in config.roles


def confirms(config: Config, trial: Trial, seeds: Collection[int]) -> bool:
    """True for the trials of β1 = 0, β2 = 1 on these confirm seeds."""
    loss = config.training["loss"]
    return trial.seed in seeds and trial.stage is Stage.CONFIRM and loss.get("beta1") == 0 and loss.get("beta2") == 1


def scored(inputs: ReportInputs, value: Callable[[Config, Trial, Any], Any]) -> ReportInputs:
    """The same sweep with other results of evaluations."""
    return with_curves(inputs, eval__avg_at_k=lambda c, t, values: values * 0 + value(c, t, values))


def collapsing(inputs: ReportInputs, where: Where) -> ReportInputs:
    """The same sweep, in which some trials lose their right answers at the end."""

    def fall(config: Config, trial: Trial, values: Any) -> Any:
        return np.where(np.arange(len(values)) < len(values) - 3, values, 0.01) if where(config, trial) else values

    return scored(inputs, fall)


def _stopped(state: TrialState) -> Fate:
    """Every trial trains to its end, but for the two of β1 = 1, which somebody stopped."""
    return ending(lambda c, t: t.stage is Stage.TUNE and c.params["loss.beta1"] == 1.0, state, step=120)


def in_part(low: float, high: float, factor: float) -> Curve:
    """Multiply a stretch of a curve."""

    def change(config: Config, trial: Trial, values: Any) -> Any:
        share = np.arange(len(values)) / len(values)
        return np.where((share >= low) & (share < high), values * factor, values)

    return change


def rising(start: float, end: float) -> Curve:
    """A straight line instead of a curve."""
    return lambda config, trial, values: np.linspace(start, end, len(values))


def crashing(seeds: Collection[int], why: Ending = Ending.CRASHED) -> Fate:
    return ending(lambda c, t: confirms(c, t, seeds), ending=why)


def counted(inputs: ReportInputs, names: tuple[str, ...] = NAMES) -> ReportInputs:
    """The same sweep with two counted evaluations of each trial: problem n is right 10 + n % 5 times of 20, then once
    more often."""
    counts = [
        ProblemCounts(
            trial_id=trial.id,
            step=200 + again,
            names=names,
            judged=(20,) * len(names),
            right=tuple(10 + (place + trial.number) % 5 + again for place in range(len(names))),
        )
        for trial in inputs.trials
        for again in range(2)
    ]
    return replace(inputs, problem_counts=tuple(counts))


def without_luck(inputs: ReportInputs) -> ReportInputs:
    """The same sweep with counted problems in halves that are all alike, so that a result says the same of others."""

    def halved(one: TrialSeries) -> TrialSeries:
        plain = {name.removeprefix("eval/"): values for name, values in one.metrics.items() if name.startswith("eval/")}
        parts = {f"eval/{part}/{name}": values for part in PARTS for name, values in plain.items()}
        return replace(one, metrics={**one.metrics, **parts})

    counts = [
        ProblemCounts(
            trial_id=id_,
            step=int(step),
            names=NAMES,
            judged=(10**6,) * len(NAMES),
            right=(round(1e6 * min(1.0, float(value))),) * len(NAMES),
        )
        for id_, one in inputs.series.items()
        for step, value in list(zip(one.eval_steps, one.metrics["eval/avg_at_k"], strict=True))[-3:]
    ]
    series = {id_: halved(one) for id_, one in inputs.series.items()}
    return replace(inputs, series=series, problem_counts=tuple(counts))


def on_problems_of_its_own(inputs: ReportInputs) -> ReportInputs:
    """The same sweep, in which no two trials were evaluated on one problem."""
    own = [
        one.model_copy(update={"names": tuple(f"{name} {one.trial_id}" for name in one.names)})
        for one in inputs.problem_counts
    ]
    return replace(inputs, problem_counts=tuple(own))


def asked_before(*outcomes: str, **changes: Any) -> tuple[AskedBefore, ...]:
    """Earlier sweeps of the same question, with what they found."""
    return tuple(
        AskedBefore(sweep_id=f"swp_{number}", name=f"betas-{number}", outcome=outcome, **changes)
        for number, outcome in enumerate(outcomes)
    )


def sharing_the_lead() -> ReportInputs:
    """Two configs of the space have exactly the same results."""
    inputs = sweep_inputs(EXPLORED)
    return scored(
        inputs,
        lambda c, t, values: 0.9 if c.params["loss.beta1"] in (0.0, 0.5) and Role.SPACE in c.roles else values / 2,
    )


def below_dapo() -> ReportInputs:
    """The leader is above the baseline, which lacks a seed, and below DAPO."""
    inputs = sweep_inputs(on_seeds((0, 1, 2), confirm=()))
    baseline = next(config.id for config in inputs.configs if is_baseline(config))
    kept = tuple(trial for trial in inputs.trials if (trial.config_id, trial.seed) != (baseline, 2))

    def level(config: Config, trial: Trial, _: Any) -> float:
        if is_baseline(config):
            return (0.1, 0.3, 0.9)[trial.seed]
        return 0.9 if Role.DAPO in config.roles else 0.5 if config.params["loss.beta1"] == 0 else 0.4

    return scored(replace(inputs, trials=kept), level)


def as_good_as_its_matched_baseline(spec: dict[str, Any]) -> ReportInputs:
    """A win over the baseline that a matched baseline has, too."""
    raised = sweep_inputs(spec, advantage=0.08)
    return scored(raised, lambda c, _, values: values + 0.08 if c.roles == (Role.MATCHED,) else values)


def every(config: Config, trial: Trial) -> bool:
    return True


VERDICTS: dict[str, World] = {
    "the best config is ahead in sound runs": lambda: without_luck(sweep_inputs(CONFIRM, advantage=0.2)),
    "the best config is behind in sound runs": lambda: without_luck(sweep_inputs(CONFIRM, advantage=-0.4)),
    "the best config is ahead on these problems": lambda: sweep_inputs(CONFIRM, advantage=0.2),
    "the best config is behind on these problems": lambda: sweep_inputs(CONFIRM, advantage=-0.4),
    "the objective does not count problems": lambda: sweep_inputs(
        CONFIRM | {"objective": {"metric": "eval/pass_at_k"}}, advantage=0.2
    ),
    "many runs: the best config is better": lambda: without_luck(sweep_inputs(MANY, advantage=0.12)),
    "many runs: the best config is worse": lambda: without_luck(
        sweep_inputs(MANY | {"space": {"loss.beta1": 0.5, "loss.beta2": 1.0}})
    ),
    "many runs: what matters is large": lambda: without_luck(sweep_inputs(MANY | {"objective": {"relevant": 0.15}})),
    "the two cannot be told apart": lambda: sweep_inputs({"objective": {"relevant": 0.01}}),
    "a second look at more seeds": lambda: replace(sweep_inputs({"objective": {"relevant": 0.01}}), looks=2),
    "one half of the problems chose, the other measures": lambda: in_halves(sweep_inputs()),
    "right samples of other problems were counted": lambda: counted(in_halves(sweep_inputs())),
    "right samples of the same problems were counted": lambda: counted(sweep_inputs()),
    "right samples of few problems were counted": lambda: counted(sweep_inputs(), NAMES[:10]),
    "the spec asks for the same problems": lambda: counted(in_halves(sweep_inputs(SAME_PROBLEMS))),
    "each trial was evaluated on problems of its own": lambda: on_problems_of_its_own(counted(sweep_inputs())),
    "one candidate": lambda: sweep_inputs(on_seeds(top_k=1)),
    "two confirm seeds": lambda: sweep_inputs(on_seeds(confirm=(10, 11), top_k=1), advantage=0.3),
    "no confirm stage": lambda: sweep_inputs(EXPLORED, advantage=0.2),
    "no confirm stage and one tune seed": lambda: sweep_inputs(on_seeds((0,), confirm=())),
    "no confirm stage, and the leader is below the baseline": lambda: sweep_inputs(
        EXPLORED | {"baselines": {"dapo": False}}, advantage=-0.4
    ),
    "no confirm stage, and another config shares the lead": sharing_the_lead,
    "no confirm stage, and DAPO is above the leader": below_dapo,
    "no confirm stage, and every trial diverged": lambda: sweep_inputs(
        EXPLORED, fate=ending(every, TrialState.DIVERGED)
    ),
    "every trial diverged": lambda: sweep_inputs(fate=ending(every, TrialState.DIVERGED, message="loss is nan")),
    "no policy ever learned": lambda: scored(sweep_inputs(HEALTHY), lambda *_: 0.0),
    "no confirm stage, and no policy ever learned": lambda: scored(
        sweep_inputs(on_seeds((0, 1, 2), confirm=())), lambda *_: 0.0
    ),
    "enough seeds for a relevant difference": lambda: sweep_inputs(
        on_seeds(confirm=range(10, 40)) | {"objective": {"relevant": 0.0125}}, advantage=0.008
    ),
    "nothing succeeded": lambda: sweep_inputs(
        fate=ending(every, step=40, message="out of memory"), state=SweepState.FAILED, confirmed=False
    ),
    "one trial": lambda: sweep_inputs(
        on_seeds((0,), confirm=()) | {"space": {"loss.beta1": 0.5}, "baselines": NO_BASELINE}
    ),
    "no baseline": lambda: sweep_inputs({"baselines": NO_BASELINE}),
    "DAPO is the only baseline": lambda: sweep_inputs(
        {"baselines": NO_BASELINE | {"dapo": True}, "objective": {"relevant": 0.03}}
    ),
    "the baseline failed on every confirm seed": lambda: sweep_inputs(
        {"baselines": NO_BASELINE | {"ppo_clip": True}},
        fate=ending(lambda c, t: is_baseline(c) and t.stage is Stage.CONFIRM, step=40, message="out of memory"),
    ),
    "a candidate failed on every confirm seed": lambda: sweep_inputs(
        fate=ending(lambda c, t: t.stage is Stage.CONFIRM and c.params.get("loss.beta1") == 0.5)
    ),
    "the baseline differs outside the space": lambda: sweep_inputs(
        {"space": {"loss.beta1": [0.0, 0.5]}, "objective": {"relevant": 0.01}}
    ),
    "the baseline is a point of the space": lambda: sweep_inputs(
        {"space": {"loss.beta1": [0.0, 0.5], "loss.beta2": [0.0, 1.0]}}, advantage=-0.3
    ),
    "a learning rate varies as well": lambda: sweep_inputs(RATES),
    "a learning rate varies as well, without matched baselines": lambda: sweep_inputs(
        RATES | {"baselines": {"matched": False}}
    ),
    "a learning rate varies as well, without a confirm stage": lambda: sweep_inputs(RATES | EXPLORED),
    "the best config is PPO clip with another learning rate": lambda: sweep_inputs(
        RATES | {"space": {"loss.beta1": 0.0, "loss.beta2": 0.0, "optimizer.learning_rate": [3e-4, 1e-3]}}
    ),
    "the gain may come from the learning rate": lambda: as_good_as_its_matched_baseline({"space": RATES["space"]}),
    "the gain may come from the clip bounds": lambda: as_good_as_its_matched_baseline(
        {"space": {"loss.beta1": 0.0, "loss.beta2": 1.0, "loss.epsilon": 0.3}}
    ),
    "one run of the best config collapsed": lambda: collapsing(
        sweep_inputs(CONFIRM, advantage=0.3), lambda c, t: confirms(c, t, [10])
    ),
    "two runs of a slightly better config collapsed": lambda: collapsing(
        sweep_inputs(CONFIRM, advantage=0.12), lambda c, t: confirms(c, t, [10, 11])
    ),
    "one run of the best config never took off": lambda: scored(
        sweep_inputs(CONFIRM, advantage=0.3), lambda c, t, values: values * (0.5 if confirms(c, t, [10]) else 1)
    ),
    "most runs of the baseline collapsed": lambda: collapsing(
        sweep_inputs(on_seeds(confirm=range(10, 22)), advantage=0.12),
        lambda c, t: is_baseline(c) and t.stage is Stage.CONFIRM and t.seed < 19,
    ),
    "three of twelve runs of a config collapsed": lambda: collapsing(
        sweep_inputs({"space": {"loss.beta1": [0.0], "loss.beta2": 1.0}} | on_seeds(confirm=range(10, 22), top_k=1)),
        lambda c, t: confirms(c, t, [10, 11, 12]),
    ),
    "of three runs one collapsed": lambda: collapsing(
        sweep_inputs(on_seeds(confirm=(10, 11, 12)), advantage=0.12), lambda c, t: confirms(c, t, [10])
    ),
    "of three runs two collapsed": lambda: collapsing(
        sweep_inputs(on_seeds(confirm=(10, 11, 12), top_k=1), advantage=0.12), lambda c, t: confirms(c, t, [10, 11])
    ),
    "one run of the baseline collapsed": lambda: collapsing(
        sweep_inputs(CONFIRM, advantage=0.3), lambda c, t: is_baseline(c) and t.seed == 10
    ),
    "two runs of the best config crashed": lambda: sweep_inputs(CONFIRM, fate=crashing([10, 11]), advantage=0.3),
    "two runs of the best config were lost": lambda: sweep_inputs(
        CONFIRM, fate=crashing([10, 11], Ending.LOST), advantage=0.3
    ),
    "one run of the baseline crashed": lambda: sweep_inputs(
        CONFIRM,
        fate=ending(lambda c, t: is_baseline(c) and t.seed == 10, ending=Ending.CRASHED),
        advantage=0.3,
    ),
    "a run crashed in the tune stage": lambda: sweep_inputs(
        CONFIRM, fate=ending(lambda c, t: t.seed == 0 and c.params.get("loss.beta1") == 1, ending=Ending.CRASHED)
    ),
}


SYMPTOMS: dict[str, dict[str, Any]] = {
    "entropy collapses": {"entropy": in_part(0.4, 0.5, 0.1)},
    "entropy explodes": {"entropy": in_part(0.4, 0.5, 6.0)},
    "entropy rises while reward falls": {"entropy": rising(1.0, 2.9), "reward__mean": in_part(0.5, 1, 0.6)},
    "reward collapses for a while": {"reward__mean": in_part(0.8, 0.9, 0.3)},
    "more and more completions are cut": {"completion__truncated_share": rising(0.0, 0.5)},
    "completions grow without a gain": {
        "completion__length_ended": rising(6.0, 12.0),
        "eval__avg_at_k": rising(0.4, 0.41),
    },
    "reward rises and held-out accuracy falls": {"reward__mean": rising(0.4, 0.9), "eval__avg_at_k": rising(0.5, 0.3)},
    "the last evaluations have less than half of the right answers": {
        "eval__avg_at_k": lambda c, t, values: np.where(np.arange(values.size) < values.size - 3, values, 0.2)
    },
    "it leaves the initial model": {"probe__kl_from_initial_k3": in_part(0.5, 0.6, 6.0)},
    "most groups have equal rewards": {"group__zero_spread_share": in_part(0.5, 0.6, 3.0)},
    "a third of the tokens is clipped": {"clip_fraction__high": rising(0.3, 0.4)},
    "no symptom: entropy falls for less than a window": {"entropy": in_part(0.4, 0.42, 0.01)},
    "no symptom: entropy rises, and so does reward": {"entropy": rising(1.0, 2.9)},
    "no symptom: reward falls before it has risen": {
        "reward__mean": lambda c, t, values: in_part(0.1, 0.2, 0.1)(c, t, rising(0.0, 0.9)(c, t, values))
    },
    "no symptom: completions grow, and held-out accuracy too": {"completion__length_ended": rising(6.0, 12.0)},
    "no symptom: fewer and fewer completions are cut": {"completion__truncated_share": rising(0.6, 0.1)},
    "no symptom: a last evaluation with few right answers": {
        "eval__avg_at_k": lambda c, t, values: np.where(np.arange(values.size) < values.size - 1, values, 0.2)
    },
    "no symptom: far from the initial model for less than a window": {
        "probe__kl_from_initial_k3": in_part(0.5, 0.51, 6.0)
    },
    "no symptom: equal rewards for less than a window": {"group__zero_spread_share": in_part(0.5, 0.51, 3.0)},
    "no symptom: many clipped tokens in a tenth of the training": {"clip_fraction__low": in_part(0.5, 0.6, 20.0)},
}
"""Curves of the fourth trial of a sweep that is healthy otherwise."""


def in_one_trial(curves: dict[str, Any]) -> ReportInputs:
    only = {
        name: lambda c, t, values, change=change: change(c, t, values) if t.number == 3 else values
        for name, change in curves.items()
    }
    return with_curves(sweep_inputs(HEALTHY), **only)


def edge(beta2: Any) -> World:
    return lambda: sweep_inputs({"space": {"loss.beta1": 0.0, "loss.beta2": beta2}}, advantage=0.1)


def versions(*odd: list[dict[str, str]]) -> ReportInputs:
    """The first trials noted other versions than all the others."""
    inputs = sweep_inputs(HEALTHY)
    usual = {"python": "3.11.9", "torch": "2.13.0", "transformers": "5.23.0", "trl": "1.16.0"}
    noted = {trial.id: [usual] for trial in inputs.trials}
    own = [[usual | one for one in attempts] for attempts in odd]
    return replace(inputs, trained_with=noted | dict(zip(noted, own, strict=False)))


def problems(*first: str) -> ReportInputs:
    """The first trial was evaluated on these problems, all others on a and b."""
    inputs = sweep_inputs(HEALTHY)
    names = {trial.id: ("a", "b") for trial in inputs.trials} | {inputs.trials[0].id: first}
    counts = [
        ProblemCounts(trial_id=id_, step=1, names=own, judged=(2,) * len(own), right=(1,) * len(own))
        for id_, own in names.items()
    ]
    return replace(inputs, problem_counts=tuple(counts))


def unnoted(fate: Fate = succeed) -> ReportInputs:
    """Nobody noted with which versions the first trial trained."""
    inputs = sweep_inputs(HEALTHY, fate=fate)
    return replace(inputs, trained_with=dict(list(inputs.trained_with.items())[1:]))


FAILED = {
    "state": TrialState.FAILED,
    "ending": Ending.CRASHED,
    "message": "out of GPU memory while sampling\nTraceback",
}
UNPAID = {"state": TrialState.CANCELLED, "ending": Ending.OVER_BUDGET, "message": "not begun: …"}
"""How an evaluation ended."""

CAUTIONS: dict[str, World] = {
    "a healthy sweep": lambda: sweep_inputs(HEALTHY),
    "a healthy sweep with a win": lambda: sweep_inputs(HEALTHY, advantage=0.08),
    "a healthy sweep with a loss": lambda: sweep_inputs(HEALTHY, advantage=-0.08),
    **{name: lambda curves=curves: in_one_trial(curves) for name, curves in SYMPTOMS.items()},
    "of several trials with a symptom the worst is the example": lambda: with_curves(
        sweep_inputs(),
        entropy=lambda c, t, v: in_part(0.4, 0.6, 0.05 if t.number == 12 else 0.1)(c, t, v) if t.seed == 10 else v,
    ),
    "one trial diverged": lambda: sweep_inputs(fate=ending(lambda c, t: t.number == 3, TrialState.DIVERGED, step=40)),
    "a seed stands apart": lambda: scored(
        sweep_inputs(HEALTHY, advantage=0.08), lambda c, t, v: v - 0.1 if confirms(c, t, [12]) else v
    ),
    "better, and one seed of ten points the other way": lambda: scored(
        sweep_inputs(HEALTHY | on_seeds(confirm=range(10, 20), top_k=1), advantage=0.08),
        lambda c, t, v: v - 0.1 if confirms(c, t, [11]) else v,
    ),
    "one tune seed": lambda: sweep_inputs(HEALTHY | on_seeds((0,), (10, 11, 12))),
    "one tune seed and no confirm stage": lambda: sweep_inputs(HEALTHY | on_seeds((0,), confirm=())),
    "the baseline took 15 % more tokens": lambda: with_curves(
        sweep_inputs(HEALTHY), tokens__total=lambda c, t, v: v * 1.15 if is_baseline(c) else v
    ),
    "the baseline took 30 % more tokens": lambda: with_curves(
        sweep_inputs(HEALTHY), tokens__total=lambda c, t, v: v * 1.3 if is_baseline(c) else v
    ),
    "the best config trained for more steps": lambda: sweep_inputs(
        {"space": {"loss.beta1": 0.0, "loss.beta2": 1.0, "steps": 320}, "baselines": {"matched": False}}
    ),
    "a confirm trial of the baseline was stopped by hand": lambda: sweep_inputs(
        HEALTHY,
        fate=ending(
            lambda c, t: t.stage is Stage.CONFIRM and is_baseline(c) and t.seed == 10, TrialState.STOPPED, step=120
        ),
    ),
    "two trials were stopped by hand, and one was discarded": lambda: sweep_inputs(
        fate=lambda c, t: _stopped(TrialState.STOPPED if t.seed == 0 else TrialState.DISCARDED)(c, t)
    ),
    "two trials were stopped by hand, and both count": lambda: sweep_inputs(fate=_stopped(TrialState.STOPPED)),
    "two trials were stopped by hand, and neither counts": lambda: sweep_inputs(fate=_stopped(TrialState.DISCARDED)),
    "the best value is the upper end": edge([0.5, 0.75, 1.0]),
    "the best value is the lower end": edge([1.0, 1.5, 2.0]),
    "the best value is in the middle": edge([0.5, 1.0, 1.5]),
    "of two values one is always an end": edge([0.5, 1.0]),
    "the best value is the upper end of a range": edge({"type": "float", "low": 0.2, "high": 1.0, "step": 0.4}),
    "the best value is 0, where betas end": lambda: sweep_inputs(
        {"space": {"loss.beta1": [0.0, 0.5, 1.0], "loss.beta2": 1.0}}, advantage=0.1
    ),
    "torch was upgraded between two attempts, and one trial knows no transformers": lambda: versions(
        [{}, {"torch": "2.14.0"}], [{"transformers": "unknown"}]
    ),
    "only some trials note the package of their loss": lambda: versions([{"mine": "1"}], [{"mine": "1"}]),
    "trials had two versions of the package of their loss": lambda: versions(
        [{"mine": "1"}], [{"mine": "1"}], [{"mine": "2"}]
    ),
    "a trial noted no versions": unnoted,
    "a trial that never trained noted no versions": lambda: unnoted(ending(lambda c, t: t.number == 0, step=0)),
    "the same problems in another order": lambda: problems("b", "a"),
    "one trial was evaluated on other problems": lambda: problems("a", "c"),
    "a trial warned twice": lambda: sweep_inputs(
        HEALTHY, fate=warned(lambda c, t: t.number == 3, warning("ODD", "at 12"), warning("ODD", "at 24", 24))
    ),
    "two trials of a config warned": lambda: sweep_inputs(
        fate=warned(lambda c, t: c.params["loss.beta1"] == 0.5 and t.stage is Stage.TUNE, warning("ODD", "0.1 %"))
    ),
    "much happened": lambda: sweep_inputs(
        {"objective": {"relevant": 0.01}},
        fate=lambda c, t: ending(
            lambda c, t: t.stage is Stage.CONFIRM and t.seed == 13 and is_baseline(c), step=40, message="no memory"
        )(c, warned(every, warning("ODD", "0.1 %"))(c, t)),
    ),
    "the sweep was cancelled": lambda: sweep_inputs(
        fate=ending(lambda c, t: t.seed == 1, TrialState.CANCELLED, step=40),
        state=SweepState.CANCELLED,
        confirmed=False,
    ),
    "the budget ended the tune stage": lambda: sweep_inputs(LIMITS, fate=never_begun(5)),
    "the budget ended the tune stage of a sweep that goes on": lambda: sweep_inputs(
        LIMITS, fate=never_begun(5), state=SweepState.RUNNING
    ),
    "a user cancelled before the budget was used up": lambda: sweep_inputs(
        LIMITS, fate=never_begun(5, Ending.CANCELLED), state=SweepState.CANCELLED
    ),
    # 1 - 0.975 ** 4: this one and three of the earlier ones were tests
    "four earlier sweeps asked the same": lambda: replace(
        sweep_inputs(HEALTHY), asked_before=asked_before("UNDECIDED", "UNDECIDED", "BETTER", "INSUFFICIENT")
    ),
    "an earlier sweep asked the same, and tested nothing": lambda: replace(
        sweep_inputs(HEALTHY), asked_before=asked_before("INSUFFICIENT")
    ),
    "nine earlier sweeps asked the same": lambda: replace(
        sweep_inputs(HEALTHY), asked_before=asked_before(*["UNDECIDED"] * 9)
    ),
    "every model was measured on benchmarks": measured_inputs,
    "an evaluation crashed": lambda: evaluated(measured_inputs(), 11, **FAILED),
    "an evaluation did not fit the budget": lambda: evaluated(measured_inputs(), 12, **UNPAID),
    "an evaluation did not fit the budget, and another ran out of time": lambda: evaluated(
        evaluated(measured_inputs(), 12, **UNPAID),
        0,
        **FAILED | {"ending": Ending.TIMED_OUT, "message": "stopped after …"},
    ),
    "a trial that diverged has no last model to measure": lambda: measured_inputs(
        fate=ending(lambda c, t: t.seed == 10, TrialState.DIVERGED, step=100)
    ),
    "a model of several steps was not measured": lambda: evaluated(
        measured_inputs(spec={"benchmarks": {"names": ["aime24"], "at": [120, 240]}}), 11, **FAILED
    ),
    "a benchmark chose the configs of eight sweeps before": lambda: replace(
        measured_inputs(),
        validated_before=tuple(
            ValidatedSweep(sweep_id=f"swp_{n}", name=f"rates-{n}", benchmark="aime24") for n in range(8)
        ),
    ),
    "the space had no more points to propose": lambda: sweep_inputs(
        LIMITS | {"search": {"strategy": "tpe", "num_configs": 9}}
    ),
    "the budget had no room for more proposals": lambda: sweep_inputs(
        LIMITS
        | {"search": {"strategy": "tpe", "num_configs": 9}}
        | {"budget": LIMITS["budget"] | {"max_gpu_hours": 0.3}}
    ),
}


def verdict_text(report: Report) -> str:
    """Return a report's text about its best config, and the codes of its warnings."""
    verdict, best = report.verdict, report.best
    lines = [verdict.sentence, verdict.basis.strip()]
    lines += [f"Ties: {verdict.ties.text}"] if verdict.ties else []
    lines += [f"Next: {verdict.next.text}"] if verdict.next else []
    lines += [f"Best: {best.label}. {best.why}"] if best else []
    lines += [f"Warnings: {' '.join(one.code for one in report.cautions)}"] if report.cautions else []
    return "\n".join(filter(None, lines))


def best_text(report: Report) -> str:
    """The evidence for a report's best config, and why the others were not picked."""
    return "\n".join([*report.best.evidence, *report.best.others])


def cautions_text(report: Report) -> str:
    """Every warning of a report: its code, its words, with labels for the ids of configs, and the trials that met its
    rule, by number."""
    numbers = {trial.id: str(trial.number) for trial in report.trials}
    words = "\n".join(
        f"{one.code}: {one.text} [{' '.join(numbers[id_] for id_ in one.trials)}]" for one in report.cautions
    )
    labels = {row.id: f"(id of {row.label})" for row in report.configs}
    return re.sub(r"cfg_\w+", lambda found: labels[found[0]], words)
