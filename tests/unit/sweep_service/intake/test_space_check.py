"""However long a space's lists are, a mistake is told once, and only so many points are tried or made."""

from typing import Any

import pytest

from search_spaces.strategies import drawing_strategies
from sweep_service.errors import InvalidSpec
from sweep_service.intake import space_check, spec_check
from sweep_service.intake.spec_check import parse_spec
from sweep_service.sweep import plan
from sweep_service.sweep.plan import MAX_TRIALS, baselines, first_records, make_plan, stage_counts
from trainers.config import TrainingConfig


def refusals(raw: object) -> list[tuple[str, str]]:
    with pytest.raises(InvalidSpec) as refused:
        parse_spec(raw)
    return [(error.pointer, error.detail) for error in refused.value.errors]


def spec(**changes: Any) -> dict[str, Any]:
    return {"name": "s", "space": {"loss.beta1": [0, 0.5]}} | changes


UNKNOWN = "there is no such setting; did you mean 'loss.beta1' or 'loss.beta2'?"
RANGE = {"type": "float", "low": 0, "high": 0.0499, "step": 0.0001}


def test_one_misspelt_name_is_one_complaint_however_many_values_it_has() -> None:
    assert refusals(spec(space={"loss.beta9": list(range(400))})) == [("/space/loss.beta9", UNKNOWN)]
    told = refusals(spec(space={"loss.beta9": list(range(800))}))
    assert told[1:] == [
        ("/space/loss.beta9", UNKNOWN),
        ("/space", f"the grid has 800 points, more than 500; vary fewer values, or use {drawing_strategies('or')}"),
    ]
    assert told[0][1].startswith("its lists have 800 values together, more than 500; give ranges")


def test_the_seed_is_no_parameter() -> None:
    assert refusals(spec(space={"seed": [1, 2]}))[0][0] == "/space/seed"
    assert "list the seeds under /seeds" in refusals(spec(space={"seed": [1, 2]}))[0][1]


def test_sixteen_misspelt_names_are_sixteen_complaints() -> None:
    names = {f"loss.beta{n}x": list(range(31)) for n in range(16)}
    assert len(refusals(spec(space=names))) == 17  # the base and 15 others at the edges: the points that fail together


def test_values_that_fail_alike_are_told_together() -> None:
    (told,) = refusals(spec(space={"loss.beta1": [-n for n in range(1, 400)]}))
    assert told == (
        "/space/loss.beta1",
        "-1, -2, -3, -4, -5 and 394 more: Input should be greater than or equal to 0",
    )
    steps = refusals(spec(space={"steps": [8 * n + 1 for n in range(400)]}))
    assert steps[-1] == ("/space/steps", "and 395 more of its values cannot be used")
    assert len(steps) == 6


@pytest.mark.parametrize(
    ("range_", "words"),
    [
        ({"type": "float", "low": 0, "high": 1, "step": 0.3}, "high 1.0 is not low 0.0 plus a multiple of step 0.3"),
        ({"type": "float", "low": 1, "high": 1}, "low 1.0 must be below high 1.0"),
        ({"type": "int", "low": 2, "high": 1}, "low 2 must be below high 1"),
        ({"type": "float", "low": 0, "high": 1, "log": True}, "low 0.0 must be above 0 on a log scale"),
        ({"type": "int", "low": 0, "high": 8, "log": True}, "low 0 must be above 0 on a log scale"),
    ],
)
def test_a_wrong_range_is_told_in_the_words_of_the_range(range_: dict[str, Any], words: str) -> None:
    ((place, told),) = refusals(spec(space={"loss.beta1": range_}))
    assert (place, words in told) == ("/space/loss.beta1", True)


def test_entries_of_a_list_that_are_wrong_alike_are_counted() -> None:
    assert refusals(spec(seeds={"tune": ["x"] * 300}))[-1] == (
        "/seeds/tune",
        "297 more entries of this list are wrong in the same way",
    )
    many = refusals({f"wrong{n}": 1 for n in range(900)})
    assert len(many) == 51
    assert many[-1] == ("", "and 852 more mistakes, which are told once these are mended")


