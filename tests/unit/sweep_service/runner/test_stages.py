"""What a sweep needs next, from its rows alone."""

from typing import Any

import pytest

from search_spaces.sampling import Observation
from search_spaces.space import SearchSpace
from search_spaces.strategies import DRAWING
from sweep_service.intake.spec_check import parse_spec
from sweep_service.runner.stages import Records, RefusedProposal, next_records
from sweep_service.sweep.baselines import clipped
from sweep_service.sweep.extension import Extension, extended
from sweep_service.sweep.objective import choose
from sweep_service.sweep.plan import first_records, stage_counts
from sweep_service.sweep.records import Config, Curve, Judgement, Role, Stage, Sweep, Trial, TrialState
from tests.stored_sweeps import make_sweep
from trainers.config import TrainingConfig

BETA = {"type": "float", "low": 0, "high": 1}


def sweep_of(**changes: Any) -> tuple[Sweep, list[Config], list[Trial]]:
    raw = {"name": "s", "training": {"steps": 16}, "space": {"loss.beta1": [0, 0.5, 1], "loss.beta2": 1}}
    sweep = make_sweep(parse_spec(raw | {"baselines": {"dapo": False}} | changes))
    return sweep, *first_records(sweep.spec, sweep.id)


def ended(trials: list[Trial], state: TrialState = TrialState.SUCCEEDED) -> list[Trial]:
    return [trial.model_copy(update={"state": state}) for trial in trials]


def curves(trials: list[Trial], values: dict[str, float]) -> list[Curve]:
    """Evaluations that give each config's trials one value."""
    return [
        Curve(
            trial_id=trial.id,
            config_id=trial.config_id,
            seed=trial.seed,
            stage=trial.stage,
            key="eval/avg_at_k",
            steps=[8, 16],
            times=[0, 0],
            values=[values[trial.config_id]] * 2,
        )
        for trial in trials
        if trial.config_id in values
    ]


def following(sweep: Sweep, configs: list[Config], trials: list[Trial], evaluations: list[Curve]) -> Records:
    """Return what comes next, which is something."""
    records = next_records(sweep, configs, trials, evaluations)
    assert records is not None
    return records


def fraction(config: Config) -> float:
    """An objective of a config that only its training decides."""
    return int(config.id.removeprefix("cfg_"), 16) / 16**12


def run_on(sweep: Sweep, configs: list[Config], trials: list[Trial]) -> tuple[list[Config], list[Trial]]:
    """Let a sweep go on until nothing follows; every trial succeeds with its config's `fraction`."""
    trials = ended(trials)
    while records := next_records(sweep, configs, trials, curves(trials, {c.id: fraction(c) for c in configs})):
        by_id = {config.id: config for config in configs} | {config.id: config for config in records[0]}
        configs, trials = list(by_id.values()), [*trials, *ended(records[1])]
        pairs = [(trial.config_id, trial.seed, trial.stage) for trial in trials]
        assert len(set(pairs)) == len(pairs)
        assert [trial.number for trial in trials] == list(range(len(trials)))
        assert [config.number for config in configs] == list(range(len(configs)))
    return configs, trials


def given_more(sweep: Sweep, **more: Any) -> Sweep:
    spec = parse_spec(extended(sweep.spec, Extension.model_validate(more)))
    return sweep.model_copy(update={"spec": spec, "generation": sweep.generation + 1})


def tuned(trials: list[Trial]) -> set[tuple[str, int]]:
    return {(trial.config_id, trial.seed) for trial in trials if trial.stage is Stage.TUNE}


def confirmed(trials: list[Trial]) -> set[tuple[str, int]]:
    return {(trial.config_id, trial.seed) for trial in trials if trial.stage is Stage.CONFIRM}


def contents(configs: list[Config]) -> dict[str, Any]:
    """What configs are, whatever their order; a matched baseline of an earlier choice is left out."""
    return {c.id: (set(c.roles), c.params, c.training) for c in configs if c.roles != (Role.MATCHED,)}


