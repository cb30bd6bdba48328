"""Adding from a Hub that runs here: what is fetched, from where it goes on, what is refused, and what is never told."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import huggingface_hub.constants
import pytest

import trainers.benchmarks.add_benchmark as benchmarks
import trainers.catalog.hub as hub_module
from tests.integration.trainers.fake_hub import COMMIT, LARGE, OTHER_COMMIT, FakeHub, fake_hub
from tests.model_folders import model_files, safetensors
from tests.waiting import PATIENT_S, wait_until
from trainers.benchmarks.known_benchmarks import KNOWN_BENCHMARKS
from trainers.benchmarks.problems import read_problems
from trainers.catalog.add_from_hub import add_hub_dataset, add_hub_model, default_name
from trainers.catalog.entries import BenchmarkEntry, DatasetEntry, ModelEntry, entry_folder, list_entries, read_entry
from trainers.catalog.hub import HubError, hub_token
from trainers.catalog.new_entry import Reporter
from trainers.errors import ConfigError

CANARY = "hf_canaryNeverToBeSeen"
TENSORS = {"model.embed_tokens.weight": [500, 4], "model.norm.weight": [4]}
MODEL = model_files(chat=True, tensors=TENSORS)
WEIGHTS = len(MODEL["model.safetensors"])


class Heard(Reporter):
    def __init__(self) -> None:
        self.said = list[str]()

    def say(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with fake_hub() as hub:
        hub.add("models/acme/Tiny-1", MODEL | {"pytorch_model.bin": b"x" * LARGE, "modeling_own.py": b"raise"})
        url = hub.url
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", url)
        template = f"{url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(hub_module, "_PAUSE_S", 0.0)
        yield hub


def added(cache: Path, reference: str = "acme/Tiny-1", name: str = "tiny", token: str | None = None) -> ModelEntry:
    return add_hub_model(reference, cache, name, token, Reporter())


def begun(cache: Path, kind: str = "models") -> list[str]:
    return sorted(path.name for path in (cache / kind).glob(".*") if path.is_dir())


def test_a_model_is_pinned_to_its_commit_and_only_what_is_needed_is_fetched(hub: FakeHub, tmp_path: Path) -> None:
    heard = Heard()
    entry = add_hub_model("acme/Tiny-1", tmp_path, default_name("acme/Tiny-1"), None, heard)
    assert entry == read_entry(tmp_path, ModelEntry, "tiny-1")
    assert (entry.origin.repository, entry.origin.revision) == ("acme/Tiny-1", COMMIT)
    assert heard.said == [f"acme/Tiny-1: main is commit {COMMIT}"]
    assert {name for name, _, _ in hub.sent} == set(MODEL)
    assert {file.name for file in entry_folder(tmp_path, ModelEntry, "tiny-1").iterdir()} == {"catalog.json", *MODEL}
    hub.sent.clear()
    add_hub_model(f"acme/Tiny-1@{COMMIT}", tmp_path, "tiny-1", None, heard)
    assert (hub.sent, heard.said[1:]) == ([], ["tiny-1 is in the catalog already"])


def test_a_name_that_has_another_commit_is_refused_before_anything_is_fetched(hub: FakeHub, tmp_path: Path) -> None:
    added(tmp_path)
    hub.sent.clear()
    hub.moved = True
    with pytest.raises(ConfigError, match=rf"with other content \(acme/Tiny-1@{COMMIT}\); take another name"):
        added(tmp_path)
    assert hub.sent == []
    assert added(tmp_path, name="newer").origin.revision == OTHER_COMMIT


def test_what_cannot_be_used_is_refused_before_its_weights_are_fetched(hub: FakeHub, tmp_path: Path) -> None:
    pickled = {name: content for name, content in MODEL.items() if name != "model.safetensors"}
    hub.add("models/acme/pickled", pickled | {"pytorch_model.bin": b"x" * LARGE})
    hub.add("models/acme/own", MODEL | model_files(architectures=["OwnForCausalLM"], tensors=TENSORS))
    with pytest.raises(ConfigError, match=rf"acme/pickled@{COMMIT}: its weights are pickles \(pytorch_model\.bin\)"):
        added(tmp_path, "acme/pickled")
    assert hub.sent == []
    with pytest.raises(ConfigError, match=r"OwnForCausalLM is not a causal language model"):
        added(tmp_path, "acme/own")
    assert {name for name, _, _ in hub.sent} == {"config.json", "tokenizer_config.json"}
    assert begun(tmp_path) == []


def test_a_connection_that_breaks_is_made_again_where_it_broke(hub: FakeHub, tmp_path: Path) -> None:
    hub.cut_after = 1500
    entry = added(tmp_path)
    begins = [begin for begin, _ in hub.sent_of("model.safetensors")]
    assert begins == list(range(0, WEIGHTS, 1500))
    assert sum(size for _, size in hub.sent_of("model.safetensors")) == WEIGHTS
    assert (entry_folder(tmp_path, ModelEntry, entry.name) / "model.safetensors").read_bytes() == MODEL[
        "model.safetensors"
    ]


def test_a_broken_off_addition_goes_on_where_it_ended(hub: FakeHub, tmp_path: Path) -> None:
    class Stopping(Reporter):
        def progress(self, what: str, done: int, total: int) -> None:
            if what == "model.safetensors" and done > 1000:
                raise KeyboardInterrupt

    hub.cut_after = 1500
    with pytest.raises(KeyboardInterrupt):
        add_hub_model("acme/Tiny-1", tmp_path, "tiny", None, Stopping())
    assert list_entries(tmp_path, ModelEntry) == []
    assert begun(tmp_path) == [f".tiny~{COMMIT}"]
    hub.sent.clear()
    hub.cut_after = None
    added(tmp_path)
    assert hub.sent_of("model.safetensors") == [(1500, WEIGHTS - 1500)]
    assert hub.sent_of("config.json") == []
    assert begun(tmp_path) == []


def test_what_was_begun_of_another_commit_is_given_up(hub: FakeHub, tmp_path: Path) -> None:
    old = tmp_path / "models" / f".tiny~{OTHER_COMMIT}"
    old.mkdir(parents=True)
    (old / "model.safetensors.part").write_bytes(b"old")
    added(tmp_path)
    assert not old.exists()
    assert hub.sent_of("model.safetensors") == [(0, WEIGHTS)]


@pytest.mark.parametrize("damaged", ["model.safetensors", "tokenizer.json"])
def test_what_is_not_what_the_hub_lists_is_thrown_away(hub: FakeHub, tmp_path: Path, damaged: str) -> None:
    hub.damaged = damaged
    with pytest.raises(HubError, match=rf"{damaged}: what came is not what the Hub says it holds"):
        added(tmp_path)
    assert list_entries(tmp_path, ModelEntry) == []
    hub.damaged = None
    hub.sent.clear()
    added(tmp_path)
    assert [name for name, _, _ in hub.sent] == [damaged]


@pytest.mark.parametrize(
    ("state", "token", "refusal"),
    [
        ({"token": "right"}, None, "there is no such model at URL, or it is private: set HF_TOKEN to a token that may"),
        ({"token": "right"}, "wrong", "the Hub does not know the token; set HF_TOKEN to a valid one, or unset it"),
        ({"gated": True}, None, "accept its licence at URL/acme/Tiny-1 and set HF_TOKEN to a token of your account"),
        ({"gated": True}, "any", "accept its licence at URL/acme/Tiny-1 with the account of your token"),
        ({"status": 403}, "any", "the token may not read it; allow that in the token's settings"),
        ({"status": 429}, None, "the Hub asks for fewer requests; wait some minutes"),
        ({"status": 502}, None, "the Hub answers 502; ask again later"),
    ],
)
def test_the_hubs_refusals_come_with_a_remedy(
    hub: FakeHub, tmp_path: Path, state: dict[str, object], token: str | None, refusal: str
) -> None:
    for name, value in state.items():
        setattr(hub, name, value)
    with pytest.raises(HubError) as refused:
        added(tmp_path, token=token)
    assert refusal.replace("URL", hub.url) in str(refused.value)
    assert str(refused.value).startswith("acme/Tiny-1: ")


@pytest.mark.parametrize(
    ("reference", "refusal"),
    [
        ("acme/Nothing", "there is no such model at"),
        ("acme/Tiny-1@v9", "it has no revision v9; "),
        ("acme/Tiny--1", "acme/Tiny--1: no repository can have this name: Cannot have -- or .. in repo_id"),
        ("https://huggingface.co/acme/Tiny-1", "is neither OWNER/NAME@REVISION of the Hub nor a file or directory"),
    ],
)
def test_what_is_not_on_the_hub_is_refused(hub: FakeHub, tmp_path: Path, reference: str, refusal: str) -> None:
    with pytest.raises(ConfigError, match=refusal):
        added(tmp_path, reference)


def test_a_hub_that_is_away_and_one_that_must_not_be_asked(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(HubError, match=r"the connection to http://127\.0\.0\.1:9 fails \(ConnectError\)"):
        added(tmp_path)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(HubError, match="HF_HUB_OFFLINE is set, so nothing is fetched; unset it"):
        added(tmp_path)


def test_the_token_reaches_the_hub_and_not_where_it_redirects(hub: FakeHub, tmp_path: Path) -> None:
    hub.token = CANARY
    added(tmp_path, token=CANARY)
    assert hub.authorizations == {"hub": {f"Bearer {CANARY}"}, "cdn": {None}}


def test_the_token_comes_from_a_file_or_the_hubs_own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "token"
    file.write_text("hf_file\n")
    monkeypatch.setenv("HF_TOKEN", "hf_environment")
    assert (hub_token(file), hub_token(None)) == ("hf_file", "hf_environment")
    with pytest.raises(ConfigError, match=r"SWEEPS_HUB_TOKEN_FILE: .*absent cannot be read"):
        hub_token(tmp_path / "absent")


CARD = b"""---
configs:
- config_name: main
  data_files: [{split: train, path: data/a*}, {split: hard, path: data/b*}]
