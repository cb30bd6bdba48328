from pathlib import Path
from typing import Any

import pytest

from sweep_service.nodes.node_facts import NONCE_FILE, code_digest, look
from sweep_service.nodes.node_findings import Finding, Node, judge

GIB = 2**30
HERE: dict[str, Any] = {
    "host": "head",
    "python": "3.11.7",
    "packages": {"torch": "2.13.0", "vllm": None},
    "code": "c0de",
    "storage": {"free": 900 * GIB, "nonce": "n"},
    "cache": {"entries": {"models/qwen": "aa", "datasets/math": "bb"}},
    "gpus": None,
}


def found(node: Node) -> list[Finding]:
    return list(judge([node], HERE, "n", "/shared/storage", "/shared/cache"))


def node(**changes: Any) -> Node:
    return Node("node a", 0.0, HERE | changes, 0.0, "n")


def test_a_node_with_which_nothing_is_wrong_gets_one_line() -> None:
    cards = {"names": ["H100", "H100"], "driver": "570"}
    assert found(node(gpus=cards)._replace(gpus=2.0)) == [
        (
            "node a",
            "ok",
            "storage shared, 900 GiB free in /shared/storage; 2 catalog entries and code as here, 2 x H100",
        )
    ]


def test_a_node_that_runs_no_trial_needs_neither_storage_nor_cache() -> None:
    head = node(storage={"problem": "no such file"}, cache={"problem": "no such file"})._replace(runs_trials=False)
    assert found(head) == [
        ("node a", "ok", "code as here; Ray places no trial there, for it offers no CPU and no GPU"),
    ]
    assert [verdict for _, verdict, _ in found(head._replace(answer={**HERE, "code": "0ther"}))] == ["error"]


@pytest.mark.parametrize(
    ("changed", "verdict", "said"),
    [
        (node(storage={"problem": "[Errno 2] No such file"}), "error", "mount the shared folder there, writable"),
        (node(storage={"free": GIB, "nonce": None}), "error", "is another folder there than here"),
        (node(storage={"free": 9 * GIB, "nonce": "x"}), "error", "does not reach the other whole"),
        (node()._replace(nonce=None), "error", "does not reach the other whole"),
        (node(storage={"free": 4 * GIB, "nonce": "n"}), "warning", "4.0 GiB free; checkpoints need more"),
        (node(cache={"problem": "denied"}), "error", "cache /shared/cache: denied; mount the shared cache"),
        (node(cache={"entries": {"models/qwen": "aa"}}), "error", "datasets/math missing there"),
        (
            node(cache={"entries": {"models/qwen": "zz", "datasets/math": "bb", "models/more": "cc"}}),
            "error",
            "models/qwen not the same there",
        ),
        (node(code="0ther"), "error", "other code than here"),
        (node(packages={"torch": "2.12.0", "vllm": None}), "error", "torch 2.12.0 (here 2.13.0); install"),
        (node(packages={"torch": "2.13.0", "vllm": "0.29.0"}), "error", "vllm 0.29.0 (here none); install"),
        (node(gpus={"problem": "no CUDA"})._replace(gpus=8.0), "error", "Ray counts 8 GPUs and torch cannot look"),
        (
            node(gpus={"names": ["A100"] * 3, "driver": None})._replace(gpus=4.0),
            "error",
            "Ray counts 4 GPUs and torch sees 3 x A100 (driver: not found)",
        ),
        (node()._replace(skew_s=-7.3), "warning", "its clock is at least 7 s behind"),
        (Node("node a", 0.0, "no answer within 120 s"), "error", "no answer within 120 s"),
    ],
)
def test_each_fault_is_told_with_its_remedy(changed: Node, verdict: str, said: str) -> None:
    ((name, found_verdict, detail),) = found(changed)
    assert (name, found_verdict) == ("node a", verdict)
    assert said in detail


def test_all_faults_of_a_node_are_told_at_once() -> None:
    assert len(found(node(code="0ther", cache={"problem": "denied"}, storage={"problem": "gone"}))) == 3


def test_a_look_reads_the_askers_file_and_leaves_its_own(tmp_path: Path) -> None:
    (tmp_path / "meeting").mkdir()
    (tmp_path / "meeting" / NONCE_FILE).write_text("secret")
    entry = tmp_path / "cache" / "models" / "qwen"
    entry.mkdir(parents=True)
    (entry / "catalog.json").write_text('{"digest": "aa"}')
    seen = look(str(tmp_path), str(tmp_path / "cache"), "meeting", "me", gpus=False)
    assert seen["storage"]["nonce"] == "secret"
    assert seen["cache"] == {"entries": {"models/qwen": "aa"}}
    assert seen["code"] == code_digest()
    assert {file.name for file in (tmp_path / "meeting").iterdir()} == {NONCE_FILE, "me"}
    assert (tmp_path / "meeting" / "me" / NONCE_FILE).read_text() == "secret"
    elsewhere = look(str(tmp_path), str(tmp_path / "nowhere"), "another", "me", gpus=False)
    assert elsewhere["storage"]["nonce"] is None
    assert "No such file" in elsewhere["cache"]["problem"]
