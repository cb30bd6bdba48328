import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.model_folders import model_files, safetensors, write_model
from trainers.catalog.add_from_disk import add_local_dataset, add_local_model
from trainers.catalog.entries import DatasetEntry, ModelEntry, all_entries, entry_folder, list_entries, read_entry
from trainers.catalog.new_entry import Reporter, held, remove_entry
from trainers.config import PretrainedModel
from trainers.errors import ConfigError
from trainers.policy.load_policy import pretrained_folder


class Heard(Reporter):
    def __init__(self) -> None:
        self.said, self.done = list[str](), list[tuple[int, int]]()

    def say(self, text: str) -> None:
        self.said.append(text)

    def progress(self, what: str, done: int, total: int) -> None:
        self.done.append((done, total))


def left_behind(cache: Path) -> list[str]:
    """What lies in the cache but locks."""
    return sorted(path.name for path in cache.glob("*/*") if not path.name.endswith("~lock"))


def refusals(folder: Path, tmp_path: Path, name: str = "mine") -> list[str]:
    with pytest.raises(ConfigError) as refused:
        add_local_model(folder, tmp_path / "cache", name)
    assert left_behind(tmp_path / "cache") == []
    return [problem.removeprefix(f"{folder}: ") for problem in refused.value.problems]


def test_a_model_is_copied_and_described(tmp_path: Path) -> None:
    folder, cache, heard = write_model(tmp_path / "here", model_files(chat=True)), tmp_path / "cache", Heard()
    (folder / "optimizer.pt").write_bytes(b"pickle")
    (folder / "modeling_own.py").write_text("raise SystemExit")
    entry = add_local_model(folder, cache, "mine", heard)
    assert entry == read_entry(cache, ModelEntry, "mine") == list_entries(cache, ModelEntry)[0]
    assert {file.name for file in entry_folder(cache, ModelEntry, "mine").iterdir()} == {
        "catalog.json",
        *model_files(),
    }
    facts = entry.model_dump(exclude={"added_at", "digest", "bytes", "origin"})
    assert facts == {
        "name": "mine",
        "architecture": "Qwen2ForCausalLM",
        "parameters": 36,
        "weights_dtype": "bfloat16",
        "context_length": 2048,
        "vocabulary": 8,
        "hidden_size": 4,
        "num_layers": 1,
        "num_heads": 2,
        "num_kv_heads": 1,
        "chat_template": True,
    }
    assert entry.bytes == sum(map(len, model_files(chat=True).values())) == heard.done[-1][0] == heard.done[-1][1]


def test_links_are_followed_as_in_the_hubs_own_cache(tmp_path: Path) -> None:
    blobs, folder = write_model(tmp_path / "blobs"), tmp_path / "snapshot"
    folder.mkdir()
    for file in blobs.iterdir():
        (folder / file.name).symlink_to(file)
    add_local_model(folder, tmp_path / "cache", "mine")
    kept = entry_folder(tmp_path / "cache", ModelEntry, "mine")
    assert not any(file.is_symlink() for file in kept.iterdir())
    assert (kept / "model.safetensors").read_bytes() == (blobs / "model.safetensors").read_bytes()