---
"""


def test_a_dataset_is_fetched_and_converted(hub: FakeHub, tmp_path: Path) -> None:
    rows = b"".join(json.dumps({"question": f"q{n}", "answer": f"so\n#### {n}"}).encode() + b"\n" for n in range(100))
    files = {"data/b.jsonl": b'{"question": "t", "answer": "1"}\n', "data/a.jsonl": rows, "README.md": CARD}
    hub.add("datasets/acme/sums", files | {"notes.pdf": b"x" * LARGE})
    entry = add_hub_dataset("acme/sums@v1", None, tmp_path, "sums", None, Reporter())
    assert (entry.splits, entry.columns) == ({"train": 100, "hard": 1}, ("question", "answer"))
    assert entry.origin.revision == COMMIT
    assert hub.sent_of("notes.pdf") == []
    assert begun(tmp_path, "datasets") == []
    assert {file.name for file in entry_folder(tmp_path, DatasetEntry, "sums").iterdir()} == {
        "catalog.json",
        "train.jsonl",
        "hard.jsonl",
    }
    hub.add("datasets/acme/script", {"script.py": b"raise SystemExit"})
    with pytest.raises(ConfigError, match=r"acme/script@.*: it is made by a script \(script\.py\)"):
        add_hub_dataset("acme/script", None, tmp_path, "script", None, Reporter())


def test_a_server_that_knows_no_ranges_sends_a_file_anew(hub: FakeHub, tmp_path: Path) -> None:
    rows = b"".join(json.dumps({"question": f"q{n}", "answer": n}).encode() + b"\n" for n in range(100))
    hub.add("datasets/acme/sums", {"train.jsonl": rows})
    part = tmp_path / "datasets" / f".sums~{COMMIT}~fetched" / "train.jsonl.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(rows[:1500])
    hub.ranges = False
    assert add_hub_dataset("acme/sums", None, tmp_path, "sums", None, Reporter()).splits == {"train": 100}
    assert hub.sent_of("train.jsonl") == [(0, len(rows))]


@pytest.mark.parametrize("listed", ["{}/train.jsonl", "../../../{}/train.jsonl"])
def test_files_outside_of_their_folder_are_no_files_of_a_dataset(hub: FakeHub, tmp_path: Path, listed: str) -> None:
    outside = tmp_path / "outside"
    path = listed.format(outside if listed.startswith("{") else outside.name)
    hub.add("datasets/acme/odd", {path: b'{"a": 1}\n', "README.md": b"#"})
    with pytest.raises(ConfigError, match="there are no files that end in"):
        add_hub_dataset("acme/odd", None, tmp_path / "cache", "odd", None, Reporter())
    assert not outside.exists()


def test_a_benchmark_comes_from_a_split_of_the_hub(hub: FakeHub, tmp_path: Path) -> None:
    test = b"".join(json.dumps({"problem": f"P{n}", "answer": float(n)}).encode() + b"\n" for n in range(30))
    hub.add("datasets/acme/contest", {"test.jsonl": test, "train.jsonl": b'{"problem": "x", "answer": 1}\n'})
    entry = benchmarks.add_hub("aime24", "acme/contest@v1:test", None, tmp_path, None, Reporter())
    assert (entry.problems, entry.origin.part) == (30, "test")
    found = read_problems("aime24", tmp_path)
    assert (found.problems[3].id, found.problems[3].answer) == ("aime24-0004", "3")
    assert found.origin == f"acme/contest@{COMMIT}:test"
    assert {name for name, _, _ in hub.sent} == {"test.jsonl"}
    with pytest.raises(ConfigError, match="30 problems; math500 has 500"):
        benchmarks.add_hub("math500", "acme/contest:test", None, tmp_path, None, Reporter())
    with pytest.raises(ConfigError, match="it has no split dev; there are test, train"):
        benchmarks.add_hub("own", "acme/contest:dev", None, tmp_path, None, Reporter())
    assert [entry.name for entry in list_entries(tmp_path, BenchmarkEntry)] == ["aime24"]


def test_known_benchmarks_come_from_their_pinned_sources(
    hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub stands in for GitHub: one file lies there, the other one in its storage for large files."""
    rows = [json.dumps({"problem": f"P{n}", "answer": str(n)}) for n in range(500)]
    content = "\n".join(rows).encode()
    asked = list[str]()

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        if "prm800k" in request.url.path and request.url.host == "raw.example":
            digest = hashlib.sha256(content).hexdigest()
            pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {len(content)}\n"
            return httpx.Response(200, text=pointer)
        return httpx.Response(404 if "amc23" in request.url.path else 200, content=content)

    client = httpx.Client(transport=httpx.MockTransport(answer))
    monkeypatch.setattr(httpx, "stream", client.stream)
    monkeypatch.setattr(benchmarks, "RAW", "https://raw.example")
    monkeypatch.setattr(benchmarks, "MEDIA", "https://media.example")
    entry = benchmarks.add_known("math500", tmp_path, Reporter())
    source = KNOWN_BENCHMARKS["math500"].source
    assert source is not None
    path = f"{source.repository}/{source.commit}/{source.path}"
    assert asked == [f"https://raw.example/{path}", f"https://media.example/{path}"]
    assert (entry.problems, entry.origin.repository, entry.origin.revision) == (500, source.repository, source.commit)
    heard = Heard()
    assert benchmarks.add_known("math500", tmp_path, heard) == entry
    assert (heard.said, len(asked)) == (["math500 is in the catalog already"], 2)
    with pytest.raises(ConfigError, match="500 problems; gsm8k has 1319"):
        benchmarks.add_known("gsm8k", tmp_path, Reporter())
    with pytest.raises(ConfigError, match=r"raw\.example answers 404; ask again later, or fetch it elsewhere"):
        benchmarks.add_known("amc23", tmp_path, Reporter())
    monkeypatch.setattr(benchmarks, "_LARGEST", 100)
    with pytest.raises(ConfigError, match="so it is not the benchmark"):
        benchmarks.add_known("hmmt25", tmp_path, Reporter())
    with pytest.raises(ConfigError, match="there is no benchmark 'gsm9k'; from their public sources come aime24"):
        benchmarks.add_known("gsm9k", tmp_path, Reporter())


