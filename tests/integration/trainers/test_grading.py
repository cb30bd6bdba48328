"""Judging with real children: what math-verify says, what hangs, what dies, and who dies with whom."""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

from tests.sweep_stack import alive, command_of
from tests.waiting import PATIENT_S, wait_until
from trainers.errors import GraderError
from trainers.grading import GraderPool, GradingCounts, Verdict, grader_process
from trainers.grading.grader_process import GraderProcess
from trainers.rewards.math import MathReward
from trainers.tasks.base import Completion, Judgement, Problem

RIGHT, WRONG, LATE = Verdict(equal=True), Verdict(equal=False), Verdict(equal=False, timed_out=True)
HALF = (r"\frac{1}{2}", "0.5")
TOWER = "9^{9^{9^{9}}}"


def script(tmp_path: Path, text: str) -> partial[GraderProcess]:
    """Children that are this program instead: `ready()` and `reply(**fields)` write, `question()` reads."""
    head = """
        import json, os, signal, sys, time
        def write(fields): print(json.dumps(fields), flush=True)
        def ready(): write({"ready": True})
        def question(): return json.loads(sys.stdin.readline())
    """
    file = tmp_path / "child.py"
    file.write_text(textwrap.dedent(head) + textwrap.dedent(text))
    return partial(GraderProcess, command=[sys.executable, str(file)])


READ_ALIKE = [
    ("\N{VULGAR FRACTION ONE HALF}", r"\frac{1}{2}"),
    (r"\sqrt{2}", "\N{SQUARE ROOT}2"),
    ("x\N{SUPERSCRIPT TWO}+1", "1+x^2"),
    ("\N{EN DASH}5", "-5"),
    ("\N{INFINITY}", r"\infty"),
    ("90", "90\N{DEGREE SIGN}"),
    (r"0.\overline{3}", r"\frac{1}{3}"),
    ("\N{FULLWIDTH DIGIT FIVE}", "5"),
]
DIFFERENT = [("0.1234567", "0.1234568"), (r"\frac{1}{40!}", r"\frac{1}{41!}"), ("3\N{SUPERSCRIPT TWO}", "32")]
# where graders differ: docs/tasks.md has this table
CONVENTIONS = [
    (r"5\text{ m}", r"5\text{ cm}", True),
    (r"50\%", "0.5", True),
    ("x=5", "5", True),
    ("5", "y=5", True),
    ("x=5", "y=5", False),
    ("52_8", "52", True),
    (r"\pi", "3.14159265", True),
    (r"\frac{1}{3}", "0.333333", True),
    ("1,1,2", "1,2", True),
    ("(3,4]", r"3<x\le 4", False),
    (r"3<x\le 4", "(3,4]", True),
    ("0.5", "0,5", False),
    ("1234.5", "1.234,5", False),
    ("12345", "12 345", False),
    ("1000", "1e3", False),
    ("B", r"\text{B) } 12", False),
    (r"\text{no solution}", r"\emptyset", False),
]


def children() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "trainers.grading" in command_of(child)]


def wait_until_busy(child: psutil.Process) -> None:
    before = child.cpu_times().user
    wait_until("it judges", lambda: child.cpu_times().user > before + 0.3)


def test_math_reads_golds_and_completions_alike_and_keeps_to_its_conventions() -> None:
    pairs = [(gold, answer, True) for pair in READ_ALIKE for gold, answer in (pair, pair[::-1])]
    pairs += [(gold, answer, False) for pair in DIFFERENT for gold, answer in (pair, pair[::-1])]
    pairs += CONVENTIONS
    reward = MathReward(PATIENT_S)
    try:
        judged = reward.judge(
            [Problem("a prompt", gold) for gold, _, _ in pairs],
            [Completion(rf"So it is \boxed{{{answer}}}.", 9, truncated=False) for _, answer, _ in pairs],
        )
    finally:
        reward.close()
    verdicts = [(gold, answer, judgement.reward) for (gold, answer, _), judgement in zip(pairs, judged, strict=True)]
    assert verdicts == [(gold, answer, float(right)) for gold, answer, right in pairs]


@pytest.mark.parametrize("processes", [1, 2])
def test_math_verify_decides_what_text_does_not(processes: int) -> None:
    cases = {
        HALF: True,
        (r"\frac{1}{2}", "0.49"): False,
        ("5", "x=5"): True,
        ("5", "4,5"): False,
        ("5", r"5 \text{ apples}"): True,
        ("1,2", r"\{2, 1\}"): True,
        (r"2\sqrt{3}", r"\sqrt{12}"): True,
        ("(x+1)^2", "x^2+2x+1"): True,
        ("100200", "100, 200"): False,
        ("16", "2^{2^{2^{1}}}"): True,
        ("5", r"\frac{5}{0}"): False,
        ("5", "\0"): False,
        ("5", "\ud800"): False,
        ("5", "__import__('os')._exit(0)"): False,
    }
    with GraderPool(processes, PATIENT_S) as pool:
        verdicts = pool.grade(list(cases))
        assert dict(zip(cases, [verdict.equal for verdict in verdicts], strict=True)) == cases
        assert len(children()) == processes
        pids = {child.pid for child in children()}
        pool.grade([("7", "x=7")])
        assert {child.pid for child in children()} == pids
    assert children() == []


