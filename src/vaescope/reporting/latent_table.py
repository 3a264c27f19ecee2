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
from vaescope.numerics.moments import RunningMoments
from vaescope.numerics.variable_type_names import PASSIVE
from vaescope.reporting.assets import render
from vaescope.reporting.pictures import histogram_counts, histogram_svg, strip, value_range
from vaescope.reporting.style import TYPE_STYLES, plural

MAX_PICTURED = 64  # latents with pictures
EXTREME_ITEMS = 3  # items at either end of a latent's range
BINS = 21  # odd, so that one bar is centred at 0
SMALLEST_KL = 0.01  # nats; smaller values show as '<0.01'
# CSS class of a column -> its title, and the direction in which a first click sorts by it.
COLUMNS = {
    "latent": ("Latent", "ascending"),
    "encodes": ("Encodes", "ascending"),
    "kind": ("Type", "ascending"),
    "kl": ("Rate, share", "descending"),
    "traversals": ("Traversal", None),
    "examples": ("Extreme items", None),
    "distributions": ("Means, variances", "ascending"),
    "correlation": ("Correlation with passive", "descending"),
}


@dataclass(frozen=True)
class LatentRow:
    """The row of one latent.

    Attributes:
        kl: The mean KL divergence from the prior, in nats.
        share: The share of the rate; None if the rate is infinite.
        means: The histogram of its means over `limits`, which all latents share.
        range: The least and the greatest mean.
        variances: The histogram of its variances, relative to the prior's, in 20 bins of [0, 1) and one above.
        variance: The mean of these variances.
        correlation: The largest absolute correlation of its means with those of another passive latent, `correlated`
            (Bonheme, figures 6.9 to 6.11); None without another passive latent.
        factor: The factor that it encodes, as `Meaning` defines it, with most information; None if there is no such
            factor.
        meaning: The factor, where the data have several; a single one would say the same of every latent.
        bits: That information; 0 if there is no such factor, None if the data have no factors.
        smallest: Indices of the items with the smallest means, in ascending order; of spatial codes, means are averages
            over the positions.
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
    meaning: str | None
    bits: float | None
    smallest: tuple[int, ...]
    largest: tuple[int, ...]

    @property
    def name(self) -> str:
        """The latent with what it encodes, such as 'latent 11 · position x'."""
        return latent_name(self.latent, self.meaning)


def latent_name(latent: int, meaning: str | None, noun: str = "latent") -> str:
    """A latent, or a channel of a spatial code, with what it encodes, if that is known."""
    return f"{noun} {latent}" if meaning is None else f"{noun} {latent} · {meaning}"


def in_display_order(rows: Sequence[LatentRow]) -> list[LatentRow]:
    """The rows with the largest rates first."""
    return sorted(rows, key=lambda row: -row.kl)


def kl_words(kl: float) -> str:
    """A rate in nats with two decimals."""
    if math.isinf(kl):
        return "∞"
    return f"{kl:.2f}" if kl >= SMALLEST_KL else f"<{SMALLEST_KL}"


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
        known = np.where(meaning.encodes, meaning.bits, 0.0)
        for latent, row in zip(meaning.latents, known, strict=True):
            factors[latent] = meaning.factors[row.argmax()] if row.any() else None
            bits[latent] = float(row.max())
    rows, item_means = [], codes.item_means()
    for found in diagnosis.types.rows():
        latent = found["latent"]
        mean = codes.mean[:, latent]
        order = item_means[:, latent].argsort(stable=True).tolist()
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
                meaning=factors[latent] if meaning is not None and len(meaning.factors) > 1 else None,
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
    limits: tuple[float, float] | None = None,
    note: str = "",
) -> Markup:
    """The table as HTML, which `latents.js` makes sortable.

    Args:
        rows: One row per latent.
        traversals: The decoded items of each latent; without them the column is missing.
        items: The encoded items; without them the column is missing.
        name: The id of the table on the page.
        limits: The values of decoded pixels that are drawn black and white; default: 0 and 1.
        note: A sentence below the table, after the description of its columns.
    """
    pictured = set(pictured_latents(rows))
    absent = {
        "encodes": all(row.bits is None for row in rows),
        "traversals": traversals is None,
        "examples": items is None,
        "correlation": all(row.correlation is None for row in rows),
    }
    ordered = in_display_order(rows)
    used, passive = ([row for row in ordered if (row.type == PASSIVE) is fold] for fold in (False, True))
    return render(
        "latents.html",
        tables=[
            {"name": identity, "rows": some, "caption": _caption(some), "folded": bool(used) and some is passive}
            for identity, some in ((name, used), (f"{name}-passive", passive))
            if some
        ],
        columns={kind: column for kind, column in COLUMNS.items() if not absent.get(kind)},
        note=note,
        styles=TYPE_STYLES,
        kl_words=kl_words,
        histogram=histogram_svg,
        span=lambda ends: " to ".join(map(short_number, ends)),
        traversals={} if traversals is None else _traversal_strips(traversals, pictured, limits),
        examples={} if items is None else _extreme_items([row for row in rows if row.latent in pictured], items),
        example=None if traversals is None else traversals.example,
        unpictured=0 if traversals is None and items is None else len(rows) - len(pictured),
        pictured=len(pictured),
    )


def _caption(rows: Sequence[LatentRow]) -> str:
    kinds = [row.type for row in rows]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in TYPE_STYLES if kind in kinds)
    return f"{plural(len(rows), 'latent')}: {counts}"


def _traversal_strips(
    found: Traversals, pictured: set[int], pixel_limits: tuple[float, float] | None
) -> dict[int, tuple[Markup, str, str]]:
    """Latent -> its traversal over the range of the data with both ends; lines have limits that all latents share."""
    strips: dict[int, tuple[Markup, str, str]] = {}
    limits = value_range(one.items for one in found.usual) if found.usual[0].items.ndim < 4 else pixel_limits
    for one in found.usual:
        if one.latent in pictured:
            low, high = short_number(one.values[0]), short_number(one.values[-1])
            alt = f"{len(one.values)} decoded items with latent {one.latent} from {low} to {high}, the others fixed"
            strips[one.latent] = strip(one.items, one.items.shape[1:], alt, limits=limits), low, high
    return strips


def _extreme_items(rows: Sequence[LatentRow], items: Dataset) -> dict[int, list[tuple[Markup, str]]]:
    """Latent -> the items with the smallest and with the largest means."""
    strips = {}
    for row in rows:
        ends = {"smallest": row.smallest, "largest": row.largest}
        batches = {f"{end} mean": items.in_data_scale(torch.tensor(places)) for end, places in ends.items()}
        limits = items.range_in_data_scale if items.is_image else value_range(batches.values())
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


def short_number(value: float) -> str:
    """One decimal, or two below 1, without trailing zeros; the minus sign is as wide as a plus."""
    digits = f"{value:.{1 if abs(value) >= 1 else 2}f}".rstrip("0").rstrip(".")
    return "0" if digits == "-0" else digits.replace("-", "−")


def _strongest_correlations(
    mean: Float[Tensor, "items latents"], passive: Sequence[int]
) -> list[tuple[float, int] | tuple[None, None]]:
    """For each latent, the largest absolute correlation with another passive latent, and its index."""
    matrix = correlation_matrices(RunningMoments.of(mean).covariance()).abs()
    others = ([other for other in passive if other != latent] for latent in range(len(matrix)))
    return [
        max(((float(matrix[latent, other]), other) for other in some), key=lambda pair: pair[0], default=(None, None))
        for latent, some in enumerate(others)
    ]
