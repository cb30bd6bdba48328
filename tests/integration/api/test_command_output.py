"""The whole output of commands and page for sweeps in every situation, held against golden files."""

import html
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from sweep_service.sweep.endings import Ending
from sweep_service.sweep.records import SweepState
from tests.golden import matches_golden
from tests.integration.api.conftest import Served, Sweeps
from tests.integration.api.played_sweep import REPORT, SPEC, claim, finish, play
from tests.model_folders import model_files, write_model
from tests.stored_sweeps import add_missing_evaluations, ingest, measure, one_attempt, warning_event
from trainers.config import with_params


def nothing(_served: Served) -> Iterator[str]:
    yield from (
        "ls",
        "ls --state running",
        "ls --state DONE",
        "ls nothing",
        "show",
        "show nothing",
        "stop nothing",
        "logs nothing",
    )


def wrong_files(served: Served) -> Iterator[str]:
    wrong = {
        "not_yaml": "a: [",
        "twice": "a: 1\na: 2",
        "code": "a: !!python/name:os.system",
        "empty": "# nothing yet\n",
        "refused": "name: A\nbudget: 1\nspace: {loss.beta1: [0, 1e-5]}\n",
        "labels": yaml.safe_dump(SPEC | {"labels": ["rl"]}),
        "near": yaml.safe_dump(SPEC | {"space": {"optimizer.learning_rate": [0.001, 0.0010000001]}}),
    }
    for name, text in wrong.items():
        (served.service.settings.home / f"{name}.yaml").write_text(text)
        yield f"plan {name}.yaml"
    yield from ("submit refused.yaml", "submit missing.yaml", "plan")


def waiting(served: Served) -> Iterator[str]:
    served.submit()
    yield from ("plan spec.yaml", "ls", "show", "best", "report --timeout 0", "watch --timeout 0", "benchmarks scores")


def ended(served: Served) -> Iterator[str]:
    served.succeeded(space={"loss.beta1": [0.0, 0.5], "loss.epsilon": 0.2})
    yield from ("ls", "show --trials", "best", "watch", "report --format md", "report --list", "report --digest x")


def running_without_report(served: Served) -> Iterator[str]:
    play(served.store, served.submit())
    yield from ("show", "best", "report --list")


def with_an_interim_report(served: Served) -> Iterator[str]:
    sweep_id = served.submit()
    claim(served.store, sweep_id)
    served.store.put_interim_report(sweep_id, "one", REPORT)
    yield from ("show", "report --format md", "report --format md --final --timeout 0")


def without_a_report_for_it_failed(served: Served) -> Iterator[str]:
    sweep_id = served.submit()
    finish(served.store, play(served.store, sweep_id), SweepState.FAILED)
    served.store.set_report_failure(sweep_id, "out of memory")
    yield from ("show", "best", "watch", "report")


def extended_after_its_end(served: Served) -> Iterator[str]:
    served.service.extend(served.succeeded(), {"seeds": {"tune": [0, 1, 2]}})
    yield from ("show", "best")


def behind_the_baseline(served: Served) -> Iterator[str]:
    play(served.store, served.submit(space={"loss.beta1": [0.5, 1.0], "loss.beta2": 1.0}))
    yield from ("show", "best")


def with_equal_configs(served: Served) -> Iterator[str]:
    finish(served.store, play(served.store, served.submit(), level=0.7))
    yield from ("show", "best")


def failed_before_any_result(served: Served) -> Iterator[str]:
    finish(served.store, claim(served.store, served.submit()), SweepState.FAILED)
    yield from ("show", "best", "watch")


def with_failures_and_warnings(served: Served) -> Iterator[str]:
    sweep_id, store = served.submit(), served.store
    fence = claim(store, sweep_id)
    late, dead, *warned = store.list_trials(sweep_id)
    for trial, ending in ((late, Ending.TIMED_OUT), (dead, Ending.CRASHED)):
        one_attempt(store, fence, trial.id, ending, max_crashes=0, message="why")
    for step, trial in enumerate(warned[:2], 4):
        attempt = store.start_attempt(fence, trial.id, "/nowhere")
        ingest(store, fence, attempt, [warning_event("BETAS_NEARLY_INERT", step)])
    yield "show"
    finish(store, fence, SweepState.CANCELLED)
    yield from ("show", "watch")


def with_a_budget(served: Served) -> Iterator[str]:
    limits = {"resources": {"gpus": 2}, "budget": {"max_trial_hours": 1, "max_gpu_hours": 12}, "probe": "off"}
    changes = limits | {"training": SPEC["training"] | {"device_batch": 32}}
    (served.service.settings.home / "limited.yaml").write_text(yaml.safe_dump(SPEC | changes))
    sweep_id, store = served.submit(**changes), served.store
    fence = claim(store, sweep_id)
    store.set_held(fence, store.start_attempt(fence, store.list_trials(sweep_id)[0].id, "/nowhere"), 900)
    yield from ("plan limited.yaml", "show")
    store.request_pause(sweep_id)
    yield "ls"


def compared(served: Served) -> Iterator[str]:
    for name, temperature in (("first", 1.0), ("second", 1.0), ("warmer", 1.2)):
        training = with_params(SPEC["training"], {"rollout.temperature": temperature})
        served.succeeded(name=name, training=training)
    yield from ("compare first second", "compare first warmer", "compare first")


