from pathlib import Path
from typing import Any

import pytest

from trainers.config import TrainingConfig
from trainers.errors import CheckpointError
from trainers.policy.checkpoints import (
    KeptFolders,
    carry_best,
    find_best,
    kept_folders,
    newest,
    publish,
    publish_best,
    read_state,
    run_config,
    steps_saved,
    write_state,
)

EVALUATION = TrainingConfig().evaluation


def publish_step(output: Path, step: int, config: TrainingConfig | None = None, kept: int = 2) -> Path:
    unfinished = output / ".unfinished" / f"checkpoint-{step}"
    unfinished.mkdir(parents=True)
    (unfinished / "weights").write_text(f"weights of {step}", encoding="utf-8")
    write_state(unfinished, config or TrainingConfig(), {"step": step})
    return publish(unfinished, output, step, kept)


@pytest.mark.parametrize(("kept", "left"), [(1, [16]), (2, [16, 160]), (3, [16, 80, 160])])
def test_so_many_are_kept_as_asked_with_the_last_published_among_them(
    tmp_path: Path, kept: int, left: list[int]
) -> None:
    assert newest(tmp_path / "nothing") is newest(tmp_path) is None
    for step in (8, 80, 160, 16):
        path = publish_step(tmp_path, step, kept=kept)
    assert sorted(steps_saved(tmp_path)) == left
    assert newest(tmp_path) == tmp_path / f"step-{left[-1]}"
    assert (path / "weights").read_text(encoding="utf-8") == "weights of 16"


def test_a_checkpoint_made_again_leaves_the_first(tmp_path: Path) -> None:
    first = publish_step(tmp_path, 8)
    (first / "weights").write_text("of the first", encoding="utf-8")
    publish_step(tmp_path, 8)
    assert steps_saved(tmp_path) == [8]
    assert (first / "weights").read_text(encoding="utf-8") == "of the first"
    assert list((tmp_path / ".unfinished").iterdir()) == []


EVALUATED_OTHERWISE = {"samples_per_problem": 64}


