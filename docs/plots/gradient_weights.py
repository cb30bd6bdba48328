"""Draws docs/images/losses/: the gradient weight of every loss over the ratio, by autograd through `trainers.losses`.

    .venv/bin/python docs/plots/gradient_weights.py

Writes the same bytes each time.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parents[2]))

from trainers.losses import (
    LOSSES,
    BAPOParams,
    CEGPPOParams,
    CISPOParams,
    ClipCovParams,
    DAPOParams,
    DCPOParams,
    ERCMask,
    ERCPenalty,
    GRPOParams,
    GSPOParams,
    KLCovParams,
    LossOutput,
    TokenBatch,
    policy_loss,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

IMAGES: Final = Path(__file__).parents[1] / "images" / "losses"
COLOURS: Final = {-1: "#D55E00", 1: "#0072B2"}  # by the sign of A; from Okabe and Ito's colour-blind safe set
GREY, PALE = "#C4C4C4", "#F1F1F1"
STYLE: Final = {
    "svg.hashsalt": "gradient weights",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.borderaxespad": 0.2,
}


class Curve(NamedTuple):
    """A line of a panel: solid the first, then dashed, then dotted."""

    params: Any
    label: str = ""
    selected: bool = False
    old_probability: float = 1.0


class Plot(NamedTuple):
    """The picture of a loss: curves for A < 0 and A > 0, and the axes."""

    negative: list[Curve]
    positive: list[Curve]
    ratios: tuple[float, float] = (0, 2)
    weights: tuple[float, float] = (-0.15, 2.2)
    x_label: str = "ratio r"


def _same(*curves: Curve, **axes: Any) -> Plot:
    return Plot(list(curves), list(curves), **axes)


def _betas(name: str, *values: float) -> list[Curve]:
    return [Curve(CEGPPOParams.model_validate({name: value}), f"{name} = {value:g}") for value in values]


PARENT: Final = Curve(GRPOParams(), "grpo")  # drawn broad behind the others
PLOTS: Final[dict[str, Plot]] = {
    **{name: _same(Curve(loss.params(), name)) for name, loss in LOSSES.items()},
    "ce_gppo": Plot(_betas("beta1", 0.5, 1, 0), _betas("beta2", 1, 0.5, 0)),
    "cispo": _same(Curve(CISPOParams(), "cispo"), Curve(CISPOParams(epsilon_low=1), "without a lower bound")),
    "gspo": _same(Curve(GSPOParams(), "gspo"), ratios=(0.999, 1.001), x_label="sequence ratio s"),
    "clip_cov": _same(Curve(ClipCovParams(), "clip_cov"), Curve(ClipCovParams(), "tokens drawn", selected=True)),
    "kl_cov": _same(
        Curve(KLCovParams(kl_coefficient=0), "kl_cov"),
        Curve(KLCovParams(selected_share=1), "tokens selected, |A| = 1"),
        weights=(-1.15, 4.2),
    ),
    "dcpo": _same(
        *(Curve(DCPOParams(), f"old probability {q:g}", old_probability=q) for q in (1, 0.5, 0.2)),
        weights=(-0.15, 2.8),
    ),
    "bapo": _same(
        Curve(BAPOParams(target=0), "bapo, bounds at their start"),
        Curve(BAPOParams(epsilon_low=0.05, epsilon_high=1, target=0), "bounds at their end"),
        ratios=(0, 3),
        weights=(-0.15, 3.8),
    ),
}
"""Each loss with its defaults, or with the curves and axes that show it better."""


def gradient_weight(curve: Curve, ratios_N: np.ndarray, sign: int) -> np.ndarray:
    """F of one-token sequences with A = `sign`, from the gradient of the loss, which is -A F."""
    import torch

    old_logprob = math.log(curve.old_probability)
    deltas_BT = torch.tensor(ratios_N, dtype=torch.float64).log().unsqueeze(-1)
    logprobs_BT = (deltas_BT + old_logprob).requires_grad_()
    ones_BT = torch.ones_like(logprobs_BT)
    selected_BT = ones_BT if curve.selected else ones_BT * 0
    batch = TokenBatch(logprobs_BT, ones_BT * old_logprob, ones_BT * sign, ones_BT, selected_BT=selected_BT)
    (gradient_BT,) = torch.autograd.grad(policy_loss(batch, curve.params).loss_BT.sum(), logprobs_BT)
    return (gradient_BT / -sign).flatten().numpy()


def entropy_ratio(erc: ERCMask | ERCPenalty, ratios_N: np.ndarray) -> tuple[LossOutput, np.ndarray]:
    """Loss and gradient weight of tokens with these ratios of entropies, in one batch, where r = 1 and A = 1."""
    import torch

    entropy_BT = torch.tensor(ratios_N, dtype=torch.float64).unsqueeze(-1)
    ones_BT = torch.ones_like(entropy_BT)
    logprobs_BT = (ones_BT * 0).requires_grad_()
    batch = TokenBatch(logprobs_BT, ones_BT * 0, ones_BT, ones_BT, entropy_BT=entropy_BT, old_entropy_BT=ones_BT)
    output = policy_loss(batch, DAPOParams(erc=erc))
    (gradient_BT,) = torch.autograd.grad(output.loss_BT.sum(), logprobs_BT)
    return output, -gradient_BT.flatten().numpy()


def main(images: Path = IMAGES) -> None:
    """Draw all pictures into a folder."""
    images.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):
        figures = {name: _weights(plot) for name, plot in PLOTS.items()} | {"erc": _entropy_ratio()}
        for name, figure in figures.items():
            figure.savefig(images / f"{name}.svg", metadata={"Date": None, "Creator": None})


def _weights(plot: Plot) -> Figure:
    figure, panels = _panels()
    ratios_N = np.linspace(*plot.ratios, 2002)[1:]
    for axes, sign, curves in zip(panels, (-1, 1), (plot.negative, plot.positive), strict=True):
        axes.set(title=f"A {'<>'[sign > 0]} 0", xlabel=plot.x_label, xlim=plot.ratios, ylim=plot.weights)
        bounds = curves[0].params
        _bounds(axes, max(bounds.low, plot.ratios[0]), min(bounds.high, plot.ratios[1]))
        axes.axhline(0, color="black", linewidth=0.5, zorder=0)
        axes.set_xticks(np.linspace(*plot.ratios, 5))
        if curves[0].params.name not in ("grpo", "gspo"):
            parents_N = gradient_weight(PARENT, ratios_N, sign)
            _line(axes, ratios_N, parents_N, color=GREY, linewidth=5, solid_capstyle="butt", label=PARENT.label)
        for curve, style in zip(curves, ("-", "--", ":"), strict=False):
            weights_N = gradient_weight(curve, ratios_N, sign)
            _line(axes, ratios_N, weights_N, color=COLOURS[sign], linewidth=2, linestyle=style, label=curve.label)
        axes.legend(loc="upper left")
    panels[0].set_ylabel("gradient weight F")
    return figure


def _entropy_ratio() -> Figure:
    figure, (mask, penalty) = _panels()
    ratios_N = np.linspace(0.8, 1.2, 201)
    _line(mask, ratios_N, entropy_ratio(ERCMask(), ratios_N)[1], color=COLOURS[1], linewidth=2)
    mask.set(title="mask", xlabel="a token's entropy ratio", ylabel="share of its gradient kept", ylim=(-0.05, 1.2))
    _bounds(mask, ERCMask().low, ERCMask().high)
    values = [entropy_ratio(ERCPenalty(), ratios_N[i : i + 1])[0].penalty for i in range(len(ratios_N))]
    penalty.plot(ratios_N, np.array(values, dtype=float), color=COLOURS[1], linewidth=2)
    penalty.set(title="penalty", xlabel="ratio of mean entropies", ylabel="added to the loss")
    _bounds(penalty, ERCPenalty().low, ERCPenalty().high)
    for axes in (mask, penalty):
        axes.set_xlim(0.8, 1.2)
    return figure


def _panels() -> tuple[Figure, Any]:
    figure = Figure(figsize=(7.2, 2.7), layout="constrained", facecolor="white")
    return figure, figure.subplots(1, 2)


def _bounds(axes: Axes, low: float, high: float) -> None:
    """Shade what lies inside the bounds."""
    axes.axvspan(low, high, color=PALE, linewidth=0, zorder=-1)


def _line(axes: Axes, x_N: np.ndarray, y_N: np.ndarray, **style: Any) -> None:
    """Draw a curve without joining the two sides of a jump."""
    jumps = np.flatnonzero(np.abs(np.diff(y_N)) > 0.02) + 1
    axes.plot(np.insert(x_N, jumps, np.nan), np.insert(y_N, jumps, np.nan), **style)


if __name__ == "__main__":
    main()