def test_an_answer_that_hangs_is_wrong_and_the_others_are_judged() -> None:
    pairs = [HALF, ("5", TOWER), (r"\frac{1}{4}", "0.25"), ("5", TOWER)]
    with GraderPool(deadline_s=0.5) as pool:
        started = time.perf_counter()
        assert pool.grade(pairs) == [RIGHT, LATE, RIGHT, LATE]
        assert 0.5 <= time.perf_counter() - started < 60
        assert pool.counts == GradingCounts(verified=2, timed_out=1, cached=1, respawned=1)
    assert children() == []


def test_waiting_for_the_processor_is_not_held_against_an_answer(tmp_path: Path) -> None:
    slow = script(tmp_path, "ready(); time.sleep(1); write({'id': question()['id'], 'equal': True})")
    with GraderPool(deadline_s=0.2, start=slow) as pool:
        assert pool.grade([HALF]) == [RIGHT]


def test_an_answer_that_eats_memory_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grader_process, "MEMORY_LIMIT_BYTES", 100 << 20)
    glutton = script(tmp_path, "ready(); question(); held = b'x' * (200 << 20); time.sleep(600)")
    with GraderPool(start=glutton) as pool:
        assert pool.grade([HALF]) == [LATE]


def test_a_child_that_keeps_memory_is_replaced_after_its_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grader_process, "MEMORY_KEPT_BYTES", 100 << 20)
    text = """
        ready()
        held = b'x' * (200 << 20)
        while True: write({'id': question()['id'], 'equal': True})
    """
    with GraderPool(start=script(tmp_path, text)) as pool:
        assert pool.grade([HALF, ("5", "x=5")]) == [RIGHT, RIGHT]
        assert pool.counts.respawned == 2


def test_a_child_killed_while_it_judges_is_replaced_and_nothing_is_lost() -> None:
    with GraderPool(deadline_s=PATIENT_S) as pool:
        pool.grade([HALF])
        (child,) = children()
        killer = threading.Thread(target=kill_when_busy, args=(child,))
        killer.start()
        # It would take for ever: only after the kill does the answer's second child exceed the deadline.
        pool._deadline_s = 0.5
        assert pool.grade([("5", TOWER), (r"\frac{1}{4}", "0.25")]) == [LATE, RIGHT]
        killer.join()
        assert pool.counts.respawned == 2
        assert pool.counts.failed == 0
    assert children() == []


def kill_when_busy(child: psutil.Process) -> None:
    wait_until_busy(child)
    child.kill()


def test_an_idle_child_that_was_killed_is_replaced() -> None:
    with GraderPool(deadline_s=PATIENT_S) as pool:
        pool.grade([HALF])
        (child,) = children()
        child.kill()
        assert pool.grade([(r"\frac{1}{4}", "0.25")]) == [RIGHT]
        assert pool.counts.respawned == 1


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("ready(); question(); os.kill(os.getpid(), signal.SIGKILL)", r"ended \(exit code -9\)"),
        ("ready(); question(); sys.exit(3)", r"ended \(exit code 3\)"),
        ("os.kill(os.getpid(), signal.SIGTERM)", r"ended \(exit code -15\)"),
        ("ready(); question(); os.close(1); time.sleep(600)", "ended"),
        ("ready(); print('Segmentation fault', flush=True); time.sleep(600)", "'Segmentation fault', which answers no"),
        ("ready(); write({'id': question()['id'] + 1, 'equal': True}); time.sleep(600)", "which answers no question"),
        ("ready(); write({'id': question()['id'], 'equal': 'yes'}); time.sleep(600)", "which answers no question"),
        ("ready(); write({'id': question()['id']}); time.sleep(600)", "which answers no question"),
        ("ready(); write([]); time.sleep(600)", "which answers no question"),
        ("ready(); sys.stdout.buffer.write(b'\\xff' * 300_000); time.sleep(600)", "more than any reply"),
        ("ready(); question(); time.sleep(600)", "no reply for 0.2 s"),
        ("time.sleep(600)", "no reply for 0.2 s"),
    ],
)
def test_a_child_that_fails_twice_leaves_the_answer_undecided(tmp_path: Path, text: str, failure: str) -> None:
    before = set(psutil.Process().children())  # of other tests: a tracker of shared memory, say
    patience_s = 0.2 if "no reply" in failure else 60.0
    with GraderPool(start=partial(script(tmp_path, text), patience_s=patience_s)) as pool:
        (verdict,) = pool.grade([HALF])
        assert verdict.equal is None
        assert re.search(failure, verdict.failure)
        assert pool.counts == GradingCounts(failed=1, respawned=2)
    assert set(psutil.Process().children()) <= before


