"""BetaVAE score: whether differences of codes reveal which factor two items share (Higgins et al., 2017)."""

from __future__ import annotations

from functools import partial
from typing import Unpack

import numpy as np
from jaxtyping import Float, Int

from vaescope.checks import whole_number
from vaescope.metrics.factor_vae import accuracy_by_factor
from vaescope.metrics.inputs import CodesLike, FactorsLike
from vaescope.metrics.registry import METRICS
from vaescope.metrics.sampling import FactorGrid, FixedFactorSampler, blocks, evaluate_fixed, require_several_factors
from vaescope.metrics.score import MetricOptions, RawScore, Score

# scikit-learn's default of 100 iterations may stop short of the optimum.
MAX_ITERATIONS = 1_000


@METRICS.register(
    "beta_vae",
    summary="do differences between pairs of codes reveal the factor that the pairs share?",
    source="Higgins et al. 2017",
    factors=2,
)
def beta_vae(
    codes: CodesLike | FactorGrid,
    factors: FactorsLike = None,
    *,
    train_examples: int = 10_000,
    test_examples: int = 5_000,
    batch: int = 64,
    **options: Unpack[MetricOptions],
) -> Score:
    """Accuracy with which logistic regression predicts the factor that pairs of items have in common.

    An example is the mean, over `batch` pairs that share the value of one factor, of the absolute difference of their
    codes. The regression has scikit-learn's default penalty, so latents on a very small scale count less.

    Noise scores about 1 / factors, and more for fewer than about 2,000 items, since the same items are then drawn again
    and again: use `scale=True`. The matrix has the mean difference of each latent while each factor is shared.

    Args:
        codes: A `Representation`, an array, items x latents, or a `FactorGrid`.
        factors: One column for each factor. Default: those of the `Representation`.
        train_examples, test_examples: Number of examples for the regression and for the score.
        batch: Number of pairs in an example.
        names, exclude, types, half_samples, scale, seed: See `MetricOptions`.
    """
    for name, count in (("train_examples", train_examples), ("test_examples", test_examples), ("batch", batch)):
        whole_number(name, count, 1)
    measure = partial(_score, train_examples=train_examples, test_examples=test_examples, batch=batch)
    estimator = f"{train_examples} means of {batch} pairs, tested on {test_examples}"
    return evaluate_fixed("beta_vae", estimator, measure, codes, factors, **options)


def mean_differences(
    sampler: FixedFactorSampler, fixed: Int[np.ndarray, "examples"], batch: int, generator: np.random.Generator
) -> Float[np.ndarray, "examples latents"]:
    """The mean absolute difference of the codes of `batch` pairs for each example."""
    latents = sampler.sample.codes.shape[1]
    found = np.empty((len(fixed), latents))
    for part in blocks(len(fixed), 2 * batch):
        uniform = generator.random((len(fixed[part]), 2, batch))
        first = sampler.draw(uniform[:, 0])
        pairs = np.stack((first, sampler.draw_sharing(fixed[part, None], first, uniform[:, 1])), axis=1)
        table, places = sampler.columns(pairs)
        for latent in range(latents):
            values = table[latent].take(places)
            found[part, latent] = np.abs(values[:, 0] - values[:, 1]).mean(1)
    return found


def _score(sampler: FixedFactorSampler, seed: int, train_examples: int, test_examples: int, batch: int) -> RawScore:
    from sklearn.linear_model import LogisticRegression

    require_several_factors(sampler)
    factors = len(sampler.sample.names)
    whole_number("train_examples", train_examples, factors)
    generator = np.random.default_rng((seed, 3))
    # One example of each factor comes first, so that the regression knows all of them.
    fixed = np.concatenate((np.arange(factors), generator.integers(factors, size=train_examples)))[:train_examples]
    points = mean_differences(sampler, fixed, batch, generator)
    model = LogisticRegression(max_iter=MAX_ITERATIONS).fit(points, fixed)
    train = float(model.score(points, fixed))
    matrix = np.stack([points[fixed == factor].mean(0) for factor in range(factors)], axis=1)
    fixed = generator.integers(factors, size=test_examples)
    correct = model.predict(mean_differences(sampler, fixed, batch, generator)) == fixed
    parts = {"train_accuracy": train, "chance": 1 / factors}
    return RawScore(float(correct.mean()), parts, accuracy_by_factor(correct, fixed, factors), matrix)
