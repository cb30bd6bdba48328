"""The ranking number: the mean of the last evaluations, with failures missing and divergence counting 0."""

from typing import Any

import numpy as np
import pytest

from sweep_service.sweep.endings import MEANINGS, Ending
from sweep_service.sweep.objective import (
    all_diverged,
    choose,
    compared,
    config_objectives,
    leader,
    means_of_all,
    selection_objectives,
    trial_objectives,
)
from sweep_service.sweep.records import Config, Curve, Role, Stage, Trial, TrialState
from sweep_service.sweep.spec import SweepSpec


def spec(**changes: Any) -> SweepSpec:
    return SweepSpec.model_validate({"name": "s", "space": {"loss.beta1": [0.0]}} | changes)


def trial(name: str, state: TrialState = TrialState.SUCCEEDED, config: str = "a") -> Trial:
    return Trial(
        id=name,
        sweep_id="s",
        config_id=config,
        seed=0,
        stage=Stage.TUNE,
        number=0,
        state=state,
        threads=1,
        total_steps=10,
    )


def curve(name: str, *values: float | None, key: str = "eval/avg_at_k") -> Curve:
    steps = list(range(len(values)))
    times = [0.0] * len(values)
    return Curve(
        trial_id=name,
        config_id="a",
        seed=0,
        stage=Stage.TUNE,
        key=key,
        steps=steps,
        times=times,
        values=list(values),
    )


def config(name: str, number: int, *roles: Role) -> Config:
    return Config(id=name, sweep_id="s", number=number, roles=roles, params={}, training={})


def test_trial_objective_is_the_mean_of_the_last_evaluations_never_the_maximum() -> None:
    found = trial_objectives([trial("t")], [curve("t", 0.9, 0.1, None, 0.2, 0.3)], spec(objective={"last": 3}))
    assert found["t"] == pytest.approx(0.2)


def test_a_trial_that_was_stopped_by_hand_has_the_objective_of_what_it_has_recorded_or_none() -> None:
    trials = [trial("counts", TrialState.STOPPED), trial("never", TrialState.STOPPED)]
    trials.append(trial("discarded", TrialState.DISCARDED))
    curves = [curve("counts", 0.9, 0.4, 0.2), curve("discarded", 0.9, 0.4, 0.2)]
    found = trial_objectives(trials, curves, spec(objective={"last": 2}))
    assert found == {"counts": pytest.approx(0.3), "never": None, "discarded": None}
    assert config_objectives(trials, found, Stage.TUNE) == {"a": pytest.approx(0.3)}


def test_a_diverged_trial_counts_zero_and_unfinished_ones_are_missing() -> None:
    states = [TrialState.DIVERGED, TrialState.FAILED, TrialState.RUNNING, TrialState.CANCELLED]
    trials = [trial(state.value, state) for state in states]
    found = trial_objectives(trials, [curve(state.value, 0.5) for state in states], spec())
    assert found == {"DIVERGED": 0.0, "FAILED": None, "RUNNING": None, "CANCELLED": None}


def test_config_objective_is_the_mean_over_seeds_that_have_one() -> None:
    trials = [trial("x"), trial("y"), trial("z"), trial("w", config="b")]
    means = config_objectives(trials, {"x": 0.2, "y": 0.4, "z": None, "w": 0.9}, Stage.TUNE)
    assert means == {"a": pytest.approx(0.3), "b": 0.9}
    assert config_objectives(trials, {"x": 0.2}, Stage.CONFIRM) == {}


def test_choose_takes_points_of_the_space_that_are_not_baselines_best_first() -> None:
    configs = [
        config("base", 0, Role.BASELINE, Role.SPACE),
        config("dapo", 1, Role.DAPO),
        config("low", 2, Role.SPACE),
        config("tie", 3, Role.SPACE),
        config("high", 4, Role.SPACE),
        config("none", 5, Role.SPACE),
    ]
    means = {"base": 0.9, "dapo": 0.9, "low": 0.1, "tie": 0.1, "high": 0.5}
    assert [chosen.id for chosen in choose(configs, means, 2)] == ["high", "low"]


def tuned(*states: str) -> list[Trial]:
    """Trials seed by seed: each word has a letter for each config, `s` succeeded, `f` failed, `c` cut short."""
    named = {"s": TrialState.SUCCEEDED, "f": TrialState.FAILED, "c": TrialState.CANCELLED}
    return [
        trial(f"{config}{seed}", named[letter], config).model_copy(update={"seed": seed, "number": 10 * seed + index})
        for seed, letters in enumerate(states)
        for index, (config, letter) in enumerate(zip("abcdef", letters, strict=False))
    ]


