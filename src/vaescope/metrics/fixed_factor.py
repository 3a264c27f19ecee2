"""Metrics that hold one factor fixed: the BetaVAE and FactorVAE scores, and interventional robustness (IRS)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Unpack

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from vaescope.checks import finite_number, whole_number
from vaescope.codes import CodesLike
from vaescope.errors import ConfigurationError, unknown_name
from vaescope.metrics.inputs import FactorsLike, MetricInputs
from vaescope.metrics.sampling import FactorGrid, FixedFactorSampler, blocks, evaluate_fixed, gathered
from vaescope.metrics.score import METRICS, MetricOptions, RawScore, Score, evaluate
from vaescope.numerics.information import BINS, checked_bins, discretise
from vaescope.registry import lookup

MAX_ITERATIONS = 1_000  # scikit-learn's default of 100 may stop short of the optimum
MAX_CACHED_NUMBERS = 1 << 16  # fit into a processor's cache
CONTINUOUS, ALL = "continuous", "all"


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

    Noise scores about 1 / factors, and more for fewer than about 2,000 items, because the same items are then drawn
    repeatedly: use `scale=True`. The matrix has the mean difference of each latent while each factor is shared.

    Args:
        train_examples, test_examples: Number of examples for the regression and for the score.
        batch: Number of pairs in an example.
        codes, factors, options: As in `evaluate`; codes may also be a `FactorGrid`.
    """
    for name, count in (("train_examples", train_examples), ("test_examples", test_examples), ("batch", batch)):
        whole_number(name, count, 1)
    measure = partial(_pair_accuracy, train_examples=train_examples, test_examples=test_examples, batch=batch)
    estimator = f"{train_examples} means of {batch} pairs, tested on {test_examples}"
    return evaluate_fixed("beta_vae", estimator, measure, codes, factors, **options)


@dataclass(frozen=True)
class VotingProtocol:
    """Settings of a published score.

    Attributes:
        train_votes: Votes that assign a factor to each latent.
        test_votes: Votes that are scored; 0 scores those that were learned from.
        batch: Items in a vote.
        prune: Standard deviation below which a latent is left out.
    """

    train_votes: int
    test_votes: int
    batch: int
    prune: float

    def __post_init__(self) -> None:
        whole_number("train_votes", self.train_votes, 1)
        whole_number("test_votes", self.test_votes, 0)
        whole_number("batch", self.batch, 2)
        finite_number("prune", self.prune, at_least=0)


PROTOCOLS = {
    "dlib": VotingProtocol(10_000, 5_000, 64, 0.05),
    "mathieu": VotingProtocol(20_000, 0, 1_000, 0.0),
}


@METRICS.register(
    "factor_vae",
    summary="does the latent that varies least reveal the factor that was held fixed?",
    source="Kim and Mnih 2018",
    factors=2,
)
def factor_vae(
    codes: CodesLike | FactorGrid,
    factors: FactorsLike = None,
    *,
    protocol: str = "dlib",
    train_votes: int | None = None,
    test_votes: int | None = None,
    batch: int | None = None,
    prune: float | None = None,
    **options: Unpack[MetricOptions],
) -> Score:
    """Accuracy of a majority vote that predicts the fixed factor from the latent that varies least.

    A vote draws a factor and `batch` items that share its value. It goes to the latent with the least variance relative
    to its variance over all items. With no latent left after pruning the score is 0.

    Noise scores as in `beta_vae`: use `scale=True`. The matrix counts the training votes; the score of a factor is the
    accuracy of its test votes.

    Args:
        protocol: "dlib" (disentanglement_lib) or "mathieu", with more and larger votes, no pruning, and the score of
            the training votes (Mathieu et al., 2019). The other numbers default to the protocol's.
        train_votes, test_votes: Number of votes that assign a factor to each latent, and that are scored.
        batch: Number of items in a vote.
        prune: Leave out latents with a lower standard deviation; constant latents are always left out.
        codes, factors, options: As in `evaluate`; codes may also be a `FactorGrid`.
    """
    usual = lookup(PROTOCOLS, protocol, "protocol")
    chosen = VotingProtocol(
        usual.train_votes if train_votes is None else train_votes,
        usual.test_votes if test_votes is None else test_votes,
        usual.batch if batch is None else batch,
        usual.prune if prune is None else prune,
    )
    tests = f"{chosen.test_votes} others" if chosen.test_votes else "the same"
    estimator = f"{chosen.train_votes} votes of {chosen.batch} items, tested on {tests}"
    return evaluate_fixed("factor_vae", estimator, partial(_vote_accuracy, protocol=chosen), codes, factors, **options)