def test_a_grid_without_a_confirm_stage_is_done_when_its_trials_are() -> None:
    sweep, configs, trials = sweep_of()
    assert next_records(sweep, configs, trials, []) is None
    assert next_records(sweep, configs, ended(trials), []) is None


def test_the_best_and_the_baselines_are_confirmed_once_on_fresh_seeds_after_every_tune_trial() -> None:
    sweep, configs, trials = sweep_of(seeds={"tune": [0], "confirm": {"top_k": 1, "seeds": [7, 8]}})
    values = {config.id: config.number / 10 for config in configs}
    almost, trials = [*ended(trials[:-1]), trials[-1]], ended(trials)
    assert next_records(sweep, configs, almost, curves(almost, values)) is None
    changed, confirming = following(sweep, configs, trials, curves(trials, values))
    assert {trial.config_id for trial in confirming} == {configs[0].id, configs[-1].id}
    assert [trial.seed for trial in confirming] == [7, 7, 8, 8]
    assert [trial.number for trial in confirming] == list(range(len(trials), len(trials) + 4))
    assert [(config.id, config.roles) for config in changed] == [(configs[0].id, (Role.BASELINE, Role.MATCHED))]
    everything = [*trials, *confirming]
    assert next_records(sweep, configs, everything, curves(everything, values)) is None


def test_nothing_is_confirmed_if_no_point_of_the_space_has_a_value() -> None:
    sweep, configs, trials = sweep_of(seeds={"tune": [0], "confirm": {"top_k": 1, "seeds": [7]}})
    assert next_records(sweep, configs, ended(trials, TrialState.FAILED), []) is None


def test_stopped_trials_keep_no_stage_waiting_and_discarded_ones_are_missing() -> None:
    sweep, configs, trials = sweep_of(seeds={"tune": [0, 1], "confirm": {"top_k": 1, "seeds": [7]}})
    values = {config.id: config.number / 10 for config in configs}
    best = configs[-1].id
    fates = {True: TrialState.STOPPED, False: TrialState.DISCARDED}
    for first in (True, False):
        stopped = [
            trial.model_copy(update={"state": fates[first or trial.seed == 0]})
            if trial.config_id == best
            else trial.model_copy(update={"state": TrialState.SUCCEEDED})
            for trial in trials
        ]
        found = following(sweep, configs, stopped, curves(stopped, values))
        assert {trial.config_id for trial in found[1]} == {configs[0].id, best}
    gone = [trial.model_copy(update={"state": fates[trial.config_id != best]}) for trial in trials]
    found = following(sweep, configs, gone, curves(gone, values))
    assert best not in {trial.config_id for trial in found[1]}


@pytest.mark.parametrize("strategy", DRAWING)
def test_the_sampler_proposes_until_there_are_enough(strategy: str) -> None:
    sweep, configs, trials = sweep_of(
        space={"loss.beta1": BETA, "loss.beta2": [0, 0.5, 1], "optimizer.warmup_steps": [0, 40]},
        search={"strategy": strategy, "num_configs": 5},
        seeds={"tune": [0, 1]},
    )
    count = len(configs)
    while found := next_records(sweep, configs, trials, []):
        configs, trials = [*configs, *found[0]], [*trials, *found[1]]
    assert len(configs) - count == 5
    assert [trial.number for trial in trials] == list(range(2 * len(configs)))
    assert all(Role.SPACE in config.roles for config in configs[count:])


