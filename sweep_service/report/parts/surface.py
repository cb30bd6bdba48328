"""A quadratic response surface over numeric parameters."""

import itertools
from collections.abc import Sequence
from typing import Final

import numpy as np

from sweep_service.report.formatting import estimate
from sweep_service.report.model import Surface
from sweep_service.report.parts.factors import Factor
from sweep_service.report.statistics.critical_values import Floats, student_critical
from sweep_service.report.statistics.least_squares import fit, p_of_f, p_text
from sweep_service.sweep.labels import short_name, value_text

_MIN_VALUES: Final = 3
_MIN_DF: Final = 3
_MAX_NAMES: Final = 5
"""Largest number of parameters, strongest first; each further one adds a term for each already there."""
_LEVEL: Final = 0.05
_EDGE: Final = 1e-9
_Pairs = Sequence[tuple[int, int]]
"""Places of two parameters whose product is a term."""


def surface(factors: Sequence[Factor], means: Floats) -> Surface | None:
    """Fit a quadratic in the numeric parameters that took at least 3 values; None for fewer than two of them, and
    where fewer than 3 degrees of freedom would be left.

    Args:
        factors: all varied parameters, strongest first; those not in the surface are adjusted for.
        means: (configs,) to fit.
    """
    numeric = [factor for factor in factors if factor.x is not None and len(np.unique(factor.x)) >= _MIN_VALUES]
    inside = numeric[:_MAX_NAMES]
    if len(inside) < 2:
        return None
    x = np.column_stack([factor.x for factor in inside if factor.x is not None])
    middle, half = (x.max(axis=0) + x.min(axis=0)) / 2, (x.max(axis=0) - x.min(axis=0)) / 2
    u = (x - middle) / half
    others = [factor.columns for factor in factors if not any(factor is one for one in inside)]
    k = len(inside)
    for pairs in (list(itertools.combinations(range(k), 2)), []):
        X = np.hstack([_terms(u, pairs), *others])
        quadratic = fit(X, means)
        if quadratic.rank == X.shape[1] and quadratic.df >= _MIN_DF and quadratic.variance is not None:
            break
    else:
        return None
    linear, bent = _coefficients(quadratic.beta, k, pairs)
    top = _highest(linear, bent)
    row = np.zeros(len(quadratic.beta))
    row[: 2 * k + 1 + len(pairs)] = _terms(top[None, :], pairs)[0]
    predicted = float(row @ quadratic.beta)
    error = student_critical(quadratic.df) * quadratic.variance**0.5 * quadratic.scale(row)
    result = Surface(
        names=[factor.name for factor in inside],
        terms=_raw_terms(inside, pairs, quadratic.beta, middle, half),
        r2=quadratic.r2,
        residual_df=quadratic.df,
        at={
            factor.name: float(f"{10**value if factor.log else value:.6g}")
            for factor, value in zip(inside, middle + half * top, strict=True)
        },
        predicted=predicted,
        low=predicted - error,
        high=predicted + error,
        text="",
    )
    rest = fit(np.hstack([np.ones((len(means), 1)), *others]), means)
    df = quadratic.rank - rest.rank
    p = p_of_f(max(rest.rss - quadratic.rss, 0.0) / df / quadratic.variance, df, quadratic.df)
    edge = [short_name(factor.name) for factor, value in zip(inside, top, strict=True) if abs(value) >= 1 - _EDGE]
    return result.model_copy(update={"text": _text(result, p, edge)})


def _terms(u: Floats, pairs: _Pairs) -> Floats:
    """Return the columns (rows, 1 + 2k + pairs): constant, linear, squares, products."""
    products = [u[:, [i]] * u[:, [j]] for i, j in pairs]
    return np.hstack([np.ones((len(u), 1)), u, u**2, *products])


def _coefficients(beta: Floats, k: int, pairs: _Pairs) -> tuple[Floats, Floats]:
    """Return the fit's coefficients as the vector and the matrix of linear·u + u'·bent·u."""
    linear, bent = beta[1 : k + 1], np.diag(beta[k + 1 : 2 * k + 1])
    for (i, j), value in zip(pairs, beta[2 * k + 1 :], strict=False):
        bent[i, j] = bent[j, i] = value / 2
    return linear, bent


def _highest(linear: Floats, bent: Floats) -> Floats:
    """Return where linear·u + u'·bent·u is highest for u within [-1, 1] each, by trying inside and faces."""
    best, value = np.zeros(len(linear)), -np.inf
    for face in itertools.product((None, -1.0, 1.0), repeat=len(linear)):
        u = np.array([0.0 if side is None else side for side in face])
        free = [i for i, side in enumerate(face) if side is None]
        if any(bent[i, i] >= 0 for i in free):
            continue  # bent upwards: higher still on the next face
        if free:
            inner = bent[np.ix_(free, free)]
            if np.linalg.matrix_rank(inner) < len(free):
                continue  # flat along a line, whose ends lie on other faces
            u[free] = np.linalg.solve(-2 * inner, linear[free] + 2 * bent[free] @ u)
        reached = float(linear @ u + u @ bent @ u)
        if np.abs(u).max() <= 1 + _EDGE and reached > value:
            best, value = u, reached
    return best


def _raw_terms(inside: Sequence[Factor], pairs: _Pairs, beta: Floats, middle: Floats, half: Floats) -> dict[str, float]:
    """Return coefficients of the parameters themselves instead of those scaled to [-1, 1]."""
    names = [f"log10 {short_name(factor.name)}" if factor.log else short_name(factor.name) for factor in inside]
    linear, bent = _coefficients(beta, len(inside), pairs)
    bent = bent / np.outer(half, half)
    linear, slope = linear / half, linear / half - 2 * bent @ middle
    terms = {"1": float(float(beta[0]) - linear @ middle + middle @ bent @ middle)}
    terms |= {name: float(value) for name, value in zip(names, slope, strict=True)}
    squares = [f"({name})²" if " " in name else f"{name}²" for name in names]
    terms |= {name: float(value) for name, value in zip(squares, np.diag(bent), strict=True)}
    return terms | {f"{names[i]} {names[j]}": float(2 * bent[i, j]) for i, j in pairs}


def _text(surface: Surface, p: float, edge: Sequence[str]) -> str:
    """Describe the surface; `edge` names the parameters whose best value lies at an end of their range."""
    place = ", ".join(f"{short_name(name)} = {value_text(value)}" for name, value in surface.at.items())
    fitted = f"R² {surface.r2:.2f}, {surface.residual_df} df left"
    if p >= _LEVEL:
        return f"The fitted quadratic surface cannot be told from a flat one ({p_text(p)}, {fitted})."
    text = (
        f"The fitted quadratic surface ({fitted}) is highest at {place}: "
        f"{estimate(surface.predicted, surface.low, surface.high)}, if the surface holds; a highest point is picked, "
        "so this flatters."
    )
    if edge:
        text += f" That is on the edge of what was tried in {', '.join(edge)}: "
        text += "a wider range may hold better values, if there is one."
    return text
