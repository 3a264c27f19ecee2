"""The table of latents: the type of each, what it encodes, and its traversal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.codes import Representation
from vaescope.data import Dataset
from vaescope.diagnosis.diagnose import Diagnosis
from vaescope.encoding import Traversals
from vaescope.errors import DataError
from vaescope.markup import Markup
from vaescope.numerics.linalg import correlation_matrices
from vaescope.numerics.moments import Moments
from vaescope.reporting.assets import render
from vaescope.reporting.pictures import histogram_counts, histogram_svg, strip
from vaescope.reporting.style import TYPE_STYLES, plural

MAX_PICTURED = 64  # latents with pictures
EXTREME_ITEMS = 3  # at either end of a latent's range
BINS = 21  # odd, so that one bar is centred at 0
SMALLEST_KL = 0.01  # nats; smaller values show as '<0.01'
# CSS class of a column -> its title, and the direction in which a first click sorts by it.
COLUMNS = {
    "latent": ("Latent", "ascending"),
    "kind": ("Type", "ascending"),
    "kl": ("KL, share of the rate", "descending"),
    "distributions": ("Means, variances", "ascending"),
    "correlation": ("Correlation with passive", "descending"),
    "encodes": ("Encodes", "ascending"),
    "traversals": ("Traversal", None),
    "examples": ("Extreme items", None),
}


@dataclass(frozen=True)
class LatentRow:
    """What the table says about one latent.

    Attributes:
        kl: The mean KL divergence from the prior, in nats.
        share: The share of the rate; None if the rate is infinite.
        means: The histogram of its means over `limits`, which all latents share.
        range: The least and the greatest mean.
        variances: The histogram of its variances, relative to the prior's, in 20 bins of [0, 1) and one above.
        variance: The mean of these variances.
        correlation: The largest absolute correlation of its means with those of another passive latent, `correlated`
            (Bonheme, figures 6.9 to 6.11); None without another passive latent.
        factor: The factor about which it carries most information beyond chance; None if there is no such factor.
        bits: That information; 0 if there is no such factor, None if the data have no factors.
        smallest: Indices of the items with the smallest means, in ascending order.
        largest: Indices of the items with the largest means, in descending order.
    """

    latent: int
    type: str
    kl: float
    share: float | None
    means: tuple[int, ...] = field(repr=False)
    limits: tuple[float, float]
    range: tuple[float, float]
    variances: tuple[int, ...] = field(repr=False)
    variance: float
    correlation: float | None
    correlated: int | None
    factor: str | None
    bits: float | None
    smallest: tuple[int, ...]
    largest: tuple[int, ...]


def latent_rows(diagnosis: Diagnosis, codes: Representation) -> tuple[LatentRow, ...]:
    """One row per latent, from codes and their diagnosis."""
    statistics = diagnosis.types.statistics
    if (statistics.count, statistics.latents) != tuple(codes.mean.shape):
        raise DataError(
            f"the diagnosis must be of the same codes: it has {statistics.count} items and {statistics.latents} "
            f"latents, the codes have {len(codes)} and {codes.latents}."
        )
    limit = float(codes.mean.abs().max()) or 1.0
    correlations = _strongest_correlations(codes.mean, diagnosis.types.passive)
    meaning = diagnosis.meaning
    factors: list[str | None] = [None] * codes.latents
    bits: list[float | None] = [None] * codes.latents
    if meaning is not None:
        known = np.where(meaning.beyond_chance, meaning.bits, 0.0)
        factors = [meaning.factors[row.argmax()] if row.any() else None for row in known]
        bits = known.max(1).tolist()
    rows = []
    for found in diagnosis.types.rows():
        latent = found["latent"]
        mean = codes.mean[:, latent]
        order = mean.argsort(stable=True).tolist()
        correlation, correlated = correlations[latent]
        rows.append(
            LatentRow(
                latent,
                found["type"],
                kl=found["kl"],
                share=found["kl_share"],
                means=histogram_counts(mean, (-limit, limit), BINS),
                limits=(-limit, limit),
                range=(float(mean.min()), float(mean.max())),
                variances=tuple(statistics.histogram[latent].tolist()),
                variance=float(statistics.relative_variance.mean[latent]),
                correlation=correlation,
                correlated=correlated,
                factor=factors[latent],
                bits=bits[latent],
                smallest=tuple(order[:EXTREME_ITEMS]),
                largest=tuple(order[::-1][:EXTREME_ITEMS]),
            )
        )
    return tuple(rows)


def pictured_latents(rows: Sequence[LatentRow]) -> tuple[int, ...]:
    """The latents that get pictures: those with the largest KL divergence, at most `MAX_PICTURED`."""
    largest = sorted(rows, key=lambda row: -row.kl)[:MAX_PICTURED]
    return tuple(sorted(row.latent for row in largest))


def latent_table(
    rows: Sequence[LatentRow],
    *,
    traversals: Traversals | None = None,
    items: Dataset | None = None,
    name: str = "latents",
) -> Markup:
    """The table as HTML, which `latents.js` makes sortable.

    Args:
        rows: One row per latent.
        traversals: The decoded items of each latent; without them the column is missing.
        items: The encoded items; without them the column is missing.
        name: The id of the table on the page.
    """
    pictured = set(pictured_latents(rows))
    absent = {
        "encodes": all(row.bits is None for row in rows),
        "traversals": traversals is None,
        "examples": items is None,
    }
    kinds = [row.type for row in rows]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in TYPE_STYLES if kind in kinds)
    return render(
        "latents.html",
        rows=rows,
        columns={kind: column for kind, column in COLUMNS.items() if not absent.get(kind)},
        name=name,
        caption=f"{plural(len(rows), 'latent')}: {counts}",
        styles=TYPE_STYLES,
        infinity=math.inf,
        smallest_kl=SMALLEST_KL,
        histogram=histogram_svg,
        span=lambda ends: " to ".join(map(short_number, ends)),
        traversals={} if traversals is None else _traversal_strips(traversals, pictured),
        examples={} if items is None else _extreme_items([row for row in rows if row.latent in pictured], items),
        example=None if traversals is None else traversals.example,
        unpictured=0 if traversals is None and items is None else len(rows) - len(pictured),
    )


def _traversal_strips(found: Traversals, pictured: set[int]) -> dict[int, list[tuple[Markup, str, str, str]]]:
    """Latent -> both traversals with their ends; vectors are drawn within limits that all latents share."""
    strips: dict[int, list[tuple[Markup, str, str, str]]] = {}
    for kind, words in ((found.wide, "wide range"), (found.usual, "range of the data")):
        limits = _limits([one.items for one in kind])
        for one in kind:
            if one.latent in pictured:
                low, high = short_number(one.values[0]), short_number(one.values[-1])
                alt = f"{len(one.values)} decoded items with latent {one.latent} from {low} to {high}, the others fixed"
                drawn = strip(one.items, one.items.shape[1:], alt, limits=limits)
                strips.setdefault(one.latent, []).append((drawn, low, words, high))
    return strips


def _extreme_items(rows: Sequence[LatentRow], items: Dataset) -> dict[int, list[tuple[Markup, str]]]:
    """Latent -> the items with the smallest and with the largest means."""
    strips = {}
    for row in rows:
        ends = {"smallest": row.smallest, "largest": row.largest}
        batches = {f"{end} mean": items.batch(torch.tensor(places)) for end, places in ends.items()}
        limits = _limits(list(batches.values()))
        strips[row.latent] = [
            (
                strip(
                    batch, batch.shape[1:], f"{len(batch)} items with the {words} of latent {row.latent}", limits=limits
                ),
                words,
            )
            for words, batch in batches.items()
        ]
    return strips


def _limits(tables: Sequence[Tensor]) -> tuple[float, float]:
    return min(float(one.min()) for one in tables), max(float(one.max()) for one in tables)


def short_number(value: float) -> str:
    """One decimal, or two below 1, without trailing zeros; the minus sign is as wide as a plus."""
    digits = f"{value:.{1 if abs(value) >= 1 else 2}f}".rstrip("0").rstrip(".")
    return "0" if digits == "-0" else digits.replace("-", "−")


def _strongest_correlations(
    mean: Float[Tensor, "items latents"], passive: Sequence[int]
) -> list[tuple[float, int] | tuple[None, None]]:
    """For each latent, the largest absolute correlation with another passive latent, and which one that is."""
    matrix = correlation_matrices(Moments.of(mean).covariance()).abs()
    others = ([other for other in passive if other != latent] for latent in range(len(matrix)))
    return [
        max(((float(matrix[latent, other]), other) for other in some), key=lambda pair: pair[0], default=(None, None))
        for latent, some in enumerate(others)
    ]
