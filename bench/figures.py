"""The pictures of docs/results.md, drawn from docs/results/*.json."""

from pathlib import Path
from typing import Any, Final

import numpy as np
from curves import POINTS
from matplotlib.figure import Figure
from studies import LOSSES

_COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")  # Okabe and Ito's, told apart by all eyes
_GREY: Final = "#7F7F7F"
_REFERENCE: Final = "grpo"
_COLUMNS: Final = {
    "clipping": ("dapo", "dapo_erc"),
    "gradient-preserving (β₁, β₂)": ("ce_gppo_0_1", "ce_gppo_0.5_1", "ce_gppo_1_0.5", "gppo"),
    "weights, sequences, covariance": ("cispo", "gspo", "clip_cov", "kl_cov"),
}
_ROWS: Final = {
    "reward/mean": ("reward in training", 1.0),
    "entropy": ("entropy in training\nnats a token", 1.25),
    "probe/entropy": ("entropy on frozen\ncompletions, nats a token", 1.25),
}
"""Label and top of the axis: a thin line that leaves the frame belongs to a policy that is lost already."""

Runs = dict[str, Any]
"""A loss's runs by seed."""


def draw(results: dict[str, Any], folder: Path) -> None:
    """Draw what there are curves for."""
    folder.mkdir(parents=True, exist_ok=True)
    if "losses" in results:
        _draw_losses(results["losses"]["default"], folder / "losses.png")


def _draw_losses(losses: dict[str, Runs], file: Path) -> None:
    figure = Figure(figsize=(10, 7.2), layout="constrained")
    grid = figure.subplots(len(_ROWS), len(_COLUMNS), sharex=True, sharey="row")
    for column, (title, names) in enumerate(_COLUMNS.items()):
        grid[0, column].set_title(title, fontsize=10, loc="left")
        shown = [(_REFERENCE, _GREY), *zip(names, _COLOURS, strict=False)]
        for row, (curve, (label, top)) in enumerate(_ROWS.items()):
            axes = grid[row, column]
            for name, colour in shown:
                _lines(axes, losses[name], curve, colour, LOSSES[name].label)
            axes.set_ylim(0, top)
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(axis="y", color="#E6E6E6", linewidth=0.8)
            if not column:
                axes.set_ylabel(label, fontsize=9)
        grid[1, column].legend(frameon=False, fontsize=8, handlelength=1.4, labelspacing=0.25, loc="lower left")
        grid[-1, column].set_xlabel("optimizer updates", fontsize=9)
    figure.savefig(file, dpi=130)


def _lines(axes: Any, runs: Runs, curve: str, colour: str, label: str) -> None:
    """Each seed thin, their mean thick; both as running means over three points."""
    seeds = [_smooth(np.array(run[curve], dtype=float)) for run in runs.values()]
    updates = np.arange(1, POINTS + 1) * next(iter(runs.values()))["steps"] / POINTS
    for values in seeds:
        axes.plot(updates[: len(values)], values, color=colour, linewidth=0.6, alpha=0.35)
    shortest = min(map(len, seeds))
    mean = np.mean([values[:shortest] for values in seeds], axis=0)
    axes.plot(updates[:shortest], mean, color=colour, linewidth=1.9, label=label)


def _smooth(values: np.ndarray) -> np.ndarray:
    padded = np.pad(values, 1, mode="edge")
    return (padded[:-2] + padded[1:-1] + padded[2:]) / 3
