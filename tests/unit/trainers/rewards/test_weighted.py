"""Several rewards as one."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.loss_packages import install
from tests.unit.trainers.rewards.test_rewards_by_name import site as site
from tests.unit.trainers.tasks.chats import add_benchmark, add_dataset
from trainers.config import ExpressionsTask, TrainingConfig, WordProblemsTask, with_params
from trainers.errors import ConfigError
from trainers.rewards import REWARDS, make_reward, make_rewards
from trainers.rewards.checked import CheckedReward
from trainers.rewards.weighted import WeightedRewards
from trainers.rollouts.rollout import problems_digest
from trainers.tasks import make_task
from trainers.tasks.base import Completion, Judgement, Problem
from trainers.tasks.data_record import data_facts
from trainers.tasks.prompted_problems import PromptedProblems
from trainers.tasks.word_problems import WordProblems

PACKAGE = """
from pydantic import BaseModel, Field
from trainers.tasks.base import Judgement

class Graded:
    class Settings(BaseModel):
        scale: float = Field(default=1.0, ge=0)
        columns: tuple[str, ...] = ()

    def __init__(self, settings):
        self.scale, self.columns = settings.scale, settings.columns

    def judge(self, problems, completions):
        return [Judgement(self.scale * len(c.text), False) for c in completions]

    def close(self):
        pass

class Named(Graded):
    class Settings(BaseModel):
        weight: float = 1.0

class Odd(Graded):
    Settings = 3

class Renamed(Graded):
    class Settings(BaseModel):
        scale: float = Field(default=1.0, alias="factor")

class Broken(Graded):
    class Settings(BaseModel):
        scale: float = float("inf")

class Spelled(Graded):
    columns = "id"

    class Settings(BaseModel):
        pass

    def __init__(self, settings):
        pass

class Needy(Graded):
    class Settings(BaseModel):
        scale: float