def test_a_base_with_very_many_mistakes_hides_those_of_the_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spec_check, "space_errors", None)
    wrong = {"task": {"name": "word_problems", "data": {"filter": {"a": [[]] * 900}}}}
    assert len(refusals(spec(training=wrong))) == 4


@pytest.mark.parametrize(
    ("change", "place", "words"),
    [
        ({"space": {"loss.beta1": RANGE | {"high": 0.05}}}, "/space", "the grid has 501 points, more than 500"),
        (
            {"space": {"loss.beta1": RANGE}, "seeds": {"tune": list(range(50))}},
            "/seeds",
            "502 configs x 50 tune seeds",
        ),
        ({"seeds": {"tune": [0], "confirm": {"seeds": list(range(1, 1000))}}}, "/seeds", "are 4999 trials, more than"),
        (
            {
                "space": {"loss.beta1": {"type": "float", "low": 0, "high": 1}},
                "search": {"strategy": "random", "num_configs": 10_000},
                "seeds": {"tune": [0]},
            },
            "/seeds",
            "10002 configs x 1 tune seeds are 10002 trials, more than 3000; list fewer seeds, vary fewer values, or",
        ),
    ],
)
def test_a_sweep_has_a_limit_of_trials_and_points(change: dict[str, Any], place: str, words: str) -> None:
    ((pointer, detail),) = refusals(spec(**change))
    assert pointer == place
    assert words in detail


def test_too_many_trials_are_counted_and_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    for made in ("add_config", "make_trials"):
        monkeypatch.setattr(plan, made, None)
    monkeypatch.setattr(space_check, "_tried", lambda *_: TrainingConfig())
    assert "trials" in refusals(spec(space={"loss.beta1": RANGE}, seeds={"tune": list(range(50))}))[0][1]


def test_a_plan_makes_the_configs_that_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    large = parse_spec(spec(space={"loss.beta1": RANGE}))
    made, add_config = list[str](), plan.add_config
    monkeypatch.setattr(plan, "add_config", lambda *given: made.append("") or add_config(*given))
    shown = make_plan(large, None)
    assert (shown.configs, len(shown.first_configs)) == (502, 20)
    assert len(made) < 30


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"space": {"loss.beta1": [0, 1], "loss.beta2": 0}},
        {"space": {"loss.beta1": [0, 1], "loss.beta2": 0}, "baselines": {"ppo_clip": False}},
        {"training": {"loss": {"name": "dapo"}}, "space": {"loss.epsilon_high": [0.2, 0.28]}},
        {"training": {"loss": {"name": "dapo", "epsilon_high": 0.25}}, "space": {"loss.epsilon_high": [0.2, 0.28]}},
        {"space": {"loss.name": ["ce_gppo", "cispo", "gspo"]}},
        {"space": {"loss.beta1": 0.5, "steps": [480, 960]}},
        {"space": {"loss.beta1": list(range(9))}, "search": {"strategy": "tpe", "num_configs": 5}},
    ],
)
def test_what_is_counted_is_what_is_made(change: dict[str, Any]) -> None:
    parsed = parse_spec(spec(**change))
    configs, trials = first_records(parsed, "swp")
    proposed = parsed.search.num_configs or 0
    assert stage_counts(parsed).tune == len(trials) + proposed * len(parsed.seeds.tune) <= MAX_TRIALS
    confirm = {"seeds": parsed.seeds.model_dump() | {"confirm": {"top_k": 100, "seeds": [99]}}}
    off = {"baselines": parsed.baselines.model_dump() | {"matched": False}}
    confirmed = parse_spec(spec(**change | confirm | off), of_before=True)
    contenders = sum("space" in config.roles and "baseline" not in config.roles for config in configs)
    compared = len({point.id for _, point in baselines(confirmed)})
    assert stage_counts(confirmed).confirm == contenders + proposed + compared


def test_two_misspelt_names_that_mean_one_setting_are_both_told() -> None:
    spec = {"name": "typos", "training": {"optimiser": {"lr": 1e-4}}, "space": {"lr": [1e-4, 1e-5]}}
    with pytest.raises(InvalidSpec) as refused:
        parse_spec(spec)
    assert [error.pointer for error in refused.value.errors] == ["/space/lr", "/training/optimiser"]
