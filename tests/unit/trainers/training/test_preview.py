from pathlib import Path
from typing import Any

import pytest

from sweep_service.intake.preview import _warnings
from tests.unit.trainers.tasks import chats
from trainers.config import TrainingConfig
from trainers.tasks.data_record import Preview, Prompt, title
from trainers.training.preview import preview, text

LINE = "Every one of these words is needed to say how the answer to the question comes about, which is"


def previewed(cache: Path, answers: list[str], reward: str = "exact", **data: Any) -> tuple[TrainingConfig, Preview]:
    rows = [{"problem": f"What is {n} and 1?", "answer": answer} for n, answer in enumerate(answers)]
    chats.add_dataset(cache, "sums", {"train": rows})
    task = {"name": "word_problems", "data": {"ref": "sums", **data}, "reward": reward, "validation_every": 2}
    config = TrainingConfig.model_validate({"task": task, "loss": {"name": "ce_gppo"}})
    return config, preview(config, cache)


@pytest.mark.parametrize(
    ("answers", "data", "median"),
    [
        ([f"{n} and 1\n#### {n + 1}" for n in range(20)], {}, 14),
        ([rf"\boxed{{{n}}}" for n in range(20)], {"reward": "math"}, 9),
        ([f"{LINE} {n}" for n in range(20)], {}, 96),
        ([f"{n}\nor so" if n % 5 == 0 else str(n) for n in range(20)], {}, 2),
        ([*map(str, range(19)), "1\n2"], {}, None),  # one oddity
        ([f"so\n#### {n}" for n in range(20)], {"answer_after": "####"}, None),
    ],
    ids=["lines", "box", "long", "some", "final", "after"],
)
def test_answers_that_look_like_worked_solutions_are_warned_of(
    tmp_path: Path, answers: list[str], data: dict[str, str], median: int | None
) -> None:
    config, shown = previewed(tmp_path, answers, **data)
    told, last = list(_warnings(config, shown))[-1:], text(shown).splitlines()[-1]
    if median is None:
        assert (told, "worked" in last) == ([], False)
    else:
        assert told[0].startswith(f"the answers look like worked solutions (median {median} characters), e.g. ")
        assert last == f"warning: {told[0]}"


def test_few_problems_to_validate_on_are_warned_of(tmp_path: Path) -> None:
    config, shown = previewed(tmp_path, [str(n) for n in range(15)])
    (warning,) = _warnings(config, shown)
    assert warning.startswith("only 7 problems to validate on")


def test_a_title_is_one_short_line() -> None:
    assert title(Prompt(text="?", tokens=1, answer="so\n 7")) == "1 tokens, answer so 7"
    assert title(Prompt(text="?", tokens=1, answer="x" * 81)) == f"1 tokens, answer {'x' * 80}…"