def test_tpe_is_told_one_value_for_each_config_over_its_seeds() -> None:
    def proposed(values: list[float]) -> dict[str, Any]:
        sweep, configs, trials = sweep_of(space={"loss.beta1": BETA}, search={"strategy": "tpe", "num_configs": 30})
        for value in values:
            found = following(sweep, configs, trials, curves(trials, of_config := {}))
            configs, trials = [*configs, *found[0]], [*trials, *ended(found[1])]
            of_config[found[0][0].id] = value
        known = {config.id: value for config, value in zip(configs[1:], values, strict=True)}
        found = following(sweep, configs, trials, curves(trials, known))
        return found[0][0].params

    rising, falling = [number / 12 for number in range(12)], [1 - number / 12 for number in range(12)]
    assert proposed(rising) == proposed(rising)
    assert proposed(rising) != proposed(falling)


def test_a_proposal_that_training_refuses_is_named_with_the_reason() -> None:
    """A sweep of before may have a range that is refused at intake today."""
    sweep, configs, trials = sweep_of(space={"loss.beta1": BETA}, search={"strategy": "random", "num_configs": 3})
    space = SearchSpace.model_validate({"steps": {"type": "int", "low": 9, "high": 15}})
    stored = sweep.model_copy(update={"spec": sweep.spec.model_copy(update={"space": space})})
    with pytest.raises(RefusedProposal, match=r"random drew .*the point {\"steps\": 1\d} cannot run: steps 1\d is not"):
        next_records(stored, configs, trials, [])


@pytest.mark.parametrize("strategy", DRAWING)
def test_a_config_of_before_with_a_number_that_arithmetic_made_is_not_proposed_again(strategy: str) -> None:
    sweep, configs, trials = sweep_of(
        space={"loss.epsilon": [0.2, 0.3]}, search={"strategy": strategy, "num_configs": 2}
    )
    while found := next_records(sweep, configs, trials, []):
        configs, trials = [*configs, *found[0]], [*trials, *ended(found[1], TrialState.FAILED)]
    last = configs[-1].model_copy(update={"params": {"loss.epsilon": configs[-1].params["loss.epsilon"] + 1e-16}})
    search = sweep.spec.search.model_copy(update={"num_configs": 3})
    sweep = sweep.model_copy(update={"spec": sweep.spec.model_copy(update={"search": search})})
    assert next_records(sweep, [*configs[:-1], last], trials, []) is None


def test_a_proposal_that_a_baseline_has_tried_makes_no_trials() -> None:
    sweep, configs, trials = sweep_of(
        space={"loss.beta1": [0], "loss.beta2": [0]}, search={"strategy": "random", "num_configs": 3}
    )
    found = following(sweep, configs, trials, [])
    assert (found[0][0].id, found[0][0].roles, found[1]) == (configs[0].id, (Role.BASELINE, Role.SPACE), [])
    assert next_records(sweep, found[0], trials, []) is None
    assert {trial.stage for trial in trials} == {Stage.TUNE}


RATES: dict[str, Any] = {"loss.beta1": [0.25, 0.5], "optimizer.learning_rate": [1e-4, 2e-4, 3e-4]}
TUNED: dict[str, Any] = {"seeds": {"tune": [0, 1]}}
CONFIRMED: dict[str, Any] = {"seeds": {"tune": [0, 1], "confirm": {"top_k": 2, "seeds": [7, 8]}}}
DRAWN: dict[str, Any] = {"space": {"loss.beta1": BETA}, "search": {"strategy": "random", "num_configs": 3, "seed": 3}}
LISTED: dict[str, Any] = {"space": {"loss.beta1": [0, 0.5, 1], "loss.beta2": [0, 0.5, 1]}, "search": DRAWN["search"]}
BOTH: dict[str, Any] = {"loss.beta1": [0, 0.25, 0.5, 1], "loss.beta2": [0, 0.5, 1]}
EXTENDED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "more of a list": (CONFIRMED, {"space": {"loss.beta1": [0, 0.5, 0.75, 1], "loss.beta2": 1}}),
    "values of what was fixed": (CONFIRMED, {"space": {"loss.beta1": [0, 0.5, 1], "loss.beta2": [0, 1]}}),
    "both, and the baseline becomes a point": (CONFIRMED, {"space": BOTH}),
    "seeds": (CONFIRMED, {"seeds": {"tune": [0, 1, 5], "confirm": {"seeds": [7, 8, 9]}}}),
    "a confirm stage": (TUNED | {"space": RATES}, {"seeds": {"confirm": {"top_k": 2, "seeds": [7, 8]}}}),
    "more that is confirmed": (CONFIRMED | {"space": RATES}, {"seeds": {"confirm": {"top_k": 3}}}),
    "draws of a range": (TUNED | DRAWN, {"search": {"num_configs": 7}}),
    "draws of lists": (TUNED | LISTED, {"search": {"num_configs": 7}}),
    "draws of a range, confirmed": (CONFIRMED | DRAWN, {"search": {"num_configs": 7}}),
    "draws of lists, confirmed": (CONFIRMED | LISTED, {"search": {"num_configs": 7}}),
}


