"""Unsupervised disentanglement ranking: whether models agree latent by latent (Duan et al., 2020)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from vaescope.checks import finite_number, random_seed, whole_number
from vaescope.codes import Representation
from vaescope.codes.arrays import ArrayLike, as_numpy
from vaescope.errors import DataError
from vaescope.metrics.score import Score
from vaescope.regime import collapse
from vaescope.registry import lookup

LASSO_PENALTY = 0.1
LASSO_MAX_ITERATIONS = 10_000
LASSO_TOLERANCE = 1e-8

Columns = Float[np.ndarray, "items latents"]
Rates = Float[np.ndarray, "latents"]
Resemblances = Float[np.ndarray, "latents others"]
Resemblance = Callable[[Columns, Columns], Resemblances]
MeanAndKL: TypeAlias = tuple[ArrayLike, ArrayLike]


def udr(
    representations: Sequence[Representation | MeanAndKL],
    *,
    method: str = "spearman",
    items: int = 1_000,
    threshold: float = 0.01,
    names: Sequence[str] | None = None,
    seed: int = 0,
) -> Score:
    """The median over pairs of models of how closely each latent of one resembles a single latent of the other.

    A latent's score is its greatest resemblance squared, divided by the sum of all; both directions of a pair count
    equally, as in disentanglement_lib at this threshold (its code's default is the lasso). Noise scores about 0. Copies
    of independent latents score 1 minus the effect of chance correlations; with the lasso, whose penalty shrinks a
    weight of 1, they score 0.9. The parts are the scores of the models: the median over the pairs that predict this
    model from another. A model without informative latents scores 0.

    Args:
        representations: One for each model, of the same items in the same order: a `Representation`, or a pair of its
            mean and its KL divergence from the prior in nats, by latent or by item and latent.
        method: How latents resemble each other: the absolute value of Spearman's correlation ("spearman"), or of the
            weight of one in a lasso for the other with penalty 0.1 ("lasso").
        items: Maximum number of items to compare, drawn by `seed`.
        threshold: Leave out latents with a mean KL divergence of at most this, in nats.
        names: Names of the models. Default: 'model_0', 'model_1', ...
        seed: Random seed.
    """
    prepared, resemblance = lookup(METHODS, method, "method")
    finite_number("threshold", threshold, at_least=0)
    tables = _checked(representations)
    whole_number("items", items, 2)
    random_seed(seed)
    count = len(tables)
    titles = [f"model_{place}" for place in range(count)] if names is None else list(names)
    if len(titles) != count or len(set(titles)) != count:
        raise DataError(f"each of the {count} models must have a different name, got {len(titles)}: {titles}.")
    rows = np.sort(np.random.default_rng((seed, 3)).permutation(len(tables[0][0]))[:items])
    informative = [mean[rows][:, rates > threshold] for mean, rates in tables]
    present = [place for place, part in enumerate(informative) if part.shape[1]]
    scores = np.zeros((count, count))
    if len(present) > 1:
        columns = [prepared(informative[place]) for place in present]
        scores[np.ix_(present, present)] = _pair_scores(columns, resemblance)
    others = ~np.eye(count, dtype=bool)
    by_model = [float(np.median(scores[others[:, place], place])) for place in range(count)]
    estimator = f"{method} over {count} models, latents above {threshold:g} nats"
    return Score("udr", float(np.median(scores[others])), estimator, dict(zip(titles, by_model, strict=True)))


def _pair_scores(columns: list[Columns], resemblance: Resemblance) -> Float[np.ndarray, "models models"]:
    """Compare the latents of each model with those of all models at once, then score model by model."""
    widths = np.array([part.shape[1] for part in columns])
    starts = np.cumsum(widths) - widths
    together = _standardised(np.concatenate(columns, axis=1))
    rows = []
    for start, width in zip(starts, widths, strict=True):
        matrix = resemblance(together[:, start : start + width], together)
        theirs = np.add.reduceat(_latent_scores(matrix.max(0), matrix.sum(0)), starts) / widths
        ours = _latent_scores(np.maximum.reduceat(matrix, starts, axis=1), np.add.reduceat(matrix, starts, axis=1))
        rows.append((theirs + ours.mean(0)) / 2)
    return np.stack(rows)


def _latent_scores(greatest: Float[np.ndarray, "..."], total: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    return np.asarray(np.divide(greatest**2, total, out=np.zeros_like(total), where=total > 0))


def _ranks(columns: Columns) -> Columns:
    from scipy.stats import rankdata

    return np.asarray(rankdata(columns, axis=0))


def _correlation(ours: Columns, together: Columns) -> Resemblances:
    return np.asarray(np.abs(ours.T @ together) / len(ours))


def _lasso_weights(ours: Columns, together: Columns) -> Resemblances:
    from sklearn.linear_model import Lasso

    model = Lasso(alpha=LASSO_PENALTY, tol=LASSO_TOLERANCE, max_iter=LASSO_MAX_ITERATIONS, precompute=True)
    weights = model.fit(ours, together).coef_
    return np.asarray(np.abs(np.reshape(weights, (together.shape[1], ours.shape[1])).T))


# How columns are prepared, and how latents of one model are compared with all others.
METHODS: dict[str, tuple[Callable[[Columns], Columns], Resemblance]] = {
    "spearman": (_ranks, _correlation),
    "lasso": (np.asarray, _lasso_weights),
}


def _standardised(columns: Columns) -> Columns:
    """Mean 0 and variance 1; a constant column becomes 0."""
    varies = np.ptp(columns, axis=0) > 0
    return np.asarray((columns - columns.mean(0)) * varies / np.where(varies, columns.std(0), 1))


def _checked(representations: Sequence[Representation | MeanAndKL]) -> list[tuple[Columns, Rates]]:
    """The mean representation and the mean KL divergence of each latent, for each model."""
    if not isinstance(representations, Sequence):
        raise DataError(f"representations must be a list, one for each model, got {type(representations).__name__}.")
    tables = [_table(f"model {place}", part) for place, part in enumerate(representations)]
    if len(tables) < 2:
        raise DataError(f"there must be at least 2 models to compare, got {len(tables)}.")
    lengths = [len(mean) for mean, _ in tables]
    if len(set(lengths)) > 1 or lengths[0] < 2:
        raise DataError(f"all models must encode the same items, at least 2, got {lengths} items.")
    return tables


def _table(name: str, part: object) -> tuple[Columns, Rates]:
    if isinstance(part, Representation):
        mean, rates = part.mean, np.array(collapse(part).rates)
    elif isinstance(part, tuple | list) and len(part) == 2:
        mean, rates = part
    else:
        raise DataError(f"{name} must be a Representation or a pair (mean, kl) of arrays, got {type(part).__name__}.")
    codes, divergence = (
        as_numpy(values, f"{title} of {name}").astype(np.float64) for title, values in (("mean", mean), ("kl", rates))
    )
    if codes.ndim != 2 or divergence.shape not in (codes.shape, codes.shape[1:]):
        raise DataError(
            f"{name} must have a mean of items x latents, and a kl of that shape or one number for each latent, got "
            f"{codes.shape} and {divergence.shape}."
        )
    if not np.isfinite(codes).all() or np.isnan(divergence).any():
        raise DataError(f"{name} must have finite means, and a number for the kl of each latent. Encode it again.")
    return codes, divergence.mean(0) if divergence.ndim == 2 else divergence
