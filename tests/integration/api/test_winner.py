"""Whoever names the best config says beside it what the report's verdict is, or that it is still to come."""

import json
import re
from collections.abc import Callable

import pytest
import yaml

from sweep_service.client import Client
from sweep_service.sweep.records import SweepState
from tests.integration.api.conftest import Served, Sweeps
from tests.integration.api.played_sweep import REPORT, SPEC, VERDICT, claim, finish, play

COMING = "there is no report yet to say how sure this is"
EQUAL = "all 4 configs have exactly the same objective, so none is the best"


@pytest.fixture
def played(served: Served) -> Callable[..., str]:
    """Play a sweep to its last trial, and with `ended` to its end."""

    def run(*, ended: bool = True, level: float | None = None) -> str:
        sweep_id = served.service.submit(SPEC)[0].id
        fence = play(served.store, sweep_id, level)
        if ended:
            finish(served.store, fence)
        return sweep_id

    return run


def test_the_answer_has_the_verdict_with_its_figures(
    served: Served, client: Client, played: Callable[..., str]
) -> None:
    sweep_id = played()
    best = served.http.get(f"/v1/sweeps/{sweep_id}/best").json()
    found = best["verdict"]
    assert {name: found[name] for name in ("outcome", "sentence", "interim")} == {
        "outcome": "UNDECIDED",
        "sentence": VERDICT["sentence"],
        "interim": False,
    }
    assert {name: found[name] for name in VERDICT["comparison"]} == VERDICT["comparison"]
    assert (best["equal"], best["configs"]) == (2, 4), "the baseline has the same"
    assert served.http.get(f"/v1/sweeps/{sweep_id}").json()["verdict"] == found
    assert client.best(sweep_id).verdict == client.get(sweep_id).verdict
    assert client.get(sweep_id).verdict is not None


def test_without_a_report_the_verdict_is_still_to_come(
    served: Served, sweeps: Sweeps, played: Callable[..., str]
) -> None:
    sweep_id = played(ended=False)
    assert served.http.get(f"/v1/sweeps/{sweep_id}/best").json()["verdict"] is None
    for said in (sweeps("best").out, sweeps("best").err, sweeps("show").out):
        assert COMING in " ".join(said.split())
    assert "best so far" in sweeps("show").out


def test_an_interim_verdict_is_told_as_one(served: Served, sweeps: Sweeps) -> None:
    sweep_id = served.service.submit(SPEC)[0].id
    claim(served.store, sweep_id)
    served.store.put_interim_report(sweep_id, "one", REPORT)
    assert served.http.get(f"/v1/sweeps/{sweep_id}").json()["verdict"]["interim"] is True
    assert re.search(r"4 confirm seeds\. \(an interim report, \d+ s old\)", sweeps("show").out)


def test_a_report_that_could_not_be_built_is_not_waited_for(served: Served, sweeps: Sweeps) -> None:
    sweep_id = served.service.submit(SPEC)[0].id
    finish(served.store, play(served.store, sweep_id), SweepState.FAILED)
    served.store.set_report_failure(sweep_id, "out of memory")
    for said in (sweeps("show").out, sweeps("best").out, sweeps("watch").err):
        assert "the report could not be built: out of memory" in " ".join(said.split())


def test_the_verdict_from_before_an_extension_is_told_as_that(served: Served, sweeps: Sweeps) -> None:
    sweep_id = served.service.submit(SPEC)[0].id
    finish(served.store, play(served.store, sweep_id))
    assert served.http.get(f"/v1/sweeps/{sweep_id}").json()["verdict"]["outdated"] is False
    served.service.extend(sweep_id, {"seeds": {"tune": [0, 1, 2]}})
    assert served.http.get(f"/v1/sweeps/{sweep_id}").json()["verdict"]["outdated"] is True
    said = " ".join(sweeps("show").out.split())
    assert re.search(r"\(the report from before the sweep went on, \d+ s old; a new one comes at its end\)", said)
    assert "# before the sweep went on: UNDECIDED" in sweeps("best").out


def test_a_best_config_that_is_behind_the_baseline_is_told_with_it(served: Served, sweeps: Sweeps) -> None:
    sweep_id = served.service.submit(SPEC | {"space": {"loss.beta1": [0.5, 1.0], "loss.beta2": 1.0}})[0].id
    play(served.store, sweep_id)
    best = served.http.get(f"/v1/sweeps/{sweep_id}/best").json()
    assert best["baseline_objective"] > best["objective"]
    for said in (sweeps("best").out, sweeps("show").out):
        assert f"but the baseline has {best['baseline_objective']:.4f}, which is more" in " ".join(said.split())


@pytest.mark.usefixtures("served")
def test_the_command_line_names_no_winner_without_its_verdict(sweeps: Sweeps, played: Callable[..., str]) -> None:
    sweep_id = played()
    for said in (sweeps("watch").err, sweeps("show").out, sweeps("best").out, sweeps("best").err):
        assert VERDICT["sentence"] in " ".join(said.split())
    assert "beta1=0" in sweeps("watch").err
    assert yaml.safe_load(sweeps("best").out)["loss"]["beta1"] == 0
    shown = json.loads(sweeps("show", "--json").out)
    assert shown["best"]["verdict"]["outcome"] == shown["sweep"]["verdict"]["outcome"] == "UNDECIDED"
    assert json.loads(sweeps("watch", sweep_id, "--json").out)["verdict"]["sentence"] == VERDICT["sentence"]


@pytest.mark.parametrize("level", [0.0, pytest.param(0.7, marks=pytest.mark.long)])
def test_configs_that_are_all_equal_have_no_best_one(
    served: Served, sweeps: Sweeps, played: Callable[..., str], level: float
) -> None:
    sweep_id = played(level=level)
    best = served.http.get(f"/v1/sweeps/{sweep_id}/best").json()
    assert (best["equal"], best["configs"], best["objective"]) == (4, 4, pytest.approx(level))
    for said in (sweeps("watch").err, sweeps("show").out, sweeps("best").out):
        assert EQUAL in " ".join(said.split())
    assert "beta1=0 beta2=1  eval" not in sweeps("watch").err


def test_a_sweep_that_failed_has_a_verdict_and_no_best(served: Served, sweeps: Sweeps) -> None:
    sweep_id = served.service.submit(SPEC)[0].id
    finish(served.store, claim(served.store, sweep_id), SweepState.FAILED)
    shown = sweeps("show").out
    assert COMING in " ".join(shown.split())
    assert "best" not in shown.split()
    assert json.loads(sweeps("show", sweep_id, "--json").out)["best"] is None
