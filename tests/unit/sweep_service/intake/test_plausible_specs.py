"""Specs that somebody could mean are accepted, with the catalog that they name."""

import json
from collections import Counter
from pathlib import Path

import pytest

from search_spaces.strategies import STRATEGIES
from sweep_service.intake.catalog_check import check_catalog
from sweep_service.intake.spec_check import parse_spec
from sweep_service.sweep.plan import first_records, make_plan
from tests.model_folders import model_files, write_model
from tests.plausible_specs import DATASET, OF_LOSS, plausible_specs
from trainers.catalog.add_from_disk import add_local_dataset, add_local_model


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The catalog that the specs name."""
    folder = tmp_path_factory.mktemp("catalog")
    add_local_model(write_model(folder / "base"), folder / "cache", "base")
    add_local_model(write_model(folder / "chat", model_files(chat=True)), folder / "cache", "chat")
    (folder / "rows").mkdir()
    for split in ("train", "test"):
        (folder / "rows" / f"{split}.jsonl").write_text('{"question": "1 + 1", "answer": "2", "level": 1}\n')
    add_local_dataset(folder / "rows", folder / "cache", DATASET)
    return folder / "cache"


def test_plausible_specs_are_accepted(cache: Path) -> None:
    seen = Counter[str]()
    for raw in plausible_specs(seed=1, number=100):
        spec = parse_spec(json.loads(json.dumps(raw)))
        check_catalog(spec, cache)
        plan = make_plan(spec, None)
        assert plan.trials["tune"] >= len(first_records(spec, "swp")[1]) > 0
        engine = spec.base.rollout.engine
        seen.update(
            (
                spec.base.loss.name,
                spec.base.model.name,
                spec.base.task.name,
                spec.search.strategy,
                engine.name,
                str(getattr(engine, "mode", "")),
                f"gpus {spec.resources.gpus:g}",
                f"lora {spec.base.model.lora is not None}",
                spec.base.compute.sharding,
            )
        )
    everything = {*OF_LOSS, "pretrained", "tiny_qwen2", "lora True", "expressions", "countdown", "word_problems"}
    everything |= {*STRATEGIES, "transformers", "vllm", "colocate", "server"}
    everything |= {"gpus 0", "gpus 0.5", "gpus 8", "fsdp", "zero3"}
    assert everything <= seen.keys()
