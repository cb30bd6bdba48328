"""The pictures of docs/results.md, drawn from docs/results/*.json. Thin lines are seeds, thick ones their mean."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from curves import CURVES, POINTS
from matplotlib.figure import Figure
from studies import LOSSES

_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")  # Okabe and Ito's, told apart by all eyes
_GREY: Final = "#7F7F7F"
_REFERENCE: Final = "grpo"
_GROUPS: Final = {
    "clipping": ("dapo", "dapo_erc"),
    "gradient-preserving (β₁, β₂)": ("ce_gppo_0_1", "ce_gppo_0.5_1", "ce_gppo_1_0.5", "gppo"),
    "weights, sequences, covariance": ("cispo", "gspo", "clip_cov", "kl_cov"),
}
_FAMILY_GROUPS: Final = {
    "bounds of each token": ("dcpo", "bapo"),
    "advantages": ("positive_0.5", "positive_0.75", "entropy_advantage", "gtpo", "grpo_s"),
    "terms and critic": ("kl_0.01", "critic"),
}
_SHOWN: Final = {
    "reward/mean": "reward in training",
    "entropy": "entropy in training\nnats a token",
    "probe/entropy": "entropy on frozen\ncompletions, nats a token",
}
_TOPS: Final = {"reward/mean": 1.0, "entropy": 1.25, "probe/entropy": 1.25}
"""Of the axes: a thin line that leaves the frame belongs to a policy that is lost already."""
_SEARCHED: Final = {
    "entropy": "entropy in training, nats a token",
    "eval/avg_at_k": "avg@32, held-out problems",
    "eval/pass_at_k": "pass@8, held-out problems",
}

Runs = dict[str, Any]
"""A loss's runs by seed."""


def draw(results: dict[str, Any], folder: Path) -> None:
    """Draw what there are curves for."""
    folder.mkdir(parents=True, exist_ok=True)
    if "losses" in results:
        _draw_losses(results["losses"]["default"], _GROUPS, folder / "losses.png")
    if "family" in results:
        _draw_losses(results["family"]["default"], _FAMILY_GROUPS, folder / "family.png")
    if "tune" in results:
        _draw_search(results["tune"], folder / "search.png")


def _draw_losses(losses: dict[str, Runs], groups: Mapping[str, Sequence[str]], file: Path) -> None:
    figure = Figure(figsize=(10, 7.2), layout="constrained")
    grid = figure.subplots(len(_SHOWN), len(groups), sharex=True, sharey="row")
    for column, (title, names) in enumerate(groups.items()):
        grid[0, column].set_title(title, fontsize=10, loc="left")
        for row, (curve, label) in enumerate(_SHOWN.items()):
            axes = grid[row, column]
            _panel(axes, {name: losses[name] for name in (_REFERENCE, *names)}, curve)
            axes.set_ylim(0, _TOPS[curve])
            if not column:
                axes.set_ylabel(label, fontsize=9)
        grid[1, column].legend(frameon=False, fontsize=8, handlelength=1.4, labelspacing=0.25, loc="lower left")
        grid[-1, column].set_xlabel("optimizer updates", fontsize=9)
    figure.savefig(file, dpi=110)


def _draw_search(settings: dict[str, dict[str, Runs]], file: Path) -> None:
    figure = Figure(figsize=(10, 2.7 * len(settings)), layout="constrained")
    grid = figure.subplots(len(settings), len(_SEARCHED), sharex=True, squeeze=False)
    for row, (setting, losses) in enumerate(settings.items()):
        for column, (curve, label) in enumerate(_SEARCHED.items()):
            _panel(grid[row, column], losses, curve)
            if not row:
                grid[row, column].set_title(label, fontsize=10, loc="left")
            if row == len(settings) - 1:
                grid[row, column].set_xlabel("optimizer updates", fontsize=9)
        for axes in grid[row, 1:]:  # no noise blown up to the height of the frame
            axes.set_ylim(bottom=min(axes.get_ylim()[0], axes.get_ylim()[1] - 0.1))
        grid[row, 0].set_ylim(bottom=0)
        grid[row, 0].set_ylabel(setting, fontsize=10)
    grid[0, 1].legend(frameon=False, fontsize=8, handlelength=1.4, labelspacing=0.25, loc="lower right")
    figure.savefig(file, dpi=110)


def _panel(axes: Any, losses: dict[str, Runs], curve: str) -> None:
    colours = iter(_COLOURS)
    for name, runs in losses.items():
        _lines(axes, runs, curve, _GREY if name == _REFERENCE else next(colours), LOSSES[name].label)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#E6E6E6", linewidth=0.8)
    axes.tick_params(labelsize=8)


def _lines(axes: Any, runs: Runs, curve: str, colour: str, label: str) -> None:
    first, seeds = next(iter(runs.values())), [np.array(run[curve], dtype=float) for run in runs.values()]
    updates = np.array(first["evaluated"])
    if curve in CURVES:
        seeds = [_smooth(values) for values in seeds]
        updates = np.arange(1, POINTS + 1) * first["steps"] / POINTS
    for values in seeds:
        axes.plot(updates[: len(values)], values, color=colour, linewidth=0.6, alpha=0.35)
    shortest = min(map(len, seeds))
    mean = np.mean([values[:shortest] for values in seeds], axis=0)
    axes.plot(updates[:shortest], mean, color=colour, linewidth=1.9, label=label)


def _smooth(values: np.ndarray) -> np.ndarray:
    """The running mean over three points."""
    padded = np.pad(values, 1, mode="edge")
    return (padded[:-2] + padded[1:-1] + padded[2:]) / 3
