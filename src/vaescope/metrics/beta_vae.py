"""BetaVAE score: whether differences of codes tell which factor two items share (Higgins et al., 2017)."""

from __future__ import annotations

from functools import partial
from typing import Any, Unpack

import numpy as np
from jaxtyping import Float, Int

from vaescope.checks import whole_number
from vaescope.metrics.factor_vae import shares
from vaescope.metrics.sampling import Source, blocks, check_factors, evaluate_fixed
from vaescope.metrics.score import Common, Measured, Score

# The default of 100 steps may stop short of the optimum; its place is the same.
STEPS = 1_000


def beta_vae(
    codes: Any,
    factors: Any = None,
    *,
    learned: int = 10_000,
    tested: int = 5_000,
    batch: int = 64,
    **common: Unpack[Common],
) -> Score:
    """The share of tests in which logistic regression names the factor that pairs of items have in common.

    An example is a factor and the mean, over `batch` pairs that share its value, of the absolute difference of their
    codes; `learned` are for the regression, with the penalty of today's scikit-learn, and `tested`
    for the score. Because of the penalty, latents of very small scale count less.

    Noise scores about 1 / factors, the chance to guess a factor; more where items are few (below some 2,000), since
    those that share a value are then drawn again and again: ask for `scale`. The matrix has the mean difference of each
    latent while each factor is shared. `codes` may be a `Grid`.
    """
    for name, count in (("learned", learned), ("tested", tested), ("batch", batch)):
        whole_number(name, count, 1)
    measure = partial(_score, learned=learned, tested=tested, batch=batch)
    estimator = f"{learned} means of {batch} pairs, tested on {tested}"
    return evaluate_fixed("beta_vae", estimator, measure, codes, factors, **common)


def differences(
    source: Source, fixed: Int[np.ndarray, "examples"], batch: int, generator: np.random.Generator
) -> Float[np.ndarray, "examples latents"]:
    """The mean absolute difference of the codes of `batch` pairs for each example."""
    latents = source.sample.codes.shape[1]
    found = np.empty((len(fixed), latents))
    for part in blocks(len(fixed), 2 * batch):
        uniform = generator.random((len(fixed[part]), 2, batch))
        first = source.anywhere(uniform[:, 0])
        pairs = np.stack((first, source.sharing(fixed[part, None], first, uniform[:, 1])), axis=1)
        table, places = source.columns(pairs)
        for latent in range(latents):
            values = table[latent].take(places)
            found[part, latent] = np.abs(values[:, 0] - values[:, 1]).mean(1)
    return found


def _score(source: Source, seed: int, learned: int, tested: int, batch: int) -> Measured:
    from sklearn.linear_model import LogisticRegression

    check_factors(source)
    factors = len(source.sample.names)
    whole_number("learned", learned, factors)
    generator = np.random.default_rng((seed, 3))
    # One example of each factor comes first, so that none is unknown to the regression.
    fixed = np.concatenate((np.arange(factors), generator.integers(factors, size=learned)))[:learned]
    points = differences(source, fixed, batch, generator)
    model = LogisticRegression(max_iter=STEPS).fit(points, fixed)
    train = float(model.score(points, fixed))
    matrix = np.stack([points[fixed == factor].mean(0) for factor in range(factors)], axis=1)
    fixed = generator.integers(factors, size=tested)
    right = model.predict(differences(source, fixed, batch, generator)) == fixed
    parts = {"train_accuracy": train, "chance": 1 / factors}
    return Measured(float(right.mean()), parts, shares(right, fixed, factors), matrix)