def test_children_that_cannot_start_end_the_run(tmp_path: Path) -> None:
    broken = GraderPool(start=script(tmp_path, "sys.exit('no such library')"))
    with broken, pytest.raises(GraderError, match="exit code 1, for the reason above"):
        broken.grade([HALF])


def test_gold_answers_that_cannot_be_read_end_the_run() -> None:
    with GraderPool(deadline_s=PATIENT_S) as pool:
        (verdict,) = pool.grade([("&&", "5")])
        assert verdict == Verdict(None, failure="math-verify cannot read the gold answer '&&'")
        with pytest.raises(GraderError, match=r"11 of the last 11 .*cannot read the gold answer '&& 9'"):
            pool.grade([(f"&& {number}", "5") for number in range(20)])
    assert children() == []


def child_of_a_parent(tmp_path: Path, answer: str) -> tuple[subprocess.Popen[str], int]:
    """A parent that has its child judge an answer, and the child's pid."""
    text = f"""
        import sys, time
        from trainers.grading import GraderPool
        pool = GraderPool(deadline_s=600)
        pool.grade([({HALF[0]!r}, {HALF[1]!r})])
        print(pool._idle[0].pid, flush=True)
        pool.grade([("5", {answer!r})])
        time.sleep(600)
    """
    (tmp_path / "parent.py").write_text(textwrap.dedent(text))
    parent = subprocess.Popen([sys.executable, str(tmp_path / "parent.py")], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    return parent, int(parent.stdout.readline())


@pytest.mark.parametrize("answer", ["5", TOWER], ids=["idle", "busy"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_child_dies_with_its_parent(tmp_path: Path, answer: str, number: signal.Signals) -> None:
    parent, pid = child_of_a_parent(tmp_path, answer)
    child = psutil.Process(pid)
    try:
        if answer == TOWER:
            wait_until_busy(child)
        parent.send_signal(number)
        assert parent.wait(PATIENT_S) == -number
        wait_until("the child is gone", lambda: not alive(child))
    finally:
        assert parent.stdout is not None
        parent.stdout.close()
        with suppress(psutil.NoSuchProcess):
            child.kill()


def test_the_lifeline_alone_ends_a_child() -> None:
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "trainers.grading", "--parent-fd", str(reader)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[reader]) as child:
        os.close(reader)
        assert child.stdout is not None
        assert json.loads(child.stdout.readline()) == {"ready": True}
        assert child.poll() is None
        os.close(writer)
        assert child.wait(PATIENT_S) == 5


def test_a_child_can_be_asked_by_hand_and_loads_nothing_of_the_trainer() -> None:
    command = [
        sys.executable,
        "-c",
        "import runpy, sys\n"
        "try: runpy.run_module('trainers.grading', run_name='__main__')\n"
        "finally: print(sorted(sys.modules), file=sys.stderr)",
    ]
    lines = [{"id": 7, "gold": HALF[0], "answer": HALF[1]}, {"id": "b", "gold": "", "answer": "5"}]
    asked = "".join(json.dumps(line) + "\n" for line in lines)
    done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=PATIENT_S, check=True)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"ready": True},
        {"id": 7, "equal": True},
        {"id": "b", "error": "math-verify cannot read the gold answer ''"},
    ]
    for heavy in ("torch", "transformers", "trl", "datasets", "pydantic", "numpy", "trainers.tasks"):
        assert f"'{heavy}'" not in done.stderr


def test_the_reward_judges_the_last_box() -> None:
    texts = {
        r"It is \boxed{3}, no: \boxed{\dfrac{2}{4}}.": Judgement(1.0, correct=True, answer=r"\frac{1}{2}"),
        r"\boxed{ 0.5 }": Judgement(1.0, correct=True, answer=r"\frac{1}{2}"),
        r"\boxed{\frac{1}{3} }": Judgement(0.0, correct=False, answer=r"\frac{1}{3}"),
        rf"\boxed{{{TOWER}}}": Judgement(0.0, correct=False, answer=TOWER, timed_out=True),
        r"The answer is 0.5": Judgement(0.0, correct=False),
        r"\boxed{ }": Judgement(0.0, correct=False),
        r"\boxed{0.5": Judgement(0.0, correct=False),
    }
    reward = MathReward(deadline_s=0.5)
    completions = [Completion(text, tokens=9, truncated=False) for text in texts]
    try:
        judged = reward.judge([Problem("?", HALF[0])] * len(texts), completions)
        (cut,) = reward.judge([Problem("?", HALF[0])], [Completion(r"\boxed{0.5} since", tokens=9, truncated=True)])
        (unknown,) = reward.judge([Problem("?", "&&")], completions[1:2])
    finally:
        reward.close()
    assert dict(zip(texts, judged, strict=True)) == texts
    assert cut.correct
    assert unknown == Judgement(None, correct=False, answer="0.5")
    assert children() == []