"""


@pytest.fixture(autouse=True)
def package(site: Path) -> None:
    names = ("Graded", "Named", "Odd", "Needy", "Renamed", "Broken", "Spelled")
    entries = "\n".join(f"{name.lower()} = graded_answers:{name}" for name in names)
    install(site, "graded_answers", entries, PACKAGE, group="sweeps.rewards")


class Fixed:
    """Says the same of every completion."""

    def __init__(self, judgement: Judgement) -> None:
        self.judgement, self.closed = judgement, 0

    def judge(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[Judgement]:
        return [self.judgement for _ in zip(problems, completions, strict=True)]

    def close(self) -> None:
        self.closed += 1


def together(*judgements: Judgement, weights: Sequence[float]) -> Judgement:
    names = [f"r{place}" for place in range(len(judgements))]
    rewards = {name: CheckedReward(name, Fixed(one)) for name, one in zip(names, judgements, strict=True)}
    weighted = WeightedRewards(rewards, dict(zip(names, weights, strict=True)))
    (judgement,) = weighted.judge([Problem("1+1=", "2")], [Completion("2", 1, truncated=False)])
    return judgement


def test_the_sum_is_weighted_and_the_first_says_what_is_correct() -> None:
    first, second = Judgement(1.0, True, "2"), Judgement(0.5, False, "other")
    assert together(first, second, weights=[2, -0.5]) == Judgement(1.75, True, "2", False, {"r0": 1.0, "r1": 0.5})
    assert together(second, first, weights=[1, 1]) == Judgement(1.5, False, "other", False, {"r0": 0.5, "r1": 1.0})


def test_what_one_could_not_judge_has_no_reward_but_its_parts() -> None:
    failed = Judgement(None, False, timed_out=True)
    said = together(Judgement(1.0, True, "2"), failed, weights=[1, 1])
    assert said == Judgement(None, False, "2", True, {"r0": 1.0, "r1": None})


def test_a_sum_that_is_not_finite_is_a_failed_judgement() -> None:
    said = together(Judgement(1e305, True, "2"), Judgement(-1e305, True), weights=[1e6, 1e6])
    assert (said.reward, said.correct) == (None, False)


def test_a_timeout_of_any_is_one_of_all() -> None:
    assert together(Judgement(1.0, True, "2"), Judgement(0.0, False, timed_out=True), weights=[1, 1]).timed_out


@pytest.mark.parametrize("weight", [0.5, 2])
def test_any_other_weight_than_one_counts(weight: float) -> None:
    rewards = make_rewards(WordProblemsTask.model_validate({"reward": {"name": "exact", "weight": weight}}))
    (judgement,) = rewards.judge([Problem("1+1=", "2")], [Completion(r"\boxed{2}", 1, truncated=False)])
    assert judgement.reward == weight


def test_all_are_closed() -> None:
    fixed = [Fixed(Judgement(1.0, True)) for _ in range(2)]
    WeightedRewards({str(i): CheckedReward("", one) for i, one in enumerate(fixed)}, {"0": 1, "1": 1}).close()
    assert [one.closed for one in fixed] == [1, 1]


def test_one_reward_with_weight_one_is_taken_as_it_is() -> None:
    assert isinstance(make_rewards(WordProblemsTask(reward="exact")), CheckedReward)


def test_correct_from_is_about_the_first_reward_before_its_weight() -> None:
    task = {"reward": {"name": "graded", "weight": 10}, "further_rewards": {"exact": {}}, "correct_from": 2}
    rewards = make_rewards(WordProblemsTask.model_validate(task))
    short, long = rewards.judge([Problem("q", "a")] * 2, [Completion("a", 1, False), Completion("aa", 1, False)])
    assert (short.reward, short.correct) == (11, False)
    assert (long.reward, long.correct) == (20, True)


@pytest.mark.parametrize(("least", "share"), [(1.5, "no"), (1, None), (0.5, None), (0, "every"), (-1, "every")])
@pytest.mark.parametrize("name", REWARDS.ours)
def test_all_completions_or_none_are_never_correct_by_our_rewards(name: str, least: float, share: str | None) -> None:
    config = WordProblemsTask.model_validate({"reward": name, "correct_from": least})
    if share is None:
        make_rewards(config).close()
        return
    with pytest.raises(ConfigError, match=rf"task.correct_from {least}: the reward {name} .* {share} completion would"):
        make_rewards(config)


@pytest.mark.parametrize(
    ("task", "place", "reason"),
    [
        ({"further_rewards": {"graded": {"scale": "x"}}}, "further_rewards.graded.scale", "valid number"),
        ({"reward": {"name": "graded", "scael": 1}}, "reward.a mapping", "no setting scael; it has scale, columns"),
        ({"reward": {"name": "math", "scale": 1}}, "reward.a mapping", "the reward math has no settings; remove scale"),
        ({"reward": {"name": "named"}}, "reward.a mapping", "has weight, which every reward has; rename it"),
        ({"reward": {"name": "odd"}}, "reward.a mapping", "must be a class of pydantic's BaseModel"),
        ({"reward": {"name": "renamed"}}, "reward.a mapping", "gives scale another name by an alias"),
        ({"reward": {"name": "broken"}}, "reward.a mapping", "broken cannot be read and written as JSON"),
        ({"reward": {"name": "absent", "x": float("inf")}}, "reward.a mapping", "x inf cannot be written as JSON"),
        ({"further_rewards": {"math": {}}}, "", "further_rewards has math, which reward names, too"),
        ({"further_rewards": {"exact": {"name": "math"}}}, "further_rewards", "exact has the name math"),
        ({"further_rewards": {"weight": 0.5}}, "further_rewards.weight", "as in {brief: {weight: 0.2}}"),
        ({"reward": {"name": "exact", "weight": 0}}, "", "every reward has the weight 0"),
        ({"further_rewards": ["exact"]}, "further_rewards", "as in {brief: {weight: 0.2}}"),
        ({"reward": 5}, "reward", "give a reward's name, or {name: …} with its settings"),
    ],
)
def test_wrong_settings_are_refused_at_their_place(task: dict[str, object], place: str, reason: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        WordProblemsTask.model_validate(task)
    (error,) = refusal.value.errors()
    assert ".".join(map(str, error["loc"])) == place
    assert reason in error["msg"]


def test_a_reward_that_needs_a_setting_is_not_made_by_its_name_alone() -> None:
    with pytest.raises(ConfigError, match=r"task\.reward: the settings of needy: scale: Field required"):
        make_reward("needy")


def test_columns_are_a_list_of_names() -> None:
    with pytest.raises(ConfigError, match=r"'spelled' .* cannot be made: TypeError: its columns are 'id', not a list"):
        make_reward("spelled")


def test_settings_of_a_reward_that_is_installed_elsewhere_are_kept() -> None:
    task = {"reward": {"name": "elsewhere", "depth": [1, {"a": None}]}}
    assert WordProblemsTask.model_validate(task).model_dump()["reward"] == {
        "name": "elsewhere",
        "weight": 1.0,
        "depth": [1, {"a": None}],
    }


def test_a_dotted_name_sets_a_setting_only_below_a_mapping() -> None:
    base = {"task": {"name": "word_problems", "reward": {"name": "graded"}, "further_rewards": {"exact": {}}}}
    params = {"task.reward.scale": 0.5, "task.further_rewards.exact.weight": 0.1}
    task = TrainingConfig.model_validate(with_params(base, params)).task
    assert isinstance(task, WordProblemsTask)
    assert [(one.name, one.weight, one.settings) for one in task.rewards] == [
        ("graded", 1, {"scale": 0.5}),
        ("exact", 0.1, {}),
    ]
    for setting, form in (("reward", "name"), ("data", "ref")):
        said = rf"{setting} is a value, not a group of settings; write it as \{{{form}: graded\}}"
        with pytest.raises(ValueError, match=said):
            with_params({"task": {setting: "graded"}}, {f"task.{setting}.scale": 0.5})


# columns


LINES = [{"problem": f"What is {n}?", "answer": str(n), "meta": {"level": n % 3}} for n in range(20)]


def reading(cache: Path, *columns: str, **changes: object) -> WordProblems:
    task = {"data": "sums", "reward": {"name": "graded", "columns": list(columns)}} | changes
    return WordProblems(WordProblemsTask.model_validate(task), cache)


def test_columns_that_a_reward_reads_reach_it_and_change_the_digests(tmp_path: Path) -> None:
    add_dataset(tmp_path, "sums", {"train": LINES})
    with_level, without = reading(tmp_path, "meta.level", "answer"), reading(tmp_path)
    assert with_level.training[4].columns == {"meta.level": 1, "answer": "4"}
    assert without.training[4].columns == {}
    assert without.training[4] == with_level.training[4]._replace(columns_json="")
    assert problems_digest(with_level) != problems_digest(without)
    assert with_level.recipe["training"] != without.recipe["training"]


def test_a_column_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    add_dataset(tmp_path, "sums", {"train": LINES})
    with pytest.raises(ConfigError) as told:
        reading(tmp_path, "level")
    assert told.value.problems == (
        "task.data: the reward graded reads the column 'level', which sums does not have; it has problem, answer, meta",
    )  # and not of each row again
    add_dataset(tmp_path, "sparse", {"train": [*LINES, {"problem": "What is 99?", "answer": "99"}]})
    with pytest.raises(ConfigError) as told:
        reading(tmp_path, "meta.level", "level", data="sparse")
    absent, of_row = told.value.problems
    assert absent.startswith(
        "task.data: the reward graded reads the column 'level', which sparse does not have; it has"
    )
    assert of_row.endswith("train.jsonl, line 21: it has no 'meta.level', which the reward graded reads")


def test_a_benchmark_has_no_column_to_read(tmp_path: Path) -> None:
    add_dataset(tmp_path, "sums", {"train": LINES})
    add_benchmark(tmp_path, "held-out", ["What is 99?"])
    assert reading(tmp_path, validation={"benchmark": "held-out"}).validation
    with pytest.raises(ConfigError, match=r"task\.validation\.benchmark: the rewards read answer of each row"):
        reading(tmp_path, "answer", validation={"benchmark": "held-out"})


def test_problems_of_our_rewards_have_the_digests_that_they_always_had() -> None:
    shop = WordProblems(WordProblemsTask(reward="number"), Path("absent"))
    assert problems_digest(shop).startswith("358f2b607808cc04")
    assert shop.recipe["training"].startswith("7836c461464b4d52")
    assert problems_digest(make_task(ExpressionsTask(), Path("absent"))).startswith("32569fd85b95475f")


# the record


def test_the_record_has_all_settings_and_the_code(tmp_path: Path) -> None:
    add_dataset(tmp_path, "sums", {"train": LINES})
    task = reading(tmp_path, further_rewards={"exact": {"weight": 0.5}})
    asked = PromptedProblems(task, task.tokenizer())
    graded, exact = asked.record.rewards
    assert (graded.name, graded.weight, graded.settings) == ("graded", 1, {"scale": 1.0, "columns": []})
    assert graded.code[0].startswith("graded-answers 1 ")
    assert (exact.name, exact.weight, exact.settings, exact.code) == ("exact", 0.5, {}, ())
    assert asked.recipe["reward"] == [*graded.code]
    assert "reward graded of graded-answers 1: weight 1, scale 1.0, columns []" in data_facts(asked.record)