@pytest.mark.parametrize(("before", "more"), EXTENDED.values(), ids=EXTENDED)
@pytest.mark.parametrize("done", [False, True])
def test_a_sweep_that_is_given_more_becomes_the_sweep_that_had_it_from_the_start(
    before: dict[str, Any], more: dict[str, Any], done: bool
) -> None:
    sweep, configs, trials = sweep_of(**before)
    if done:
        configs, trials = run_on(sweep, configs, trials)
    sweep = given_more(sweep, **more)
    after, trained = run_on(sweep, configs, trials)
    whole, at_once = run_on(sweep, *first_records(sweep.spec, sweep.id))
    assert trained[: len(trials)] == ended(trials)
    assert [config.id for config in after[: len(configs)]] == [config.id for config in configs]
    assert contents(after) == contents(whole)
    assert tuned(trained) == tuned(at_once)
    assert confirmed(trained) >= confirmed(at_once)
    assert confirmed(trained) - confirmed(at_once) <= confirmed(trials)


def test_a_matched_baseline_that_becomes_a_point_is_tuned_like_the_others() -> None:
    space = {"loss.beta1": [0.5], "loss.beta2": 0, "loss.epsilon": [0.2, 0.3]}
    stages = {"seeds": {"tune": [0], "confirm": {"top_k": 2, "seeds": [7]}}}
    sweep, configs, trials = sweep_of(space=space, **stages)
    configs, trials = run_on(sweep, configs, trials)
    baseline, matched = [config for config in configs if Role.MATCHED in config.roles]
    assert Role.BASELINE in baseline.roles
    assert matched.params["loss.epsilon"] == 0.3
    wider = {"loss.beta1": [0.5, 0]}
    more, after = run_on(given_more(sweep, space=wider), configs, trials)
    assert {(config.params["loss.beta1"], config.params["loss.epsilon"]) for config in more} >= {(0, 0.2), (0, 0.3)}
    assert (matched.id, 0) in tuned(after)
    assert contents(more) == contents(run_on(*sweep_of(space=space | wider, **stages))[0])


@pytest.mark.parametrize("top_k", [1, 2, 3])
@pytest.mark.parametrize("space", [RATES, RATES | {"loss.beta1": [0, 0.5], "loss.beta2": 0}], ids=["apart", "in grid"])
def test_every_confirmed_config_gets_its_own_matched_baseline_on_the_same_seeds(
    space: dict[str, Any], top_k: int
) -> None:
    seeds = {"tune": [0], "confirm": {"top_k": top_k, "seeds": [7, 8]}}
    sweep, configs, trials = sweep_of(space=space, seeds=seeds)
    configs, trials = run_on(sweep, configs, trials)
    chosen = choose(configs, {c.id: fraction(c) for c in configs}, top_k)
    twins = {sweep.spec.bound.point(clipped(TrainingConfig.model_validate(config.training))).id for config in chosen}
    baselines = {config.id for config in configs if Role.BASELINE in config.roles}
    wanted = {config.id for config in chosen} | twins | baselines
    assert confirmed(trials) == {(id_, seed) for id_ in wanted for seed in (7, 8)}
    assert {config.id for config in configs if Role.MATCHED in config.roles} == twins
    assert len(trials) <= sum(stage_counts(sweep.spec))


