"""Page, API, command line, MLflow and report tell the same of one sweep, number for number, around every verb."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from html import unescape
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from sweep_service.client import Client
from sweep_service.errors import NotReady
from sweep_service.pages import live_sweeps
from sweep_service.runner.stages import next_records
from sweep_service.sweep.endings import Ending, TrialState
from sweep_service.sweep.records import SweepState
from sweep_service.tracking.mlflow_api import MlflowApi
from sweep_service.tracking.projector import Projector
from sweep_service.verbs import VERBS
from sweep_service.worker.reports.contents import build_report
from tests.integration.api.conftest import Served, Sweeps
from tests.integration.api.played_sweep import claim, record
from tests.integration.tracking.test_projector import carry_all, is_up, mlflow_server, runs
from tests.stored_sweeps import add_missing_evaluations, measure
from tests.sweep_stack import unused_port
from tests.waiting import wait_until

Numbers = dict[str, Any]
"""What one surface tells, by quantity; numbers as they are printed, with three decimals."""
SEEDS: Final = {"tune": [0, 1], "confirm": {"top_k": 1, "seeds": [10, 11]}}
_NOTHING: Final = "\N{EN DASH}"
_NUMBER: Final = r"[+-]?\d+\.\d+"


def shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def of_api(client: Client, sweep_id: str) -> Numbers:
    sweep = client.get(sweep_id)
    trials, scores = list(client.trials(sweep_id)), list(client.benchmark_scores(sweep_id))
    told: Numbers = {
        "state": sweep.state.value,
        "state with the wish": sweep.desired_state.shown(sweep.state),
        "counts": {state.value: number for state, number in sweep.trials.items()},
        "ended": (
            sum(number for state, number in sweep.trials.items() if state.is_over),
            len(trials) + sweep.trials_to_come,
        ),
        "to come": sweep.trials_to_come,
        "trials": {trial.id: (trial.state.value, f"{trial.step}/{trial.total_steps}") for trial in trials},
        "objectives": {trial.id: shown(trial.objective) for trial in trials if trial.state.is_over},
        "tune": {config.id: shown(config.tune_objective) for config in client.configs(sweep_id)},
        "confirm": {config.id: shown(config.confirm_objective) for config in client.configs(sweep_id)},
        "scores": Counter((one.config_id, one.model_step, shown(one.avg_at_k)) for one in scores if one.trial_id),
    }
    with suppress(NotReady):
        best = client.best(sweep_id)
        told["best"] = (best.stage, shown(best.objective))
        told["best config"] = best.config_id
    if (verdict := sweep.verdict) is not None:
        told["verdict"], told["verdict stands"] = verdict.sentence, not (verdict.interim or verdict.outdated)
        compared = (verdict.difference, verdict.low, verdict.high)
        told["compared"] = [f"{value:+.3f}" for value in compared if value is not None]
    return told


def of_page(browser: httpx.Client, sweep_id: str) -> Numbers:
    page = browser.get(f"/sweeps/{sweep_id}").text
    text = " ".join(unescape(re.sub(r"<[^>]*>", " ", page)).split())
    rows = dict(re.findall(r'<tr id="(trl_\w+)">(.*?)</tr>', page, re.DOTALL))
    cells = {
        id_: [re.sub("<[^>]*>", "", cell) for cell in re.findall("<td.*?</td>", row, re.DOTALL)]
        for id_, row in rows.items()
    }
    counts, after = re.search(r'<p class="counts">(.*?)of (.*?)</p>', page, re.DOTALL).groups()  # type: ignore[union-attr]
    numbers = {
        {"waiting": "PENDING"}.get(state, state.upper()): int(number)
        for number, state in re.findall(r"(\d+) ([a-z]+)</span>", counts)
    }
    to_come = re.search(r"(\d+) of them yet to be chosen", after)
    told: Numbers = {
        "state with the wish": re.search(r"<h1>.*?>([A-Z]+)<", page).group(1),  # type: ignore[union-attr]
        "counts": numbers,
        "ended": (
            sum(numbers[state] for state in numbers if TrialState(state).is_over),
            int(after.split()[0]),
        ),
        "to come": int(to_come[1] if to_come else 0),
        "trials": {id_: (one[3].split()[0], one[4].split()[-1]) for id_, one in cells.items()},
        "objectives": {
            id_: one[7].strip().replace(_NOTHING, "-")
            for id_, one in cells.items()
            if TrialState(one[3].split()[0]).is_over
        },
    }
    if best := re.search(rf"Leads.*? ({_NUMBER}), mean over \d+ (\w+) seed", text):
        told["best"] = (best[2], best[1])
    if outcome := re.search(r'<p class="outcome">([A-Z ]*[A-Z])(.*?)</p>\s*<p>(.*?)<a ', page, re.DOTALL):
        sentence = unescape(outcome[3]).strip()
        told["verdict"] = f"{outcome[1]}: {sentence[0].lower()}{sentence[1:]}"
        told["verdict stands"] = not outcome[2].strip()
    return told


def of_command_line(sweeps: Sweeps, sweep_id: str) -> Numbers:
    text = sweeps("show", sweep_id, "--trials").out
    rows = [re.split(r" {2,}", line.strip()) for line in text.splitlines()]
    trials = {row[0]: [cell.split(",")[0] for cell in row] for row in rows if row[0].startswith("trl_")}
    configs = {row[0]: row for row in rows if row[0].startswith("cfg_")}
    ended = re.search(r"trials +(\d+) of (\d+) ended(?:.*, (\d+) yet to be chosen)?", text)
    assert ended
    scores = [
        re.split(r" {2,}", line.strip()) for line in sweeps("benchmarks", "scores", sweep_id).out.splitlines()[1:]
    ]
    told: Numbers = {
        "state with the wish": rows[0][2].split(",")[0],
        "ended": (int(ended[1]), int(ended[2])),
        "to come": int(ended[3] or 0),
        "trials": {id_: (row[5], row[6]) for id_, row in trials.items()},
        "objectives": {id_: row[7] for id_, row in trials.items() if TrialState(row[5]).is_over},
        "tune": {id_: row[3].split()[0] for id_, row in configs.items()},
        "confirm": {id_: row[4].split()[0] for id_, row in configs.items()},
        "mean scores": {(row[0], int(row[3])): row[-1] for row in scores if row[0] in configs and row[3] != "0"},
    }
    if best := re.search(rf"best(?: so far)? .*? ({_NUMBER}), mean over (\w+) seeds", text):
        told["best"] = (best[2], best[1])
    if verdict := re.search(
        r"^  verdict +([A-Z][A-Z ]*: .*?)( \((?:an interim report|the report from before).*)?$", text, re.MULTILINE
    ):
        told["verdict"], told["verdict stands"] = verdict[1], verdict[2] is None
    return told


def of_mlflow(client: MlflowClient, sweep_id: str) -> Numbers:
    every: Sequence[Run] = runs(client, sweep_id)
    (sweep,) = [run for run in every if run.data.tags["kind"] == "sweep"]
    trials = {run.data.tags["trial_id"]: run for run in every if run.data.tags["kind"] == "trial"}
    configs = {run.data.tags["config_id"]: run for run in every if run.data.tags["kind"] == "config"}
    told: Numbers = {
        "state": sweep.data.tags["state"],
        "begun": {id_: run.data.tags["state"] for id_, run in trials.items()},
        "objectives": {
            id_: shown(run.data.metrics.get("final/objective"))
            for id_, run in trials.items()
            if TrialState(run.data.tags["state"]).is_over
        },
        "of final report": {
            (id_, stage): shown(run.data.metrics[f"final/{stage}_mean"])
            for id_, run in configs.items()
            for stage in ("tune", "confirm")
            if f"final/{stage}_mean" in run.data.metrics
        },
        "best of final report": [id_ for id_, run in configs.items() if "best" in run.data.tags],
    }
    if "verdict" in sweep.data.tags:
        told["verdict"] = sweep.data.tags["verdict"]
    return told


def of_report(client: Client, sweep_id: str, *, fresh: bool) -> Numbers:
    """Return what the report tells; of trials only one that is as new as the rows."""
    content, interim, _ = client.report_so_far(sweep_id, "json", timeout_s=0)
    report = json.loads(content)
    told: Numbers = {"verdict": report["verdict"]["sentence"]}
    markdown, page = (client.report_so_far(sweep_id, form, timeout_s=0).content.decode() for form in ("md", "html"))
    outcome, _, rest = told["verdict"].partition(": ")
    assert re.search(rf"\*\*{outcome}\*\*: .{re.escape(rest[1:])}", markdown.replace("\\", ""))
    assert rest.rstrip(".")[1:] in " ".join(unescape(re.sub(r"<[^>]*>", " ", page)).split())
    if compared := report["verdict"]["comparison"]:
        told["compared"] = [
            f"{compared[name]:+.3f}" for name in ("difference", "low", "high") if compared[name] is not None
        ]
    if fresh:
        assert interim == report["interim"]
        configs, trials = report["configs"], report["trials"]
        told |= {
            "counts": Counter(trial["state"] for trial in trials),
            "trials": {one["id"]: (one["state"], f"{one['step']}/{one['total_steps']}") for one in trials},
            "objectives": {one["id"]: shown(one["objective"]) for one in trials if TrialState(one["state"]).is_over},
            "tune": {one["id"]: shown(one["tune"] and one["tune"]["mean"]) for one in configs},
            "confirm": {one["id"]: shown(one["confirm"] and one["confirm"]["mean"]) for one in configs},
        }
        table = [
            [cell.strip() for cell in line.split("|")] for line in markdown.splitlines() if re.match(r"\| \d", line)
        ]
        assert [row[4].split()[0] for row in table] == [
            shown(one) if one else _NOTHING for one in _means(configs, "confirm")
        ]
        if report["best"]:
            told["best config"] = report["best"]["config_id"]
    return told


def _means(configs: Sequence[Mapping[str, Any]], stage: str) -> list[float | None]:
    return [one[stage]["mean"] if one[stage] else None for one in configs]


def disagreements(
    client: Client,
    sweeps: Sweeps,
    browser: httpx.Client,
    mlflow: MlflowClient,
    sweep_id: str,
    moment: str,
    *,
    fresh: bool,
) -> Iterator[str]:
    """Yield each quantity that a surface tells otherwise than the API."""
    told = of_api(client, sweep_id)
    scores: dict[tuple[str, int], list[float]] = {}
    for (config, step, value), number in told.pop("scores").items():
        scores.setdefault((config, step), []).extend([float(value)] * number)
    told["mean scores"] = {key: shown(sum(values) / len(values)) for key, values in scores.items()}
    told["begun"] = {trial.id: trial.state.value for trial in client.trials(sweep_id) if trial.attempts}
    final = client.reports(sweep_id).reports
    if final:
        report = json.loads(client.report(sweep_id, "json", digest=final[0].digest))
        told["best of final report"] = [report["best"]["config_id"]]
        told["of final report"] = {
            (config["id"], stage): shown(config[stage]["mean"])
            for config in report["configs"]
            for stage in ("tune", "confirm")
            if config[stage]
        }
    else:
        told |= {"best of final report": [], "of final report": {}}
    surfaces = {
        "page": of_page(browser, sweep_id),
        "command line": of_command_line(sweeps, sweep_id),
        "MLflow": of_mlflow(mlflow, sweep_id),
    }
    if "verdict" in told:
        surfaces["report"] = of_report(client, sweep_id, fresh=fresh)
    for name, numbers in surfaces.items():
        for quantity, value in numbers.items():
            if quantity == "objectives" and name == "MLflow":
                value = {**told[quantity], **value}
            if value != told.get(quantity):
                yield f"{moment}: {quantity} of {name} are {value}, of the API {told.get(quantity)}"


class Played:
    """A sweep on its course, whose runner and worker this plays."""

    def __init__(self, served: Served, client: Client) -> None:
        self.served, self.client, self.store, self.verbs = served, client, served.store, set[str]()
        training = {"steps": 80, "task": {"name": "word_problems"}}
        self.id = served.submit(training=training, seeds=SEEDS)

    def course(self) -> Iterator[tuple[str, bool]]:
        """Yield each moment of the course, and whether a report of that moment stands."""
        store, trials = self.store, self.store.list_trials(self.id)
        self.fence = claim(store, self.id)
        yield "claimed", False
        self.train(trials[0])
        attempt = store.start_attempt(self.fence, trials[1].id, "/nowhere/{attempt}")
        record(store, self.fence, attempt, trials[1], range(1, 41), 0.4321)
        yield "running", self.report()
        yield self.ask("stop_trial", about=trials[1].id), False
        store.finish_attempt(self.fence, attempt, Ending.STOPPED, None, 3)
        yield "stopped one", self.report()
        yield self.ask("pause"), False
        store.set_sweep_state(self.fence, SweepState.PAUSED)
        store.release_lease(self.fence)
        yield "paused", self.report()
        yield self.ask("resume"), False
        self.fence = claim(store, self.id)
        self.train(trials[2], Ending.FAILED)
        self.train(trials[3], Ending.DIVERGED)
        yield "going on", self.report()
        yield "succeeded", self.to_the_end()
        yield self.ask("retry_trial", about=trials[1].id), False
        yield "tried one again", self.to_the_end()
        yield self.ask("retry_failed"), False
        yield "tried all again", self.to_the_end()
        yield self.ask("extend", {"seeds": {"confirm": {"seeds": [10, 11, 12]}}}), False
        self.fence = claim(store, self.id)
        yield "extended", self.report()
        yield "extended to the end", self.to_the_end()
        yield self.ask("add_benchmarks", {"names": ["arithmetic"], "of": ["all"]}), False
        yield "measured", self.to_the_end()
        yield self.ask("renew_report"), False
        yield "renewed", self.report(final=True)
        self.client.add_benchmarks(self.id, {"names": ["expressions"], "of": ["best"]})
        self.fence = claim(store, self.id)
        yield self.ask("cancel"), False  # what has trained keeps its verdict
        store.set_sweep_state(self.fence, SweepState.FINALIZING)
        yield "about to end", self.report(final=True)
        store.set_sweep_state(self.fence, SweepState.SUCCEEDED)
        yield "ended", False

    def ask(self, verb: str, *body: Any, about: str | None = None) -> str:
        getattr(self.client, verb)(about or self.id, *body)
        self.verbs.add(verb)
        return f"asked for {verb}"

    def train(self, trial: Any, ending: Ending = Ending.SUCCEEDED) -> None:
        attempt = self.store.start_attempt(self.fence, trial.id, "/nowhere/{attempt}")
        last = 40 if ending is Ending.FAILED else 80
        record(self.store, self.fence, attempt, trial, range(1, last + 1), 0.3017 + 0.0137 * (7 * trial.number % 11))
        self.store.finish_attempt(self.fence, attempt, ending, None if ending is Ending.SUCCEEDED else "as planned", 0)

    def to_the_end(self) -> bool:
        """Train and measure what is open, and end the sweep with its report."""
        store = self.store
        if store.get_sweep(self.id).state is not SweepState.RUNNING:
            self.fence = claim(store, self.id)
        while True:
            for trial in store.list_trials(self.id, states=[TrialState.PENDING]):
                self.train(trial)
            rows = store.list_configs(self.id), store.list_trials(self.id), store.curves(self.id, ["eval/avg_at_k"])
            if (more := next_records(store.get_sweep(self.id), *rows)) is None:
                break
            store.add_configs(self.fence, *more)
        for number, evaluation in enumerate(add_missing_evaluations(store, self.fence)):
            measure(store, self.fence, evaluation, {"arithmetic": 1 + number % 3})
        store.set_sweep_state(self.fence, SweepState.FINALIZING)
        self.report(final=True)
        store.set_sweep_state(self.fence, SweepState.SUCCEEDED)
        store.release_lease(self.fence)
        return True

    def report(self, *, final: bool = False) -> bool:
        digest, contents, _ = build_report(self.store, self.id, self.served.service.settings)
        (self.store.put_report if final else self.store.put_interim_report)(self.id, digest, contents)
        return True


@pytest.mark.long
def test_all_surfaces_tell_the_same_before_and_after_each_verb(
    served: Served,
    client: Client,
    visitor: httpx.Client,
    sweeps: Sweeps,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_sweeps, "READ_EVERY_S", 0)
    url = f"http://127.0.0.1:{unused_port()}"
    with mlflow_server(tmp_path, url), closing(Projector(served.store, MlflowApi(url))) as projector:
        wait_until("MLflow answers", lambda: is_up(url))
        played, differences = Played(served, client), list[str]()
        for moment, fresh in played.course():
            carry_all(projector, served.store)
            differences += disagreements(client, sweeps, visitor, MlflowClient(url), played.id, moment, fresh=fresh)
    assert differences == []
    assert played.verbs == {*VERBS, "stop_trial"}
