from collections.abc import Sequence
from hashlib import sha256

import pytest

from trainers.config import EvaluationConfig
from trainers.evaluation.evaluate import evaluate
from trainers.evaluation.problem_counts import problem_name
from trainers.evaluation.problem_parts import PART_METRICS, part_metric, split_problems
from trainers.record.metrics import EVALUATION_METRICS
from trainers.tasks.base import Completion, Judgement, Problem

PROBLEMS = tuple(Problem(f"{number}=", str(number)) for number in (6, 11, 16, 21))


def judge(problems: Sequence[Problem], completions: Sequence[Completion]) -> list[Judgement]:
    """Answers are the problems' numbers; the judge fails on "?", and a right answer in time gets 2."""
    return [
        Judgement(None, correct=False)
        if completion.text == "?"
        else Judgement(2.0 * (completion.text == problem.answer), completion.text == problem.answer, completion.text)
        for problem, completion in zip(problems, completions, strict=True)
    ]


def _evaluated(texts: Sequence[str], samples: int, pass_k: int = 1, shown: int = 0):
    """Evaluate a sampler that says these texts in turn; what it says to 11 is cut short."""
    said = iter(texts)

    def sample(problems: Sequence[Problem]) -> list[tuple[Completion, Judgement]]:
        completions = [Completion(next(said), 4, problem.prompt == "11=") for problem in problems]
        return list(zip(completions, judge(problems, completions), strict=True))

    config = EvaluationConfig(samples_per_problem=samples, pass_k=pass_k, shown_samples=shown)
    return evaluate(sample, PROBLEMS, config)


def test_evaluation_counts_each_problem_equally_and_shows_different_problems() -> None:
    texts = ["6", "6", "0", "1", "8", "8", "8", "8", "16", "16", "0", "0", "4", "4", "4", "4"]
    result = _evaluated(texts, samples=4, pass_k=2, shown=5)
    assert result.metrics["eval/avg_at_k"] == 0.25
    assert result.metrics["eval/reward_mean"] == 0.5
    assert result.metrics["eval/reward_mean_se"] == pytest.approx(2 * (result.metrics["eval/avg_at_k_se"] or 0))
    assert result.metrics["eval/pass_at_k"] == pytest.approx((5 / 6) / 2)
    assert result.metrics["eval/truncated_share"] == 0.25
    assert result.metrics["eval/problems"] == 4
    assert result.metrics["eval/distinct_answers"] == (3 + 1 + 2 + 1) / 4
    assert [(sample["prompt"], sample["reward"]) for sample in result.samples] == [
        ("6=", 2.0),
        ("6=", 2.0),
        ("11=", 0.0),
        ("16=", 2.0),
        ("21=", 0.0),
    ]


def test_the_scores_of_a_half_are_those_of_an_evaluation_of_its_problems_alone() -> None:
    problems = [Problem(f"{number}=", str(number % 3)) for number in range(20)]
    config = EvaluationConfig(samples_per_problem=4, pass_k=2)

    def sample(asked: Sequence[Problem]) -> list[tuple[Completion, Judgement]]:
        """Each sample says another number, whatever else is asked."""
        nth = [sum(other is problem for other in asked[:place]) for place, problem in enumerate(asked)]
        texts = [str((int(one.prompt[:-1]) // 5 + n) % 3) for one, n in zip(asked, nth, strict=True)]
        completions = [Completion(text, 4, truncated=False) for text in texts]
        return list(zip(completions, judge(asked, completions), strict=True))

    whole = evaluate(sample, problems, config).metrics
    assert whole["eval/pass_at_k"] != whole["eval/avg_at_k"]
    parts = split_problems([problem_name(problem) for problem in problems])
    assert len(parts) == 2
    for part, places in parts.items():
        alone = evaluate(sample, [problems[place] for place in places], config).metrics
        assert {name: whole[part_metric(name, part)] for name in PART_METRICS} == {
            name: alone[name] for name in PART_METRICS
        }


def test_a_failed_judgement_is_missing_not_wrong() -> None:
    result = _evaluated(["6", "?", "?", "?", "16", "16", "0", "0"], samples=2, shown=4)
    assert result.metrics["eval/avg_at_k"] == pytest.approx((1 + 1 + 0) / 3)
    assert result.metrics["eval/reward_mean"] == pytest.approx(2 * (1 + 1 + 0) / 3)
    assert result.metrics["eval/pass_at_k"] == pytest.approx((1 + 1 + 0) / 3)
    assert result.metrics["eval/failed_share"] == 3 / 8
    assert result.metrics["eval/distinct_answers"] == (1 + 1 + 1) / 3
    assert result.metrics["eval/avg_at_k_se"] is None  # one problem has a single judged sample
    assert result.samples[1]["reward"] is None
    assert result.problems.judged == [1, 0, 2, 2]
    assert result.problems.right == [1, 0, 2, 0]
    assert result.problems.names == [problem_name(problem) for problem in PROBLEMS]


def test_a_problem_is_named_by_its_content_and_sorted_by_its_prompt() -> None:
    one, same, other = problem_name(PROBLEMS[0]), problem_name(Problem("6=", "6")), problem_name(Problem("6=", "7"))
    assert one == same != other
    assert one[:12] == other[:12] == sha256(b"6=").hexdigest()[:12]


def test_every_metric_is_in_the_table() -> None:
    assert set(_evaluated(["6"] * 4, samples=1).metrics) == set(EVALUATION_METRICS)


def test_each_half_of_the_problems_has_its_own_scores() -> None:
    problems = [Problem(f"{number}=", str(number)) for number in range(17)]
    texts = [str(number) if sample <= number % 3 else "no" for number in range(17) for sample in range(2)]
    said = iter(texts)

    def sample(repeated: Sequence[Problem]) -> list[tuple[Completion, Judgement]]:
        completions = [Completion(next(said), 4, truncated=False) for _ in repeated]
        return list(zip(completions, judge(repeated, completions), strict=True))

    result = evaluate(sample, problems, EvaluationConfig(samples_per_problem=2, pass_k=1))
    parts = split_problems(result.problems.names)
    assert [len(indices) for indices in parts.values()] == [9, 8]
    for part, indices in parts.items():
        shares = [result.problems.right[index] / 2 for index in indices]
        assert result.metrics[f"eval/{part}/avg_at_k"] == pytest.approx(sum(shares) / len(shares))
        assert result.metrics[f"eval/{part}/reward_mean"] == pytest.approx(2 * sum(shares) / len(shares))
        errors = [share * (1 - share) for share in shares]
        assert result.metrics[f"eval/{part}/avg_at_k_se"] == pytest.approx(sum(errors) ** 0.5 / len(errors))


def test_too_few_problems_have_no_scores_of_halves() -> None:
    metrics = _evaluated(["6"] * 4, samples=1).metrics
    assert {value for name, value in metrics.items() if "_part/" in name} == {None}
