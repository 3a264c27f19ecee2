"""FactorVAE score: whether the latent that varies least reveals which factor was held fixed (Kim and Mnih, 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Unpack

import numpy as np
from jaxtyping import Bool, Float, Int

from vaescope.checks import finite_number, whole_number
from vaescope.errors import unknown_name
from vaescope.metrics.inputs import CodesLike, FactorsLike
from vaescope.metrics.registry import METRICS
from vaescope.metrics.sampling import FactorGrid, FixedFactorSampler, blocks, evaluate_fixed, require_several_factors
from vaescope.metrics.score import MetricOptions, RawScore, Score

MAX_CACHED_NUMBERS = 1 << 16  # stay in a processor's cache


@dataclass(frozen=True)
class VotingProtocol:
    """How a published score votes.

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

    Noise scores about 1 / factors, and more for fewer than about 2,000 items, since the same items are then drawn again
    and again: use `scale=True`. The matrix counts the training votes; the score of a factor is the accuracy of its test
    votes.

    Args:
        codes: A `Representation`, an array, items x latents, or a `FactorGrid`.
        factors: One column for each factor. Default: those of the `Representation`.
        protocol: "dlib" (disentanglement_lib) or "mathieu", with more and larger votes, no pruning, and the score of
            the training votes (Mathieu et al., 2019). The other numbers default to the protocol's.
        train_votes, test_votes: Number of votes that assign a factor to each latent, and that are scored.
        batch: Number of items in a vote.
        prune: Leave out latents with a lower standard deviation; constant latents are always left out.
        names, exclude, types, half_samples, scale, seed: See `MetricOptions`.
    """
    chosen = _protocol(protocol, train_votes, test_votes, batch, prune)
    tests = f"{chosen.test_votes} others" if chosen.test_votes else "the same"
    estimator = f"{chosen.train_votes} votes of {chosen.batch} items, tested on {tests}"
    return evaluate_fixed("factor_vae", estimator, partial(_score, protocol=chosen), codes, factors, **options)


def cast_votes(
    sampler: FixedFactorSampler,
    fixed: Int[np.ndarray, "votes"],
    batch: int,
    variance: Float[np.ndarray, "latents"],
    kept: Int[np.ndarray, "kept"],
    generator: np.random.Generator,
) -> Int[np.ndarray, "votes"]:
    """The latent that each vote goes to; the first of several that vary equally little."""
    # Drawn ahead, so that later random numbers do not depend on how many votes are counted at a time.
    anchors = sampler.draw(generator.random(len(fixed)))[:, None]
    winners = np.empty(len(fixed), dtype=np.int64)
    for part in blocks(len(fixed), batch):
        uniform = generator.random((len(fixed[part]), batch))
        table, places = sampler.columns(sampler.draw_sharing(fixed[part, None], anchors[part], uniform))
        winners[part] = _least_varying(table, places, variance, kept)
    return winners


def variances(batches: Float[np.ndarray, "votes items"]) -> Float[np.ndarray, "votes"]:
    """The unbiased variance of each row; exactly 0 if its numbers are equal, so that ties stay ties."""
    size = batches.shape[1]
    moved = batches - batches[:, :1]
    return np.asarray((np.einsum("vi,vi->v", moved, moved) - (moved @ np.ones(size)) ** 2 / size) / (size - 1))


def accuracy_by_factor(
    correct: Bool[np.ndarray, "tests"], fixed: Int[np.ndarray, "tests"], factors: int
) -> tuple[float | None, ...]:
    """The accuracy of the tests of each factor; None for one that was never drawn."""
    hits, counts = np.bincount(fixed, correct, minlength=factors), np.bincount(fixed, minlength=factors)
    return tuple(float(hit / count) if count else None for hit, count in zip(hits, counts, strict=True))


def _least_varying(
    table: Float[np.ndarray, "latents rows"],
    places: Int[np.ndarray, "votes items"],
    variance: Float[np.ndarray, "latents"],
    kept: Int[np.ndarray, "kept"],
) -> Int[np.ndarray, "votes"]:
    ratios = np.empty((len(kept), len(places)))
    for part in blocks(len(places), places.shape[1], MAX_CACHED_NUMBERS):
        for row, latent in enumerate(kept):
            ratios[row, part] = variances(table[latent].take(places[part]))
    return np.asarray(kept[(ratios / variance[kept, None]).argmin(0)])


def _score(sampler: FixedFactorSampler, seed: int, protocol: VotingProtocol) -> RawScore:
    require_several_factors(sampler)
    sample = sampler.sample
    latents, factors = sample.codes.shape[1], len(sample.names)
    varying = np.ptp(sample.codes, axis=0) > 0
    variance = sample.codes.var(0, ddof=1)
    kept = np.flatnonzero(varying & (np.sqrt(variance) >= protocol.prune))
    if not len(kept):
        nothing = np.zeros((latents, factors))
        return RawScore(0.0, {"train_accuracy": 0.0, "latents_kept": 0.0}, (0.0,) * factors, nothing)
    generator = np.random.default_rng((seed, 3))
    fixed = generator.integers(factors, size=protocol.train_votes)
    winners = cast_votes(sampler, fixed, protocol.batch, variance, kept, generator)
    table = np.bincount(winners * factors + fixed, minlength=latents * factors).reshape(latents, factors)
    majority = table.argmax(1)
    train = float((majority[winners] == fixed).mean())
    if protocol.test_votes:
        fixed = generator.integers(factors, size=protocol.test_votes)
        winners = cast_votes(sampler, fixed, protocol.batch, variance, kept, generator)
    correct = majority[winners] == fixed
    parts = {"train_accuracy": train, "latents_kept": float(len(kept))}
    return RawScore(float(correct.mean()), parts, accuracy_by_factor(correct, fixed, factors), table.astype(np.float64))


def _protocol(
    name: str, train_votes: int | None, test_votes: int | None, batch: int | None, prune: float | None
) -> VotingProtocol:
    if name not in PROTOCOLS:
        raise unknown_name("protocol", name, PROTOCOLS)
    usual = PROTOCOLS[name]
    return VotingProtocol(
        usual.train_votes if train_votes is None else whole_number("train_votes", train_votes, 1),
        usual.test_votes if test_votes is None else whole_number("test_votes", test_votes, 0),
        usual.batch if batch is None else whole_number("batch", batch, 2),
        usual.prune if prune is None else finite_number("prune", prune, at_least=0),
    )
