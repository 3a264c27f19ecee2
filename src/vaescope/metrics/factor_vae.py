"""FactorVAE score: whether the latent that varies least tells which factor was held fixed (Kim and Mnih, 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

import numpy as np
from jaxtyping import Float, Int

from vaescope.checks import finite_number, whole_number
from vaescope.errors import unknown_name
from vaescope.metrics.sampling import Source, blocks, check_factors, evaluate_fixed
from vaescope.metrics.score import Common, Measured, Score

CACHED = 1 << 16  # numbers at a time that stay in a processor's cache


@dataclass(frozen=True)
class Protocol:
    """Votes to learn from and to test on (0: the same ones), items in a vote, the least spread of a latent."""

    votes: int
    tested: int
    batch: int
    prune: float


PROTOCOLS = {
    "dlib": Protocol(10_000, 5_000, 64, 0.05),
    "mathieu": Protocol(20_000, 0, 1_000, 0.0),
}


def factor_vae(
    codes: Any,
    factors: Any = None,
    *,
    protocol: str = "dlib",
    votes: int | None = None,
    tested: int | None = None,
    batch: int | None = None,
    prune: float | None = None,
    **common: Unpack[Common],
) -> Score:
    """The share of votes that the table of majorities gets right.

    A vote draws a factor and `batch` items that share its value. It goes to the latent of least variance, over its own
    variance among all items; `votes` say which factor each latent stands for, and `tested` further ones are scored.
    Latents of a standard deviation below `prune`, in their own units, are left out, as are those that do not vary; with
    none left the score is 0. The other protocol, "mathieu", has larger and more votes, prunes nothing and scores the
    votes it learned from (Mathieu et al., 2019); any number given goes before the protocol's.

    Noise scores about 1 / factors; more where items are few (below some 2,000), since those that share a value are then
    drawn again and again: ask for `scale`. The matrix has the votes that were learned from; the score of a factor is
    the share of its own tested votes. `codes` may be a `Grid`.
    """
    chosen = _chosen(protocol, votes, tested, batch, prune)
    tests = f"{chosen.tested} others" if chosen.tested else "the same"
    estimator = f"{chosen.votes} votes of {chosen.batch} items, tested on {tests}"
    return evaluate_fixed("factor_vae", estimator, partial(_score, protocol=chosen), codes, factors, **common)


def voted(
    source: Source,
    fixed: Int[np.ndarray, "votes"],
    batch: int,
    variance: Float[np.ndarray, "latents"],
    kept: Int[np.ndarray, "kept"],
    generator: np.random.Generator,
) -> Int[np.ndarray, "votes"]:
    """The latent that each vote goes to; the first of several that vary equally little."""
    # Drawn ahead, so that the numbers that follow do not depend on how many votes are counted at a time.
    anchors = source.anywhere(generator.random(len(fixed)))[:, None]
    winners = np.empty(len(fixed), dtype=np.int64)
    for part in blocks(len(fixed), batch):
        uniform = generator.random((len(fixed[part]), batch))
        table, places = source.columns(source.sharing(fixed[part, None], anchors[part], uniform))
        winners[part] = _least_varying(table, places, variance, kept)
    return winners


def variances(batches: Float[np.ndarray, "votes items"]) -> Float[np.ndarray, "votes"]:
    """The unbiased variance of each row; exactly 0 where its numbers are equal, so that ties stay ties."""
    size = batches.shape[1]
    moved = batches - batches[:, :1]
    return np.asarray((np.einsum("vi,vi->v", moved, moved) - (moved @ np.ones(size)) ** 2 / size) / (size - 1))


def _least_varying(
    table: Float[np.ndarray, "latents rows"],
    places: Int[np.ndarray, "votes items"],
    variance: Float[np.ndarray, "latents"],
    kept: Int[np.ndarray, "kept"],
) -> Int[np.ndarray, "votes"]:
    ratios = np.empty((len(kept), len(places)))
    for part in blocks(len(places), places.shape[1], CACHED):
        for row, latent in enumerate(kept):
            ratios[row, part] = variances(table[latent].take(places[part]))
    return kept[(ratios / variance[kept, None]).argmin(0)]


def _score(source: Source, seed: int, protocol: Protocol) -> Measured:
    check_factors(source)
    sample = source.sample
    latents, factors = sample.codes.shape[1], len(sample.names)
    varying = np.ptp(sample.codes, axis=0) > 0
    variance = sample.codes.var(0, ddof=1)
    kept = np.flatnonzero(varying & (np.sqrt(variance) >= protocol.prune))
    if not len(kept):
        nothing = np.zeros((latents, factors))
        return Measured(0.0, {"train_accuracy": 0.0, "latents_kept": 0.0}, (0.0,) * factors, nothing)
    generator = np.random.default_rng((seed, 3))
    fixed = generator.integers(factors, size=protocol.votes)
    winners = voted(source, fixed, protocol.batch, variance, kept, generator)
    table = np.bincount(winners * factors + fixed, minlength=latents * factors).reshape(latents, factors)
    majority = table.argmax(1)
    train = float((majority[winners] == fixed).mean())
    if protocol.tested:
        fixed = generator.integers(factors, size=protocol.tested)
        winners = voted(source, fixed, protocol.batch, variance, kept, generator)
    right = majority[winners] == fixed
    parts = {"train_accuracy": train, "latents_kept": float(len(kept))}
    return Measured(float(right.mean()), parts, shares(right, fixed, factors), table.astype(np.float64))


def shares(right: np.ndarray, fixed: Int[np.ndarray, "tests"], factors: int) -> tuple[float | None, ...]:
    """How much of each factor's tests was right; None for one that was never drawn."""
    hits, counts = np.bincount(fixed, right, minlength=factors), np.bincount(fixed, minlength=factors)
    return tuple(float(hit / count) if count else None for hit, count in zip(hits, counts, strict=True))


def _chosen(protocol: str, votes: int | None, tested: int | None, batch: int | None, prune: float | None) -> Protocol:
    if protocol not in PROTOCOLS:
        raise unknown_name("protocol", protocol, PROTOCOLS)
    usual = PROTOCOLS[protocol]
    return Protocol(
        usual.votes if votes is None else whole_number("votes", votes, 1),
        usual.tested if tested is None else whole_number("tested", tested, 0),
        usual.batch if batch is None else whole_number("batch", batch, 2),
        usual.prune if prune is None else finite_number("prune", prune, at_least=0),
    )
