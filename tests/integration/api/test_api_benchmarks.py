"""A sweep's benchmarks over HTTP and by the client: evaluations, scores, problems, completions."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from sweep_service.client import Client
from sweep_service.errors import Conflict, InvalidSpec
from sweep_service.report.build import build
from sweep_service.settings import Settings
from sweep_service.store import Fence
from sweep_service.sweep.added_benchmarks import BenchmarksRequest
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.records import Evaluation, SweepState
from sweep_service.worker.reports.contents import gather
from tests.integration.api.conftest import Served, Sweeps
from tests.integration.api.played_sweep import SPEC, claim, finish, play
from tests.integration.api.test_api_paging import walk
from tests.stored_sweeps import add_missing_evaluations, benchmark_event, one_attempt

NAMES = ["arithmetic", "expressions"]
MEASURED: dict[str, Any] = {"benchmarks": {"names": NAMES, "of": "all", "samples": 4}}


def measure(served: Served, fence: Fence, evaluation: Evaluation) -> None:
    """Play the process that measures one model: one more right sample with each optimizer update, up to four."""
    events = [benchmark_event(name, min(4, evaluation.model_step)) for name in NAMES]
    one_attempt(served.store, fence, evaluation.id, Ending.SUCCEEDED, events, more_held_s=9.0)


@pytest.fixture
def sweep_id(served: Served) -> str:
    """A sweep whose trials have ended and whose models are measured; the last trial diverged."""
    fence = play(served.store, served.submit(**MEASURED))
    for evaluation in add_missing_evaluations(served.store, fence):
        measure(served, fence, evaluation)
    return fence.sweep_id


def in_pages(served: Served, path: str) -> list[dict[str, Any]]:
    """Return all that a path lists, asked for in pages of three."""
    return [item for page in walk(served, path, page_size=3) for item in page]


def test_evaluations_are_listed_with_their_models(served: Served, client: Client, sweep_id: str) -> None:
    listed = list(client.evaluations(sweep_id))
    trained = [trial.id for trial in client.trials(sweep_id) if trial.state == "SUCCEEDED"]
    assert [evaluation.trial_id for evaluation in listed] == [None, *trained]
    assert {(evaluation.state, evaluation.step, evaluation.held_s) for evaluation in listed} == {("SUCCEEDED", 2, 9.0)}
    assert [evaluation.model_step for evaluation in listed] == [0] + [80] * len(trained)
    paged = in_pages(served, f"/v1/sweeps/{sweep_id}/evaluations")
    assert [row["id"] for row in paged] == [evaluation.id for evaluation in listed]


def test_scores_are_listed_in_pages_and_as_csv(served: Served, client: Client, sweep_id: str) -> None:
    scores = list(client.benchmark_scores(sweep_id))
    assert [score.benchmark for score in scores] == NAMES * (len(scores) // 2)
    initial, trained = scores[0], scores[2]
    assert (initial.trial_id, initial.seed, initial.model_step, initial.avg_at_k) == (None, None, 0, 0.0)
    assert (trained.seed, trained.model_step, trained.avg_at_k, trained.samples, trained.problems) == (0, 80, 0.5, 4, 2)
    assert trained.pass_at_k == {1: 0.5, 2: 1.0, 4: None}
    assert (trained.majority_at_k, trained.truncated_share, trained.failed_share) == (0.5, 0.125, 0.125)
    assert (trained.sampling_se, trained.problem_se, trained.tokens_mean) == (0.01, 0.02, 6.0)
    assert trained.time_utc == "1970-01-01T00:00:50.000Z"
    paged = in_pages(served, f"/v1/sweeps/{sweep_id}/benchmarks")
    assert [(row["evaluation_id"], row["benchmark"]) for row in paged] == [
        (score.evaluation_id, score.benchmark) for score in scores
    ]
    rows = list(csv.DictReader(io.StringIO(client.benchmarks_csv(sweep_id))))
    assert len(rows) == len(scores)
    assert [float(row["avg_at_k"]) for row in rows] == [score.avg_at_k for score in scores]
    assert (rows[2]["pass_at_k.2"], rows[2]["pass_at_k.4"], rows[0]["trial_id"]) == ("1.0", "", "")
    assert (rows[2]["sampling_se"], rows[2]["problem_se"], rows[2]["tokens_mean"]) == ("0.01", "0.02", "6.0")


def test_problems_are_listed_by_model_and_as_csv(served: Served, client: Client, sweep_id: str) -> None:
    problems = list(client.benchmark_problems(sweep_id, "expressions"))
    assert [(row.problem, row.judged, row.right) for row in problems[2:4]] == [("one", 4, 4), ("two", 3, 0)]
    paged = in_pages(served, f"/v1/sweeps/{sweep_id}/benchmarks/expressions/problems")
    assert paged == [row.model_dump() for row in problems]
    rows = list(csv.DictReader(io.StringIO(client.benchmarks_csv(sweep_id, "expressions"))))
    assert [row["right"] for row in rows] == [str(problem.right) for problem in problems]
    assert list(client.benchmark_problems(sweep_id, "aime24")) == []


def test_completions_of_a_model_stay_on_one_page(served: Served, client: Client, sweep_id: str) -> None:
    samples = list(client.benchmark_samples(sweep_id, "arithmetic"))
    assert {(sample.prompt, sample.completion, sample.correct) for sample in samples} == {("2=", "1+1", True)}
    assert len(samples) == 2 * len(list(client.evaluations(sweep_id)))
    page = served.get(f"/sweeps/{sweep_id}/benchmarks/arithmetic/samples", page_size=1)
    assert len(page["items"]) == 2
    assert page["next_page_token"]


def test_the_report_has_the_stored_scores_in_its_table(served: Served, sweep_id: str, tmp_path: Path) -> None:
    inputs = gather(served.store, sweep_id, Settings(home=tmp_path))
    assert len(inputs.benchmark_results) == 2 * len(inputs.evaluations) > 2
    assert sum(work.held_s for work in inputs.spent.begun if work.measures) == 9.0 * len(inputs.evaluations)
    found = build(inputs).benchmarks
    assert found is not None
    assert [column.benchmark for column in found.columns] == [*NAMES, None]
    initial, trained = found.rows[:2]
    assert [cell and (cell.mean, cell.num_seeds, cell.k) for cell in initial.cells] == [
        (0, 1, 4),
        (0, 1, 4),
        (0, 1, None),
    ]
    assert [cell and cell.mean for cell in trained.cells] == [0.5, 0.5, 0.5]
    assert sum(row.missing.get("diverged", 0) for row in found.rows) == 1


def test_a_sweep_without_benchmarks_lists_none(served: Served, client: Client) -> None:
    sweep = client.submit(SPEC)
    assert list(client.evaluations(sweep.id)) == list(client.benchmark_scores(sweep.id)) == []
    assert client.benchmarks_csv(sweep.id).startswith("evaluation_id,evaluation_number,trial_id")


def test_the_command_writes_scores_and_problems_as_csv_and_json(client: Client, sweeps: Sweeps, sweep_id: str) -> None:
    assert sweeps("benchmarks", "scores", "--csv").out == client.benchmarks_csv(sweep_id)
    problems = sweeps("benchmarks", "scores", sweep_id, "--problems", "expressions").out
    assert problems == client.benchmarks_csv(sweep_id, "expressions")
    rows = json.loads(sweeps("benchmarks", "scores", "--json").out)
    assert [row["avg_at_k"] for row in rows] == [score.avg_at_k for score in client.benchmark_scores(sweep_id)]


PLAIN: dict[str, Any] = {"training": {"steps": 80, "task": {"name": "word_problems"}}}


def ended(served: Served) -> str:
    """Return the id of a sweep that has SUCCEEDED and named no benchmarks."""
    sweep_id = served.succeeded(**PLAIN)
    served.store.release_lease(Fence(sweep_id, 1))
    return sweep_id


def test_what_was_not_measured_is_tried_again_with_all_that_was_added(served: Served, client: Client) -> None:
    sweep_id, store, of = ended(served), served.store, ["baseline"]
    client.add_benchmarks(sweep_id, {"names": ["arithmetic"], "of": of})
    fence = claim(store, sweep_id)
    add_missing_evaluations(store, fence)
    for number, name in enumerate(("arithmetic", "expressions"), 1):
        finish(store, fence)
        store.release_lease(fence)
        assert {one.state for one in client.evaluations(sweep_id)} == {"CANCELLED"}
        view = client.add_benchmarks(sweep_id, {"names": [name], "of": of})
        assert (view.state, len(view.added_benchmarks)) == (SweepState.QUEUED, number)
        again = {(one.state.value, one.total_steps) for one in client.evaluations(sweep_id)}
        assert again == {("PENDING", number)}
        fence = claim(store, sweep_id)


def test_what_has_been_measured_is_not_measured_again(served: Served, client: Client, sweep_id: str) -> None:
    fence = Fence(sweep_id, served.store.get_sweep(sweep_id).epoch)
    finish(served.store, fence)
    served.store.release_lease(fence)
    asked = {"names": NAMES, "of": ["all"], "samples": 4}
    assert client.add_benchmarks(sweep_id, asked).state is SweepState.SUCCEEDED
    assert client.get(sweep_id).added_benchmarks == ()


def test_benchmarks_are_never_added_to_a_sweep_that_will_not_succeed(served: Served, client: Client) -> None:
    sweep_id = served.submit(**PLAIN)
    client.cancel(sweep_id)
    with pytest.raises(Conflict, match=r"is CANCELLED: .* export a checkpoint"):
        client.add_benchmarks(sweep_id, {"names": ["arithmetic"]})


def test_other_benchmarks_wait_until_those_that_were_added_are_measured(served: Served, client: Client) -> None:
    sweep_id = ended(served)
    (added,) = client.add_benchmarks(sweep_id, BenchmarksRequest(names=("arithmetic",), samples=4)).added_benchmarks
    assert (added.names, added.samples, len(added.trials)) == (("arithmetic",), 4, 4)
    with pytest.raises(InvalidSpec):  # other samples
        client.add_benchmarks(sweep_id, {"names": ["arithmetic"], "samples": 8})
    with pytest.raises(Conflict, match="is QUEUED, for other benchmarks are being measured"):
        client.add_benchmarks(sweep_id, {"names": ["arithmetic"], "of": ["all"]})  # sampled as before
    assert served.store.list_evaluations(sweep_id) == []  # the runner makes them