@METRICS.register("irs", summary="does a latent change while its factor is fixed?", source="Suter et al. 2019")
def irs(
    codes: CodesLike | FactorGrid,
    factors: FactorsLike = None,
    *,
    quantile: float = 0.99,
    bins: int = BINS,
    binned: str = CONTINUOUS,
    **options: Unpack[MetricOptions],
) -> Score:
    """The mean over latents of the largest 1 - D / M over factors, each latent weighted by its M.

    M is the greatest distance of a latent from its mean. D is a quantile of its distances from its mean among the items
    that share a value of the factor, averaged over the values. Constant latents are left out; with none left the score
    is 0. The codes of a perfect model score 1, but noise does not score 0: its outliers make M larger than D, the more
    so the more items there are. The matrix has 1 - D / M.

    Args:
        quantile: The quantile of the distances in D; 1 in the paper.
        bins: Number of bins of equal width for binned factors.
        binned: Which factors are binned: "continuous" ones, or "all" as in disentanglement_lib.
        codes, factors, options: As in `evaluate`; codes may also be a `FactorGrid`, from which items are drawn.
    """
    checked_bins(bins)
    if not 0 < finite_number("quantile", quantile) <= 1:
        raise ConfigurationError(f"quantile must be above 0 and at most 1, got {quantile!r}.")
    if binned not in (CONTINUOUS, ALL):
        raise unknown_name("binned", binned, (CONTINUOUS, ALL))
    estimator = f"quantile {quantile:g}, {binned} factors in {bins} bins"
    if isinstance(codes, FactorGrid):
        codes, factors, options["names"] = codes.sample(factors, options.get("names"), options.get("seed", 0))
        estimator += f", {len(factors)} items of the full grid"
    measure = partial(_robustness, quantile=quantile, bins=bins, binned=binned)
    return evaluate("irs", estimator, measure, codes, factors, **options)


def _pair_accuracy(
    sampler: FixedFactorSampler, seed: int, train_examples: int, test_examples: int, batch: int
) -> RawScore:
    from sklearn.linear_model import LogisticRegression

    sampler.sample.require_several_factors()
    latents, factors = sampler.sample.codes.shape[1], len(sampler.sample.names)
    whole_number("train_examples", train_examples, factors)
    generator = np.random.default_rng((seed, 3))

    def mean_differences(fixed: Int[np.ndarray, "examples"]) -> Float[np.ndarray, "examples latents"]:
        found = np.empty((len(fixed), latents))
        for part in blocks(len(fixed), 2 * batch):
            uniform = generator.random((len(fixed[part]), 2, batch))
            first = sampler.draw(uniform[:, 0])
            pairs = np.stack((first, sampler.draw_sharing(fixed[part, None], first, uniform[:, 1])), axis=1)
            table, places = sampler.columns(pairs)
            for latent in range(latents):
                values = gathered(table[latent], places)
                found[part, latent] = np.abs(values[:, 0] - values[:, 1]).mean(1)
        return found

    # One example of each factor comes first, so that the regression has seen all of them.
    fixed = np.concatenate((np.arange(factors), generator.integers(factors, size=train_examples)))[:train_examples]
    points = mean_differences(fixed)
    model = LogisticRegression(max_iter=MAX_ITERATIONS).fit(points, fixed)
    parts = {"train_accuracy": float(model.score(points, fixed)), "chance": 1 / factors}
    matrix = np.stack([points[fixed == factor].mean(0) for factor in range(factors)], axis=1)
    fixed = generator.integers(factors, size=test_examples)
    correct = model.predict(mean_differences(fixed)) == fixed
    return RawScore(float(correct.mean()), parts, _accuracy_by_factor(correct, fixed, factors), matrix)