def test_weights_in_parts_are_those_of_the_index(tmp_path: Path) -> None:
    files = model_files()
    first, second = safetensors({"a": [8, 4]}, "F32", 4), safetensors({"b": [4]})
    del files["model.safetensors"]
    index = {"weight_map": {"a": "model-1-of-2.safetensors", "b": "model-2-of-2.safetensors"}}
    files |= {"model-1-of-2.safetensors": first, "model-2-of-2.safetensors": second, "other.safetensors": first}
    folder = write_model(tmp_path / "here", files | {"model.safetensors.index.json": json.dumps(index).encode()})
    entry = add_local_model(folder, tmp_path / "cache", "mine")
    assert (entry.parameters, entry.weights_dtype) == (36, "float32")
    assert not (entry_folder(tmp_path / "cache", ModelEntry, "mine") / "other.safetensors").exists()
    (folder / "model-2-of-2.safetensors").unlink()
    assert refusals(folder, tmp_path / "2") == [
        "model.safetensors.index.json names model-2-of-2.safetensors, which is not there"
    ]


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"architectures": ["BertModel"]}, "BertModel is not a causal language model of the installed Transformers"),
        ({"architectures": None}, "config.json names no architecture"),
        (
            {"architectures": ["OwnForCausalLM"], "auto_map": {"AutoModelForCausalLM": "modeling_own.OwnForCausalLM"}},
            "OwnForCausalLM is not a causal language model of the installed Transformers; it needs code from its "
            "repository (AutoModelForCausalLM), and such code is never run here",
        ),
        (
            {"quantization_config": {"quant_method": "gptq"}},
            "its weights are quantized, which cannot be trained; take the model that it was made from",
        ),
        ({"num_attention_heads": None}, "config.json has no num_attention_heads"),
    ],
)
def test_what_cannot_be_trained_is_refused(tmp_path: Path, changes: dict[str, Any], refusal: str) -> None:
    assert refusals(write_model(tmp_path / "here", model_files(**changes)), tmp_path) == [refusal]


def test_a_known_architecture_may_bring_code_that_is_not_needed(tmp_path: Path) -> None:
    code = {"AutoModelForCausalLM": "modeling_phi3.Phi3ForCausalLM"}
    folder = write_model(tmp_path / "here", model_files(architectures=["Phi3ForCausalLM"], auto_map=code))
    assert add_local_model(folder, tmp_path / "cache", "mine").architecture == "Phi3ForCausalLM"


@pytest.mark.parametrize(
    ("files", "refusal"),
    [
        ({"tokenizer.json": None}, "there is no tokenizer, such as tokenizer.json"),
        ({"config.json": None}, "there is no config.json, so this is not a Hugging Face model"),
        (
            {"config.json": None, "adapter_config.json": b"{}"},
            "these are LoRA adapters, not a model; merge them into their base model and add that",
        ),
        (
            {"model.safetensors": None},
            "there are no weights: neither model.safetensors nor model.safetensors.index.json",
        ),
        (
            {"model.safetensors": None, "pytorch_model.bin": b"pickle"},
            "its weights are pickles (pytorch_model.bin), which can run any code when they are read; take a revision "
            "with safetensors, or convert them on a machine that may be lost and add the folder",
        ),
        ({"config.json": b"[1]"}, "config.json is not a JSON object"),
        (
            {"model.safetensors": safetensors({"a": [2]})[:-1]},
            "model.safetensors, of 73 bytes, is not a whole safetensors file (Error while deserializing header: "
            "incomplete metadata, file not fully covered); fetch or copy it again",
        ),
        (
            {"model.safetensors": safetensors({"a": [2]}, "I8", 1)},
            "its weights are of type I8; training needs float64, float32, float16, bfloat16",
        ),
        (
            {"tokenizer_config.json": b'{"auto_map": {"AutoTokenizer": ["own.Own", null]}, "tokenizer_class": "Own"}'},
            "its tokenizer Own needs code from its repository, and such code is never run here",
        ),
    ],
)
def test_what_is_no_model_is_refused(tmp_path: Path, files: dict[str, bytes | None], refusal: str) -> None:
    changed = {name: content for name, content in {**model_files(), **files}.items() if content is not None}
    assert refusals(write_model(tmp_path / "here", changed), tmp_path) == [refusal]


def test_everything_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert len(refusals(tmp_path / "empty", tmp_path)) == 3


def test_the_same_again_is_there_already_and_another_is_refused(tmp_path: Path) -> None:
    folder, cache, heard = write_model(tmp_path / "here"), tmp_path / "cache", Heard()
    first = add_local_model(folder, cache, "mine")
    assert add_local_model(folder, cache, "mine", heard) == first
    assert heard.said == ["mine is in the catalog already"]
    (folder / "tokenizer.json").write_text("{ }")
    with pytest.raises(
        ConfigError, match=r"mine is in the catalog of models with other content.*sweeps models rm mine"
    ):
        add_local_model(folder, cache, "mine")
    assert read_entry(cache, ModelEntry, "mine") == first
    assert add_local_model(folder, cache, "other").digest != first.digest