@pytest.mark.parametrize("changes", [{"steps": 16}, {"steps": 960}, {"evaluation": EVALUATED_OTHERWISE}])
def test_state_is_given_back_to_the_same_run_also_if_it_is_longer_or_evaluated_otherwise(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    path = publish_step(tmp_path, 16)
    assert read_state(path, TrainingConfig.model_validate(changes)) == {"step": 16}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"seed": 1},
            r"seed 0 \(now 1\); only checkpoint_every_rollouts, evaluation, keep_best, kept_checkpoints, steps",
        ),
        (
            {"loss": {"name": "ce_gppo", "beta1": 0.25}, "optimizer": {"learning_rate": 0.1}},
            r"made with loss.beta1 0.5 \(now 0.25\), optimizer.learning_rate 0.0002 \(now 0.1\); only",
        ),
        ({"loss": {"name": "kl_cov"}}, r"loss.name 'ce_gppo' \(now 'kl_cov'\).*loss.beta1 0.5 \(now not set\)"),
        # frozen completions are as many as when the run began
        ({"evaluation": EVALUATED_OTHERWISE | {"probe_completions": 8}}, r"evaluation.probe_completions 32 \(now 8\)"),
        ({"steps": 8}, "step-16 is past steps 8; raise steps to 16 or more"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused_with_every_setting_that_differs(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    path = publish_step(tmp_path, 16)
    with pytest.raises(CheckpointError, match=reason):
        read_state(path, TrainingConfig.model_validate(changes))


def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="not a complete checkpoint"):
        read_state(tmp_path, TrainingConfig())


def keep(output: Path, step: int, value: float, **evaluation: float) -> Path:
    unfinished = output / ".unfinished" / f"best-{step}"
    unfinished.mkdir(parents=True)
    (unfinished / "weights").write_text(f"weights of {step}", encoding="utf-8")
    config = TrainingConfig.model_validate({"seed": 3, "evaluation": evaluation})
    return publish_best(unfinished, output, config, step, value)


def test_of_the_best_models_one_is_kept_and_checkpoints_are_untouched(tmp_path: Path) -> None:
    assert find_best(tmp_path) is None
    publish_step(tmp_path, 8)
    keep(tmp_path, 8, 0.25)
    path = keep(tmp_path, 24, 0.5)
    assert path == tmp_path.resolve() / "best-24"
    assert find_best(tmp_path) == (path, 24, 0.5)
    assert {entry.name for entry in tmp_path.iterdir()} == {"step-8", "best-24", ".unfinished"}
    assert newest(tmp_path) == tmp_path / "step-8"
    assert run_config(path).seed == 3


def two_after_a_crash(output: Path) -> Path:
    """Leave best models of steps 8 and 24, as a crash does before the first is removed; return the second."""
    first = keep(output, 8, 0.25)
    first.rename(output / "elsewhere")
    second = keep(output, 24, 0.5)
    (output / "elsewhere").rename(first)
    return second


def test_after_a_crash_between_two_best_models_the_better_one_is_found(tmp_path: Path) -> None:
    path = two_after_a_crash(tmp_path)
    assert find_best(tmp_path) == (path, 24, 0.5)


def test_the_best_model_goes_along_when_a_run_goes_on_elsewhere(tmp_path: Path) -> None:
    before, after = tmp_path / "1", tmp_path / "2"
    after.mkdir()
    checkpoint = publish_step(before, 8)
    carry_best(checkpoint, after, EVALUATION)
    assert find_best(after) is None
    keep(before, 8, 0.25)
    carry_best(checkpoint, after, EVALUATION)
    carry_best(publish_step(after, 16), after, EVALUATION)
    best = find_best(after)
    assert best is not None
    assert best == (after / "best-8", 8, 0.25)
    assert (best.path / "weights").read_text(encoding="utf-8") == "weights of 8"
    assert (before / "best-8").is_dir()


def test_a_best_model_of_a_later_step_or_of_another_evaluation_does_not_go_along(tmp_path: Path) -> None:
    before, after = tmp_path / "1", tmp_path / "2"
    after.mkdir()
    checkpoint = publish_step(before, 8)
    keep(before, 16, 0.25)
    carry_best(checkpoint, after, EVALUATION)
    keep(before, 8, 0.25, temperature=0.5)
    carry_best(checkpoint, after, EVALUATION)
    assert find_best(after) is None


def test_of_two_models_after_a_crash_the_one_that_the_run_had_goes_along(tmp_path: Path) -> None:
    before, after = tmp_path / "1", tmp_path / "2"
    after.mkdir()
    two_after_a_crash(before)
    carry_best(publish_step(before, 8), after, EVALUATION)
    assert find_best(after) == (after / "best-8", 8, 0.25)


def test_a_best_model_of_another_evaluation_is_no_rival_and_makes_way(tmp_path: Path) -> None:
    keep(tmp_path, 8, 0.75, temperature=0.5)
    assert find_best(tmp_path, EVALUATION) is None
    path = keep(tmp_path, 8, 0.25)
    assert find_best(tmp_path) == find_best(tmp_path, EVALUATION) == (path, 8, 0.25)
    assert {entry.name for entry in tmp_path.glob("best-*")} == {"best-8"}


def test_a_model_alone_ends_its_run_and_cannot_be_trained_on(tmp_path: Path) -> None:
    unfinished = tmp_path / ".unfinished" / "checkpoint-16"
    unfinished.mkdir(parents=True)
    state = {"step": 16, "model_only": True}
    write_state(unfinished, TrainingConfig(steps=16), state)
    path = publish(unfinished, tmp_path, 16, 1)
    assert read_state(path, TrainingConfig(steps=16)) == state
    with pytest.raises(CheckpointError, match=r"step-16 holds the model alone: .* to train for 24 steps start a new"):
        read_state(path, TrainingConfig(steps=24))


def test_a_folder_of_no_run_has_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"was not written by a run: .* name a folder step-N, best-N or model-N"):
        run_config(tmp_path)
    (tmp_path / "best.json").write_text("{", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"best\.json cannot be read"):
        run_config(tmp_path)


def test_how_many_folders_trials_have_follows_from_their_settings() -> None:
    plain, best = TrainingConfig(kept_checkpoints=3), TrainingConfig(keep_best=True)
    assert kept_folders(plain, trials=5, running=3) == KeptFolders(checkpoints=3 * 4, models=5)
    assert kept_folders(best, trials=5, running=3) == KeptFolders(checkpoints=3 * 3, models=5 * 2 + 3 * 2)