def _vote_accuracy(sampler: FixedFactorSampler, seed: int, protocol: VotingProtocol) -> RawScore:
    sample = sampler.sample
    sample.require_several_factors()
    latents, factors = sample.codes.shape[1], len(sample.names)
    variance, varies = np.empty(latents), np.empty(latents, dtype=bool)
    for some, block in sample.latent_blocks():
        variance[some], varies[some] = block.var(0, ddof=1), np.ptp(block, axis=0) > 0
    kept = np.flatnonzero(varies & (np.sqrt(variance) >= protocol.prune))
    if not len(kept):
        nothing = np.zeros((latents, factors))
        return RawScore(0.0, {"train_accuracy": 0.0, "latents_kept": 0.0}, (0.0,) * factors, nothing)
    generator = np.random.default_rng((seed, 3))

    def cast_votes(count: int) -> tuple[Int[np.ndarray, "votes"], Int[np.ndarray, "votes"]]:
        """The factor that each vote holds fixed, and the latent it goes to; the first of those that vary least."""
        fixed = generator.integers(factors, size=count)
        # Drawn in advance, so that later random numbers do not depend on the number of votes per block.
        anchors = sampler.draw(generator.random(count))[:, None]
        winners = np.empty(count, dtype=np.int64)
        for part in blocks(count, protocol.batch):
            uniform = generator.random((len(fixed[part]), protocol.batch))
            table, places = sampler.columns(sampler.draw_sharing(fixed[part, None], anchors[part], uniform))
            ratios = np.empty((len(kept), len(places)))
            for votes in blocks(len(places), protocol.batch, MAX_CACHED_NUMBERS):
                for row, latent in enumerate(kept):
                    ratios[row, votes] = variances(gathered(table[latent], places[votes]))
            winners[part] = kept[(ratios / variance[kept, None]).argmin(0)]
        return fixed, winners

    fixed, winners = cast_votes(protocol.train_votes)
    table = np.bincount(winners * factors + fixed, minlength=latents * factors).reshape(latents, factors)
    majority = table.argmax(1)
    parts = {"train_accuracy": float((majority[winners] == fixed).mean()), "latents_kept": float(len(kept))}
    if protocol.test_votes:
        fixed, winners = cast_votes(protocol.test_votes)
    correct = majority[winners] == fixed
    by_factor = _accuracy_by_factor(correct, fixed, factors)
    return RawScore(float(correct.mean()), parts, by_factor, table.astype(np.float64))


def variances(batches: Float[np.ndarray, "votes items"]) -> Float[np.ndarray, "votes"]:
    """The unbiased variance of each row; exactly 0 if its numbers are equal, so that ties stay ties."""
    size = batches.shape[1]
    moved = batches - batches[:, :1]
    return np.asarray((np.einsum("vi,vi->v", moved, moved) - (moved @ np.ones(size)) ** 2 / size) / (size - 1))


def _accuracy_by_factor(
    correct: Bool[np.ndarray, "tests"], fixed: Int[np.ndarray, "tests"], factors: int
) -> tuple[float | None, ...]:
    """The accuracy of the tests of each factor; None for one that was never drawn."""
    hits, counts = np.bincount(fixed, correct, minlength=factors), np.bincount(fixed, minlength=factors)
    return tuple(float(hit / count) if count else None for hit, count in zip(hits, counts, strict=True))


def _robustness(data: MetricInputs, seed: int, quantile: float, bins: int, binned: str) -> RawScore:
    latents = data.codes.shape[1]
    matrix, greatest, varies = np.zeros((latents, len(data.names))), np.zeros(latents), np.zeros(latents, dtype=bool)
    orders = []
    for column, discrete in zip(data.factors.T, data.discrete, strict=True):
        whole = discrete and binned == CONTINUOUS
        values = column if whole else discretise(torch.from_numpy(column[:, None]), bins).numpy()[:, 0]
        counts = np.bincount(values.astype(np.int64))
        orders.append((np.argsort(values, kind="stable"), np.cumsum(counts[counts > 0])[:-1]))
    for some, codes in data.latent_blocks():
        varies[some], greatest[some] = np.ptp(codes, axis=0) > 0, np.abs(codes - codes.mean(0)).max(0)
        for place, (order, starts) in enumerate(orders):
            matrix[some, place] = _distance(codes[order], starts, quantile)
    kept, parts = np.flatnonzero(varies), {"latents_kept": float(varies.sum())}
    matrix[kept] = 1 - matrix[kept] / greatest[kept, None]
    matrix[~varies] = 0
    if not len(kept):
        return RawScore(0.0, parts, matrix=matrix)
    return RawScore(float(np.average(matrix[kept].max(1), weights=greatest[kept])), parts, matrix=matrix)


def _distance(
    ordered: Float[np.ndarray, "items latents"], starts: Int[np.ndarray, "others"], quantile: float
) -> Float[np.ndarray, "latents"]:
    """The mean over groups of a quantile of the distances of their items from their mean."""
    groups = np.split(ordered, starts)
    found = [np.quantile(np.abs(group - group.mean(0)), quantile, axis=0) for group in groups]
    return np.asarray(np.mean(found, axis=0))
