"""The trainer's log-probabilities are those of generation, whatever padding stands before a prompt."""

from pathlib import Path
from typing import Any

import pytest

from tests.integration.trainers.random_models import MODELS, TRAINING, catalog
from tests.integration.trainers.trainer_runs import Run, run
from trainers.config import TrainingConfig, with_params
from trainers.errors import ConfigError
from trainers.policy import load_policy
from trainers.rollouts import logprob_check
from trainers.rollouts.logprob_check import Gap


def trained(
    tmp_path: Path, architecture: str, monkeypatch: pytest.MonkeyPatch, **changes: Any
) -> tuple[Run, list[Gap | None]]:
    """Train a random model for one update; return the run, and the gaps of its check: padding's, generation's."""
    cache, gaps, judged = catalog(tmp_path, architecture), list[Gap | None](), logprob_check.judged

    def seen(*found: Gap | None, exact: bool) -> Any:
        gaps.extend(found)
        return judged(*found, exact=exact)

    monkeypatch.setattr(logprob_check, "judged", seen)
    config = TrainingConfig.model_validate(with_params(TRAINING, changes))
    return run(config, tmp_path / "run", cache), gaps


@pytest.mark.parametrize(
    "architecture",
    [
        "gpt2",
        "qwen2",
        *(pytest.param(name, marks=pytest.mark.long) for name in MODELS if name not in ("gpt2", "qwen2")),
    ],
)
def test_the_trainer_scores_as_generation_draws(
    tmp_path: Path, architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, gaps = trained(tmp_path, architecture, monkeypatch)
    assert done.outcome == "SUCCEEDED"
    assert len(gaps) == 2
    assert all(gap is not None and gap.largest < 1e-5 for gap in gaps), gaps
    assert done.of("warning") == []


def test_a_model_whose_positions_are_wrong_is_refused_with_the_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_policy, "give_positions", lambda _: None)
    with pytest.raises(ConfigError, match=r"differ by up to [\d.]+ nats from those without padding and [\d.]+ nats"):
        trained(tmp_path, "gpt2", monkeypatch)


def test_where_arithmetic_differs_a_remarkable_gap_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_policy, "give_positions", lambda _: None)
    done, _ = trained(tmp_path, "gpt2", monkeypatch, **{"compute.autocast": "bfloat16"})
    (warning,) = done.of("warning")
    assert warning["code"] == "LOGPROBS_DIFFER"
    assert "nats a token from those without padding" in warning["message"]


def test_rounding_to_bfloat16_is_not_remarkable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done, gaps = trained(tmp_path, "qwen2", monkeypatch, **{"compute.autocast": "bfloat16"})
    assert done.of("warning") == []
    assert all(gap is not None and 0 < gap.mean < logprob_check.REMARKABLE_NATS for gap in gaps), gaps