def command(hub: FakeHub, home: Path, *words: str) -> subprocess.Popen[str]:
    """`sweeps …` in a process of its own, with a token in its environment."""
    own = {"SWEEPS_HOME": str(home), "HF_ENDPOINT": hub.url, "HF_HUB_OFFLINE": "0", "HF_TOKEN": CANARY}
    return subprocess.Popen(
        [sys.executable, "-m", "sweep_service", *words],
        env={**os.environ, **own},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.long
def test_a_killed_command_goes_on_and_never_tells_the_token(hub: FakeHub, tmp_path: Path) -> None:
    large = safetensors({"model.embed_tokens.weight": [1000, 4000]})
    hub.add("models/acme/large", MODEL | {"model.safetensors": large})
    hub.token, hub.stall_after = CANARY, 3_000_000
    first = command(hub, tmp_path, "models", "add", "acme/large")
    part = tmp_path / "cache" / "models" / f".large~{COMMIT}" / "model.safetensors.part"
    wait_until("most has come", lambda: first.poll() or (part.exists() and part.stat().st_size >= 2_900_000))
    first.send_signal(signal.SIGKILL)
    told = [*first.communicate()]
    there = part.stat().st_size
    hub.stall_after, hub.sent[:] = None, []
    second = command(hub, tmp_path, "models", "add", "acme/large", "--json")
    told += second.communicate(timeout=PATIENT_S)
    assert second.returncode == 0, told
    assert json.loads(told[2])["parameters"] == 4_000_000
    assert hub.sent_of("model.safetensors") == [(there, len(large) - there)]
    hub.token = "another"
    third = command(hub, tmp_path, "models", "add", "acme/large", "--name", "again")
    told += third.communicate(timeout=PATIENT_S)
    assert third.returncode == 1
    assert "the Hub does not know the token" in told[5]
    files = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert not any(CANARY in text for text in told)
    assert not any(CANARY.encode() in content for content in files)