@pytest.mark.parametrize("name", ["Mine", "../x", "", "a/b", ".x", "x" * 64])
def test_a_name_is_a_plain_name(tmp_path: Path, name: str) -> None:
    assert "is not a name for an entry" in refusals(write_model(tmp_path / "here"), tmp_path, name)[0]


def test_a_folder_without_a_record_is_neither_used_nor_written_over(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    theirs = write_model(cache / "models" / "mine")
    with pytest.raises(ConfigError, match=r"no readable catalog\.json.*move it elsewhere"):
        add_local_model(write_model(tmp_path / "here"), cache, "mine")
    assert {file.name for file in theirs.iterdir()} == set(model_files())
    with pytest.raises(ConfigError, match=r"model\.model: mine is not in the catalog of models"):
        pretrained_folder(PretrainedModel(model="mine"), cache)


def test_an_entry_is_called_as_its_folder_wherever_that_was_copied_from(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    entry = add_local_model(write_model(tmp_path / "here"), cache, "mine")
    (cache / "models" / "mine").rename(cache / "models" / "renamed")
    assert list_entries(cache, ModelEntry) == [entry.model_copy(update={"name": "renamed"})]
    assert read_entry(cache, ModelEntry, "renamed").name == "renamed"


def test_two_additions_of_one_name_do_not_mix(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with held(entry_folder(cache, ModelEntry, "mine"), "models"):
        with pytest.raises(ConfigError, match="another process is at mine in the catalog of models; wait"):
            add_local_model(write_model(tmp_path / "here"), cache, "mine")
        add_local_model(write_model(tmp_path / "here"), cache, "mine.other")


def test_a_full_disk_is_noticed_before_anything_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, cache = write_model(tmp_path / "here"), tmp_path / "cache"
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(ConfigError, match=r"B are needed and .*models has 1.0 kB free; make room, or set SWEEPS_CACHE"):
        add_local_model(folder, cache, "mine")
    assert left_behind(cache) == []


def test_an_interrupted_copy_leaves_nothing(tmp_path: Path) -> None:
    class Interrupting(Reporter):
        def progress(self, what: str, done: int, total: int) -> None:
            raise KeyboardInterrupt

    folder, cache = write_model(tmp_path / "here"), tmp_path / "cache"
    with pytest.raises(KeyboardInterrupt):
        add_local_model(folder, cache, "mine", Interrupting())
    assert left_behind(cache) == []


def test_removing_takes_an_entry_and_what_was_begun_of_it_and_no_other(tmp_path: Path) -> None:
    cache, folder = tmp_path / "cache", write_model(tmp_path / "here")
    for name in ("mine", "mine.other"):
        add_local_model(folder, cache, name)
    (cache / "models" / ".mine~0123").mkdir()
    assert remove_entry(cache, ModelEntry, "mine") > sum(map(len, model_files().values()))
    assert [entry.name for entry in list_entries(cache, ModelEntry)] == ["mine.other"]
    assert not (cache / "models" / ".mine~0123").exists()
    with pytest.raises(
        ConfigError, match=r"mine is not in the catalog of models \(in \S+/models there are: mine\.other\)"
    ):
        remove_entry(cache, ModelEntry, "mine")


def test_what_the_package_brings_is_neither_replaced_nor_removed(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"a": 1}\n')
    with pytest.raises(ConfigError, match="shop-sums comes with the package; take another name"):
        add_local_dataset(rows, tmp_path / "cache", "shop-sums")
    with pytest.raises(ConfigError, match="comes with the package and cannot be removed"):
        remove_entry(tmp_path / "cache", DatasetEntry, "shop-sums")
    (entry,) = all_entries(tmp_path / "cache", DatasetEntry)
    assert (entry.name, entry.splits, entry.added_at) == ("shop-sums", {"train": 400}, None)
