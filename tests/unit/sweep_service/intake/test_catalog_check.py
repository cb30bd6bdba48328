from pathlib import Path
from typing import Any

import pytest

from sweep_service.intake.catalog_check import _ENOUGH, check_catalog, named_entries
from sweep_service.intake.spec_check import parse_spec
from tests.golden import matches_golden
from tests.model_folders import model_files, write_model
from tests.refusals import refusals
from trainers.catalog.add_from_disk import add_local_dataset, add_local_model
from trainers.catalog.entries import BenchmarkEntry, DatasetEntry, ModelEntry


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models, a dataset with two splits."""
    folder = tmp_path_factory.mktemp("catalog")
    add_local_model(write_model(folder / "base"), folder / "cache", "base")
    chat = model_files(chat=True, max_position_embeddings=1024)
    add_local_model(write_model(folder / "chat", chat), folder / "cache", "chat")
    rows = folder / "rows"
    rows.mkdir()
    for split in ("train", "test"):
        (rows / f"{split}.jsonl").write_text('{"question": "a", "answer": {"value": "b"}, "level": 1}\n')
    add_local_dataset(rows, folder / "cache", "exam")
    return folder / "cache"


def spec(data: Any = None, space: Any = None, task: Any = None, **training: Any) -> dict[str, Any]:
    exam = {"ref": "exam", "prompt": "question", "answer": "answer.value"}
    words = {"name": "word_problems", "data": exam | data if isinstance(data, dict) else data or exam}
    return {
        "name": "x",
        "training": {
            "task": words | (task or {}),
            "model": {"name": "pretrained", "model": "base"},
            "rollout": {"max_completion_tokens": 512},
        }
        | training,
        "space": space or {"loss.beta1": [0, 1]},
        "baselines": {"dapo": False},
    }


def told(raw: dict[str, Any], cache: Path) -> dict[str, str]:
    return refusals(parse_spec(raw), cache, check=check_catalog)


def test_a_spec_that_fits_passes(cache: Path) -> None:
    check_catalog(parse_spec(spec()), cache)
    validation = {"validation": {"split": "test", "filter": {"level": [1]}}, "apart_from": ["arithmetic"]}
    check_catalog(parse_spec(spec(task=validation, space={"model.model": ["base", "chat"]})), cache)
    check_catalog(parse_spec({"name": "x", "space": {"loss.beta1": [0, 1]}}), cache)
    check_catalog(parse_spec(spec(data="shop-sums")), cache)
    check_catalog(parse_spec(spec(task={"validation": {"benchmark": "arithmetic"}})), cache)


CHAT = {"name": "pretrained", "model": "chat"}


WRONG = (
    spec(model={"name": "pretrained", "model": "chad"}),
    spec(space={"model.model": ["base", "qwen"]}),
    spec(data="gsm8k"),
    spec(data={"prompt": "problem"}),
    spec(data={"prompt": "{question}\n\n{inptu}"}),
    spec(data={"filter": {"levle": [1]}}),
    spec(data={"split": "tset"}),
    spec(space={"task.data.split": ["train", "validation"]}),
    spec(task={"apart_from": ["aime24"]}),
    spec(task={"validation": {"benchmark": "expresions"}}),
    spec(space={"task.data": [{"ref": "exam", "prompt": "question"}, {"ref": "exam", "prompt": "qestion"}]}),
    spec(data={"template": "chat"}),
    spec(model=CHAT, rollout={"max_completion_tokens": 513}, evaluation={"max_completion_tokens": 4}),
    spec(model=CHAT, evaluation={"max_completion_tokens": 600}),
    spec(model=CHAT | {"lora": {"rank": 8}}),
)


def test_what_is_not_there_or_does_not_fit_is_refused_with_its_place(cache: Path) -> None:
    lines = [f"{place}: {detail}\n" for raw in WRONG for place, detail in told(raw, cache).items()]
    assert len(lines) == len(WRONG)
    matches_golden(Path(__file__).parent / "golden" / "catalog.txt", "".join(lines))


def test_everything_is_said_at_once(cache: Path) -> None:
    task = {"validation": {"ref": "shop-sums"}, "apart_from": ["aime24"]}
    assert list(told(spec(task=task, model={"name": "pretrained", "model": "large"}), cache)) == [
        "/training/model/model",
        "/training/task/validation/split",
        "/training/task/validation/prompt",
        "/training/task/apart_from",
    ]


def test_a_space_with_more_wrong_values_than_are_told_is_refused(cache: Path) -> None:
    values = [f"model-{number}" for number in range(3 * _ENOUGH)]
    found = told(spec(space={"model.model": values}, data="gsm8k"), cache)
    assert found.keys() >= {"/space/model.model", "/training/task/data"}


def test_an_empty_catalog_says_so(tmp_path: Path) -> None:
    found = told(spec(data="shop-sums"), tmp_path)
    assert found["/training/model/model"].endswith("(`sweeps models add` adds it); there are no models yet")


def test_what_a_spec_names_is_known(cache: Path) -> None:
    named = named_entries(
        parse_spec(spec(task={"apart_from": ["arithmetic"]}, space={"model.model": ["base", "chat"]}))
    )
    assert named == {
        (ModelEntry, "base"),
        (ModelEntry, "chat"),
        (DatasetEntry, "exam"),
        (BenchmarkEntry, "arithmetic"),
    }