@pytest.mark.parametrize(
    ("states", "seeds", "configs"),
    [
        (("sss", "sss"), {0, 1}, "abc"),  # nothing was cut
        (("sfs", "ffs"), {0, 1}, "abc"),  # a failure is no cut
        (("ssss", "sccc"), {0}, "abcd"),  # 4 trials on one seed are more than 2 on two
        (("ssss", "ssss", "sscc"), {0, 1}, "abcd"),
        (("ssss", "sssc"), {0, 1}, "abc"),  # 6 on two seeds are more than 4 on one
        (("ssss", "sscc"), {0}, "abcd"),  # equal: more configs
        (("sscc", "cccc"), {0}, "ab"),  # cut within the first seed
        ((), set(), ""),
    ],
)
def test_after_a_cut_configs_are_compared_on_the_same_seeds(
    states: tuple[str, ...], seeds: set[int], configs: str
) -> None:
    assert compared(tuned(*states)) == (seeds, set(configs))


def test_a_lucky_seed_does_not_beat_a_mean_over_more() -> None:
    trials = tuned("sss", "ssc", "ssc")
    values = {"a0": 0.5, "b0": 0.4, "c0": 0.9, "a1": 0.5, "b1": 0.7, "a2": 0.5, "b2": 0.7}
    assert config_objectives(trials, values, Stage.TUNE) == {"a": 0.5, "b": pytest.approx(0.6), "c": 0.9}
    assert selection_objectives(trials, values) == {"a": 0.5, "b": pytest.approx(0.6)}


def test_seeds_that_not_all_have_choose_nothing() -> None:
    trials = tuned("ssss", "sccc")
    values = {"a0": 0.5, "b0": 0.4, "c0": 0.6, "d0": 0.1, "a1": 0.9}
    assert selection_objectives(trials, values) == {"a": 0.5, "b": 0.4, "c": 0.6, "d": 0.1}


def test_the_leader_is_the_best_by_all_its_trials_of_those_that_were_chosen() -> None:
    """`lucky` is ahead on the confirm seeds alone, `good` on all; `worst` was not chosen."""
    configs = [config(name, number, Role.SPACE) for number, name in enumerate(("good", "lucky", "worst"))]
    tune = {"good": 0.9, "lucky": 0.5, "worst": 0.1}
    confirm = {"good": 0.6, "lucky": 0.7, "worst": 1.0}
    trials = [trial(f"t-{name}", config=name) for name in tune]
    values: dict[str, float | None] = {f"t-{name}": value for name, value in tune.items()}
    wanted = spec(seeds={"confirm": {"top_k": 2, "seeds": [10]}})
    assert leader(configs, trials, {}, wanted) is None
    assert leader(configs, trials, values, wanted) == (configs[0], Stage.TUNE, 0.9, 1, 3, None, False)
    trials += [trial(f"c-{name}", config=name).model_copy(update={"stage": Stage.CONFIRM}) for name in confirm]
    values |= {f"c-{name}": value for name, value in confirm.items()}
    assert leader(configs, trials, values, wanted) == (configs[0], Stage.CONFIRM, 0.6, 1, 3, None, False)


def test_a_config_that_lacks_a_trial_is_not_judged_by_the_seeds_that_it_has() -> None:
    """The tune problems are harder. With least squares in numpy as the other way to the same figures."""
    results = {"a": (0.30, 0.70, 0.74, 0.66), "b": (None, 0.66, 0.71, 0.64), "c": (0.29, 0.69, None, 0.60)}
    trials, values = list[Trial](), dict[str, float | None]()
    for name, row in results.items():
        for seed, value in enumerate(row):
            of_seed = {"seed": seed, "stage": Stage.CONFIRM if seed else Stage.TUNE}
            trials.append(trial(f"{name}{seed}", config=name).model_copy(update=of_seed))
            values[f"{name}{seed}"] = value
    plain = {name: np.mean([value for value in row if value is not None]) for name, row in results.items()}
    assert plain["b"] > plain["a"]
    means = means_of_all(["a", "b", "c"], trials, values, 0)
    assert means["a"] > means["b"]
    cells = [(row, seed, value) for row, of in enumerate(results.values()) for seed, value in enumerate(of) if value]
    design = np.array([[row == one for one in range(3)] + [seed == one for one in range(4)] for row, seed, _ in cells])
    fitted = np.linalg.lstsq(design.astype(float), np.array([value for *_, value in cells]), rcond=None)[0]
    assert means["a"] == pytest.approx(plain["a"])  # it has all
    assert means["a"] - means["b"] == pytest.approx(fitted[0] - fitted[1])
    assert means["a"] - means["c"] == pytest.approx(fitted[0] - fitted[2])
    assert means_of_all(["a"], trials, values, 0) == {"a": pytest.approx(plain["a"])}


