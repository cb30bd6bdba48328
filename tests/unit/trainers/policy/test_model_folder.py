"""Which files of a model change its digest."""

import json
from pathlib import Path

import pytest

from trainers.policy.model_folder import model_digest


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path / "base"
    folder.mkdir()
    (folder / "config.json").write_text("{}", encoding="utf-8")
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


@pytest.fixture
def adapters(base: Path) -> Path:
    folder = base.parent / "adapters"
    folder.mkdir()
    settings = {"base_model_name_or_path": str(base)}
    (folder / "adapter_config.json").write_text(json.dumps(settings), encoding="utf-8")
    (folder / "adapter_model.safetensors").write_bytes(b"adapters")
    return folder


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", "chat_template.jinja"])
def test_adapters_on_another_base_model_have_another_digest(base: Path, adapters: Path, name: str) -> None:
    before = model_digest(base), model_digest(adapters)
    (base / name).write_bytes(b"others")
    assert model_digest(base) != before[0]
    assert model_digest(adapters) != before[1]


def test_other_adapters_have_another_digest(adapters: Path) -> None:
    before = model_digest(adapters)
    (adapters / "adapter_model.safetensors").write_bytes(b"others")
    assert model_digest(adapters) != before


def test_what_a_checkpoint_holds_besides_the_model_does_not_count(base: Path) -> None:
    before = model_digest(base)
    (base / "optimizer.pt").write_bytes(b"state")
    assert model_digest(base) == before