def with_a_catalog(served: Served) -> Iterator[str]:
    home = served.service.settings.home
    write_model(home / "tiny", model_files(chat=True))
    (home / "empty").mkdir()
    (home / "sums.jsonl").write_text('{"question": "1+1?", "answer": "so #### 2", "Worked solution": "2 + 8"}\n' * 3)
    (home / "boxed.json").write_text(json.dumps([{"text": "1+1?", "solution": "so \\boxed{2}"}]))
    chat = [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]
    (home / "chats.json").write_text(json.dumps([{"messages": chat}]))
    for name, number in (("five", 5), ("exam", 2)):
        problems = "".join(f"{n}+{n}?,{2 * n}\n" for n in range(number))
        (home / f"{name}.csv").write_text(f"problem,answer\n{problems}")
    yield from ("models ls", "models add ./tiny --name mine", "models ls", "models show mine", "models show nothing")
    yield from ("models add ./empty --name x", "models add ./empty")
    yield from ("datasets add ./sums.jsonl --name sums", "datasets show sums")
    yield from ("datasets add ./boxed.json --name boxed", "datasets show boxed", "datasets show nothing")
    yield from ("datasets add ./chats.json --name chats", "datasets show chats")
    yield from ("benchmarks add aime24=./five.csv", "benchmarks add exam=./exam.csv", "benchmarks show exam")
    yield "benchmarks ls"


def measured_on_benchmarks(served: Served) -> Iterator[str]:
    names, store = ["arithmetic", "expressions"], served.store
    sweep_id = served.submit(benchmarks={"names": names, "of": "all", "samples": 4})
    yield "benchmarks scores"
    fence = play(store, sweep_id)
    first, gone, *others = add_missing_evaluations(store, fence)
    yield "benchmarks scores"  # no table without a score
    measure(store, fence, first, dict.fromkeys(names, 0))
    store.end_waiting(fence, Ending.FAILED, "the weights of its trial are gone", gone.id)
    yield "benchmarks scores"
    for right, evaluation in enumerate(others):
        measure(store, fence, evaluation, dict.fromkeys(names, right % 5))
    finish(store, fence)
    store.release_lease(fence)
    served.service.add_benchmarks(sweep_id, {"names": names, "of": ["baseline"]})
    finish(store, claim(store, sweep_id))
    yield from ("benchmarks scores", "watch")


SITUATIONS = (
    nothing,
    wrong_files,
    waiting,
    ended,
    running_without_report,
    with_an_interim_report,
    without_a_report_for_it_failed,
    extended_after_its_end,
    behind_the_baseline,
    with_equal_configs,
    failed_before_any_result,
    with_failures_and_warnings,
    with_a_budget,
    compared,
    with_a_catalog,
    measured_on_benchmarks,
)


def same_every_day(text: str, served: Served) -> str:
    """Return what was printed with numbered ids, without times, digests, port, widths and whole configs."""
    numbers = dict[str, str]()

    def number(id_: re.Match[str]) -> str:
        return numbers.setdefault(id_[0], f"{id_[1]}_{len(numbers)}")

    text = text.replace(str(served.service.settings.home), "HOME").replace(served.url, "http://HOST")
    text = re.sub(r"\b(20\d\d-\d\d-\d\d[T ])?\d\d:\d\d(:\d\d)?\b", "TIME", text)
    text = re.sub(r"\b\d+(\.\d+)? (s|min)\b", "N s", text)
    text = re.sub(r"\b(swp|trl|cfg|evl)_[0-9a-z]{12,26}\b", number, text)
    text = re.sub(r"\b[0-9a-f]{64}\b", "DIGEST", text)
    text = re.sub(r"^task:\n(.+\n)*?keep_best: .*$", "(the config as YAML)", text, flags=re.MULTILINE)
    return "\n".join(re.sub(r"  +", "  ", line).rstrip() for line in text.splitlines())


def page_of(served: Served, sweep_id: str) -> str:
    """Return what a sweep's page says, without its marks."""
    with served.browser() as http:
        http.post("/login", data={"token": served.token})
        page = http.get(f"/sweeps/{sweep_id}").text
    _, _, main = page.partition("<main")
    main = " ".join(re.sub(r"^[^>]*>|<svg.*?</svg>", "", main, flags=re.DOTALL).split())
    main = re.sub(r"</(p|div|h\d|li|tr|form|button|a|summary|section|label|title)>", "\n", main)
    words = html.unescape(re.sub(r"<[^>]*>", " ", main))
    return "\n".join(line for line in (" ".join(line.split()) for line in words.splitlines()) if line)


@pytest.mark.usefixtures("spec")
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.__name__)
def test_commands_and_page_say(served: Served, sweeps: Sweeps, situation: Callable[[Served], Iterator[str]]) -> None:
    printed = list[str]()
    for command in situation(served):
        ran = sweeps(*command.split())
        printed += [f"$ sweeps {command}", ran.out, ran.err, f"exit code {ran.code}\n"]
    for sweep in served.store.list_sweeps(1):
        printed += ["# The page", page_of(served, sweep.id)]
    text = re.sub(r"\n{3,}", "\n\n", same_every_day("\n".join(printed), served)) + "\n"
    matches_golden(Path(__file__).parent / "golden" / f"commands_{situation.__name__}.txt", text)