@pytest.mark.parametrize(
    ("ending", "expected"),
    [(Ending.CRASHED, 0.99 / 2), (Ending.TIMED_OUT, 0.99 / 2), (Ending.LOST, 0.99), (Ending.DISCARDED, 0.99)],
)
def test_a_run_that_crashed_is_the_worst_and_no_mean_lies_beyond_all_results(ending: Ending, expected: float) -> None:
    """`b` was ruined on the seeds on which `a` has results, which is no luck of these seeds."""
    results = {"a": (0.99, 0.99, None, None), "b": (0.0, 0.0, 0.97, 0.97)}
    trials, values = list[Trial](), dict[str, float | None]()
    for name, row in results.items():
        for seed, value in enumerate(row):
            end = {"ending": ending} if value is None else {}
            state = TrialState.SUCCEEDED if value is not None else MEANINGS[ending].state
            trials.append(trial(f"{name}{seed}", state, config=name).model_copy(update={"seed": seed, **end}))
            values[f"{name}{seed}"] = value
    means = means_of_all(["a", "b"], trials, values, 0.0)
    assert means["a"] == pytest.approx(expected)
    assert 0 <= means["b"] <= 0.97


def test_the_leader_tells_how_many_have_exactly_its_objective() -> None:
    configs = [config(name, number, Role.SPACE) for number, name in enumerate("abc")]
    trials = [trial(f"t-{name}", config=name) for name in "abc"]
    for values, equal in (((0.0, 0.0, 0.0), 3), ((0.5, 0.5, 0.1), 2), ((0.5, 0.4, 0.4), 1)):
        found = leader(configs, trials, dict(zip(("t-a", "t-b", "t-c"), values, strict=True)), spec())
        assert found is not None
        assert (found.config.id, found.equal, found.configs, found.diverged) == ("a", equal, 3, False)


def test_the_leader_tells_that_every_trial_diverged() -> None:
    configs = [config(name, number, Role.SPACE) for number, name in enumerate("ab")]
    trials = [trial(f"t-{name}", TrialState.DIVERGED, config=name) for name in "ab"]
    found = leader(configs, trials, {"t-a": 0.0, "t-b": 0.0}, spec())
    assert found is not None
    assert (found.equal, found.diverged) == (2, True)


def test_with_the_mean_reward_a_diverged_trial_counts_what_the_spec_says() -> None:
    negative = spec(objective={"metric": "eval/reward_mean", "diverged": -1})
    assert trial_objectives([trial("t", TrialState.DIVERGED)], [], negative) == {"t": -1.0}


HALVES = {"tune": [0], "confirm": {"seeds": [1]}}


def recorded(name: str, whole: float, tune: float, confirm: float) -> list[Curve]:
    return [
        curve(name, whole),
        curve(name, tune, key="eval/tune_part/avg_at_k"),
        curve(name, confirm, key="eval/confirm_part/avg_at_k"),
    ]


def test_each_stage_counts_its_half_of_the_problems() -> None:
    trials = [trial("t"), trial("c").model_copy(update={"stage": Stage.CONFIRM})]
    curves = [*recorded("t", 0.5, 0.4, 0.6), *recorded("c", 0.5, 0.4, 0.6)]
    assert trial_objectives(trials, curves, spec(seeds=HALVES)) == {"t": 0.4, "c": 0.6}
    same = {"tune": [0], "confirm": {"seeds": [1], "problems": "same"}}
    for seeds in (same, {"tune": [0]}):
        assert trial_objectives(trials, curves, spec(seeds=seeds)) == {"t": 0.5, "c": 0.5}


def test_all_problems_count_everywhere_where_one_trial_has_no_halves() -> None:
    trials, failed = [trial("halved"), trial("whole")], trial("failed", TrialState.FAILED)
    curves = [
        *recorded("halved", 0.5, 0.4, 0.6),
        curve("whole", 0.3),
        curve("whole", None, key="eval/tune_part/avg_at_k"),
    ]
    assert trial_objectives(trials, curves, spec(seeds=HALVES)) == {"halved": 0.5, "whole": 0.3}
    assert trial_objectives([trials[0], failed], curves, spec(seeds=HALVES)) == {"halved": 0.4, "failed": None}


@pytest.mark.parametrize(
    ("states", "diverged"),
    [
        (["DIVERGED"], True),
        (["DIVERGED", "DIVERGED", "FAILED", "RUNNING"], True),
        (["DIVERGED", "SUCCEEDED"], False),
        (["DIVERGED", "STOPPED"], False),
        (["FAILED", "RUNNING"], False),
        ([], False),
    ],
)
def test_all_diverged_where_every_result_is_that_of_a_trial_that_diverged(states: list[str], diverged: bool) -> None:
    assert all_diverged(map(TrialState, states)) is diverged


def test_configs_that_were_dropped_early_do_not_decide_on_which_seeds_the_others_are_compared() -> None:
    """The budget ended the last seed of the two that went on; three were dropped after the first seed."""
    ends = {"a": "SSC", "b": "SSC", "x": "SEE", "y": "SEE", "z": "SEE"}
    states = {"S": TrialState.SUCCEEDED, "C": TrialState.CANCELLED, "E": TrialState.EARLY_STOPPED}
    trials = [
        trial(f"{name}{seed}", states[end], config=name).model_copy(update={"seed": seed, "number": seed})
        for name, row in ends.items()
        for seed, end in enumerate(row)
    ]
    assert compared(trials) == ({0, 1}, {"a", "b"})
