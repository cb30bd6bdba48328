"""What a sweep of a trainer of one's own cannot have, and who may name which program."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from sweep_service.errors import InvalidSpec
from sweep_service.intake.added_check import MeasuredSweep, check_added, check_extension
from sweep_service.intake.spec_check import parse_spec
from sweep_service.intake.whole_check import check_spec
from sweep_service.settings import Settings, allowed_commands, may_run
from tests.golden import matches_golden
from tests.refusals import refusals
from tests.stored_sweeps import make_sweep
from trainers.config.complaints import shortened

OWN: dict[str, Any] = {
    "name": "own",
    "trainer": {"command": ["python3", "/opt/trainer.py"], "steps": 300},
    "training": {"beta": 0, "model": {"width": 4}},
    "space": {"beta": [0, 1]},
}


def own(**changes: Any) -> dict[str, Any]:
    return OWN | {"trainer": OWN["trainer"] | changes}


WRONG: tuple[dict[str, Any], ...] = (
    OWN | {"baselines": {"dapo": True}},
    OWN | {"benchmarks": ["expressions"]},
    OWN | {"probe": "only"},
    OWN | {"resources": {"processes": 2}},
    OWN | {"resources": {"cpus": 0.12345}},
    OWN | {"training": {"seed": 1, "steps": 2}},
    OWN | {"space": {"steps": [1, 2]}},
    OWN | {"space": {"seed.first": [1, 2]}},
    own(baseline={"seed": 1}),
    own(baseline=[1]),
    own(baseline={"beta.x": 1}),
    own(baseline={"beta.": 1}) | {"training": {}},
    own(baseline={"beta.x": 1}) | {"training": {}},
    own(baseline={"betta": 0}),
    own(baseline={"model.widht": 8}),
    own(baseline={"rate": 8}),
    OWN | {"space": {"beta.x": [1]}},
    OWN | {"training": {"a.b": 1}},
    OWN | {"training": {"a": [float("nan")]}},
    own(baseline={"beta": float("inf")}),
    own(baseline={"model": {"a.b": 1}}),
    own(command=["bash", "run.sh"]),
    own(command="python3 /opt/trainer.py"),
    own(command=[]),
    own(command=["python3", "trainer.py"]),
    own(command=["./trainer"]),
    own(command=["a\x00b"]),
    own(steps=0),
    own(shell=True),
    OWN | {"space": {"beta": {"type": "float", "low": 0, "high": 1}}},
    OWN | {"seeds": {"confirm": {"top_k": 3, "seeds": [5]}}},
    OWN | {"seeds": {"tune": list(range(1000))}, "space": {"beta": list(range(9))}},
)


def test_what_it_cannot_have_is_refused_with_its_place() -> None:
    told = list[str]()
    for raw in WRONG:
        changed = {name: value for name, value in raw.items() if value != OWN.get(name)}
        told += [
            f"# {shortened(repr(changed), 200)}",
            *(f"{place}: {words}" for place, words in refusals(raw).items()),
            "",
        ]
    matches_golden(Path(__file__).parent / "golden" / "own_trainer.txt", "\n".join(told))


def test_all_reasons_come_at_once() -> None:
    raw = OWN | {"probe": "first", "benchmarks": ["x"], "training": {"seed": 1}, "baselines": {"matched": True}}
    others = {"/probe", "/benchmarks", "/training/seed", "/baselines/matched"}
    assert refusals(raw).keys() == others
    assert refusals(raw | {"trainer": {"command": ["./here"]}}).keys() == others | {
        "/trainer/command",
        "/trainer/steps",
    }


def test_names_that_mean_something_to_our_trainer_mean_nothing_here() -> None:
    training = {"loss": {"name": "mine", "beta1": "much"}, "rollout": 3, "task": None, "steps_per_epoch": 5}
    spec = parse_spec(OWN | {"training": training, "space": {"loss.beta1": ["much", "more"]}})
    assert spec.training == training


@pytest.mark.parametrize("baseline", [{}, {"beta": 2}, {"model.width": 8}, {"model": {"depth": 1}}])
def test_a_baseline_may_change_what_training_or_space_names(baseline: dict[str, Any]) -> None:
    parse_spec(own(baseline=baseline))
    whole = {"type": "categorical", "values": {"a": {"beta": 0}, "b": {"beta": 1}}}
    parse_spec(own(baseline={"loss.beta": 2}) | {"space": {"loss": whole}})
    parse_spec(own(baseline={"loss": {"beta": 2}}) | {"space": {"loss.beta": [0, 1]}})


@pytest.mark.parametrize(
    ("allowed", "command", "may"),
    [
        ("", ["python3", "/opt/a.py"], False),
        ("any", ["rm", "-r", "/"], True),
        ("python3 /opt/a.py", ["python3", "/opt/a.py"], True),
        ("python3 /opt/a.py", ["python3", "/opt/a.py", "--fast"], True),
        ("python3 /opt/a.py", ["python3", "/opt/a.py2"], False),
        ("python3 /opt/a.py", ["python3"], False),
        ("python3 /opt/a.py", ["/tmp/python3", "/opt/a.py"], False),
        ("/opt/one, python3 -m 'my trainer'", ["python3", "-m", "my trainer"], True),
        ("/opt/one, python3 -m 'my trainer'", ["python3", "-m", "my"], False),
        (" , ", ["python3"], False),
    ],
)
def test_an_operator_allows_beginnings_of_commands(allowed: str, command: list[str], may: bool) -> None:
    assert may_run(command, Settings(trainer_commands=allowed).trainer_commands) is may


def test_a_setting_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(ValidationError, match="No closing quotation"):
        Settings(trainer_commands="python3 'my trainer")
    assert allowed_commands("any") is None


def test_a_command_that_is_not_allowed_is_refused_with_the_way_to_allow_it(tmp_path: Path) -> None:
    """Also where the spec is wrong otherwise, so that every reason comes at once."""
    raw = OWN | {"probe": "first"}
    found = refusals(raw, tmp_path, check=check_spec)
    assert found.keys() == {"/trainer/command", "/probe"}
    assert found["/trainer/command"].startswith("python3 /opt/trainer.py: this installation runs no programs")
    assert "SWEEPS_TRAINER_COMMANDS" in found["/trainer/command"]
    with pytest.raises(InvalidSpec, match=r"only commands that begin with python3 /opt/other\.py"):
        check_spec(OWN, tmp_path, "python3 /opt/other.py")
    assert check_spec(OWN, tmp_path, "python3 /opt/trainer.py").trainer is not None


def test_a_sweep_of_our_trainer_needs_no_permission(tmp_path: Path) -> None:
    assert check_spec({"name": "ours", "space": {"loss.beta1": [0, 1]}}, tmp_path).trainer is None


def test_it_is_extended_like_any_other(tmp_path: Path) -> None:
    more = check_extension({"space": {"beta": [0, 1, 2]}, "seeds": {"tune": [0, 1, 2]}}, parse_spec(OWN), tmp_path)
    assert more.space.grid_size() == 3
    assert more.trainer == parse_spec(OWN).trainer


def test_two_names_of_one_value_are_refused() -> None:
    values = {"a": {"k": 1}, "b": {"k": 1}, "c": [3], "d": [3]}
    same = {"type": "categorical", "choices": ["a", "b", 3, "c", "d"], "values": values}
    with pytest.raises(InvalidSpec) as refusal:
        parse_spec(OWN | {"space": {"beta": same}})
    assert [str(error.detail) for error in refusal.value.errors] == [
        "a and b are the same value; leave one out",
        "c and d are the same value; leave one out",
    ]


def test_values_that_only_python_takes_for_one_keep_their_names() -> None:
    values = {"one": {"k": 1}, "true": {"k": True}, "real": {"k": 1.0}}
    spec = parse_spec(OWN | {"space": {"beta": {"type": "categorical", "values": values}}})
    assert [spec.at(point).params for point in spec.space.grid()] == list(spec.space.grid())


def test_no_benchmarks_are_added_to_it(tmp_path: Path) -> None:
    rows = MeasuredSweep(make_sweep(parse_spec(OWN)), [], [], None)
    with pytest.raises(InvalidSpec, match="benchmarks cannot measure them"):
        check_added({"names": ["expressions"]}, rows, tmp_path)