@pytest.mark.parametrize("search", [{"strategy": "grid"}, *({"strategy": name, "num_configs": 9} for name in DRAWING)])
@pytest.mark.parametrize("beta2", [0, 1], ids=["with the baseline", "beside the baseline"])
def test_whatever_goes_through_a_finite_space_makes_as_many_trials_as_are_planned(
    search: dict[str, Any], beta2: float
) -> None:
    space = {"loss.beta1": [0, 0.5, 1], "loss.beta2": beta2}
    sweep, configs, trials = sweep_of(space=space, search=search, seeds={"tune": [0, 1]})
    assert stage_counts(sweep.spec).tune == len(run_on(sweep, configs, trials)[1]) == 2 * (3 if beta2 == 0 else 4)


def test_tpe_goes_on_from_its_rows_while_confirm_trials_run() -> None:
    search = {"strategy": "tpe", "num_configs": 12}
    stages = {"seeds": {"tune": [0], "confirm": {"top_k": 1, "seeds": [7]}}}
    sweep, configs, trials = sweep_of(space={"loss.beta1": BETA}, search=search, **stages)
    configs, trials = run_on(sweep, configs, trials)
    sweep = given_more(sweep, search={"num_configs": 13})
    running = [t.model_copy(update={"state": TrialState.RUNNING}) if t.stage is Stage.CONFIRM else t for t in trials]
    values = {config.id: fraction(config) for config in configs}
    proposed = [next_records(sweep, configs, some, curves(some, values)) for some in (trials, running)]
    assert [len(records[1]) if records else 0 for records in proposed] == [1, 1]
    assert len({records[0][0].id for records in proposed if records}) == 1
    assert next_records(sweep, configs, trials, curves(trials, values), may_propose=False) is None


def dropped_at(config: Config, step: int, value: float) -> Config:
    said = Judgement(config_id=config.id, dropped=True, seed=0, mark=step, value=value, bound=1.0)
    return config.model_copy(update={"dropped": said})


def test_what_was_dropped_gets_no_further_seed_and_is_never_confirmed() -> None:
    sweep, configs, trials = sweep_of(seeds={"tune": [0, 1], "confirm": {"top_k": 1, "seeds": [10]}})
    best, *others = [config for config in configs if config.is_contender]
    rows = [dropped_at(best, 8, 0.9), *others, *(config for config in configs if not config.is_contender)]
    values = {config.id: 0.9 if config.id == best.id else 0.1 * config.number for config in configs}
    given = ended([trial for trial in trials if (trial.config_id, trial.seed) != (best.id, 1)])
    changed, new = following(sweep, rows, given, curves(given, values))
    assert not changed or all(config.id != best.id for config in changed)
    assert {trial.stage for trial in new} == {Stage.CONFIRM}
    assert best.id not in {trial.config_id for trial in new}


def test_a_dropped_point_is_told_as_pruned_with_its_last_value(monkeypatch: pytest.MonkeyPatch) -> None:
    told = list[Observation]()
    monkeypatch.setattr("sweep_service.runner.stages.propose", lambda *given: told.extend(given[-1]))
    sweep, configs, trials = sweep_of(
        space={"loss.beta1": BETA}, search={"strategy": "tpe", "num_configs": 3}, baselines={"dapo": True}
    )
    records = next_records(sweep, configs, ended(trials), [])
    assert (records, told) == (None, [])
    point = configs[0].model_copy(update={"roles": (Role.SPACE,), "params": {"loss.beta1": 0.25}})
    rows = [dropped_at(point, 8, 0.125), *configs[1:]]
    next_records(sweep, rows, trials, [])  # while its trial still saves
    assert [(one.state, one.value, one.step) for one in told] == [("pruned", 0.125, 8)]
