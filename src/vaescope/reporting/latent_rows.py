"""What the table of latents says of each: its type, its share of the rate, its codes, what it carries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor

from vaescope.codes import Representation
from vaescope.diagnosis.diagnose import Diagnosis
from vaescope.errors import DataError
from vaescope.numerics.linalg import correlation_matrices
from vaescope.numerics.moments import Moments
from vaescope.reporting.pictures import counts_of

MOST = 64  # latents with pictures
EXAMPLES = 3  # items at either end
BINS = 21  # odd, so that one bar stands at 0


@dataclass(frozen=True)
class LatentRow:
    """What the table says of one latent.

    Attributes:
        kl: Mean divergence from the prior in nats; `share` of the sum over latents, None where that is infinite.
        means: Counts of its means between the limits, which are the same for all latents; `range` is its own.
        variances: Counts in 20 parts of [0, 1) and from 1 up, in units of the prior's; `variance` is the mean of all.
        correlation: The largest absolute one of its means with those of another, passive latent (Bonheme, figures 6.9
            to 6.11), which is `correlated`; None without another passive one.
        factor: Of those it carries beyond chance the one with most `bits`; None, and 0 bits, where it carries
            none. Where there are no factors both are None.
        smallest: Places of the items with the smallest means, the very smallest first; `largest` alike.
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
    """One row for each latent, from the diagnosis of these codes."""
    statistics = diagnosis.types.statistics
    if (statistics.count, statistics.latents) != tuple(codes.mean.shape):
        raise DataError(
            f"the diagnosis must be that of the codes: it is of {statistics.count} items and {statistics.latents} "
            f"latents, the codes have {len(codes)} and {codes.latents}."
        )
    reach = float(codes.mean.abs().max()) or 1.0
    strongest = _strongest(codes.mean, diagnosis.types.passive)
    carried = _carried(diagnosis)
    nothing = None if diagnosis.meaning is None else 0.0
    few = min(EXAMPLES, len(codes))
    rows = []
    for found in diagnosis.types.rows():
        latent = found["latent"]
        mean = codes.mean[:, latent]
        order = mean.argsort(stable=True).tolist()
        correlation, correlated = strongest[latent]
        factor, bits = carried.get(latent, (None, nothing))
        rows.append(
            LatentRow(
                latent,
                found["type"],
                kl=found["kl"],
                share=found["kl_share"],
                means=counts_of(mean, (-reach, reach), BINS),
                limits=(-reach, reach),
                range=(float(mean.min()), float(mean.max())),
                variances=tuple(statistics.histogram[latent].tolist()),
                variance=float(statistics.relative_variance.mean[latent]),
                correlation=correlation,
                correlated=correlated,
                factor=factor,
                bits=bits,
                smallest=tuple(order[:few]),
                largest=tuple(order[: -few - 1 : -1]),
            )
        )
    return tuple(rows)


def pictured(rows: Sequence[LatentRow]) -> tuple[int, ...]:
    """The latents that get pictures: at most `MOST`, those with the largest divergence."""
    most = sorted(rows, key=lambda row: -row.kl)[:MOST]
    return tuple(sorted(row.latent for row in most))


def _strongest(
    mean: Float[Tensor, "items latents"], passive: Sequence[int]
) -> list[tuple[float, int] | tuple[None, None]]:
    """For each latent the largest absolute correlation with another, passive one, and which that is."""
    matrix = correlation_matrices(Moments.of(mean).covariance()).abs()
    others = ([other for other in passive if other != latent] for latent in range(len(matrix)))
    return [
        max(((float(matrix[latent, other]), other) for other in some), key=lambda pair: pair[0], default=(None, None))
        for latent, some in enumerate(others)
    ]


def _carried(diagnosis: Diagnosis) -> dict[int, tuple[str, float]]:
    """Latent -> the factor that it carries most of, and how many bits, where that is more than chance."""
    told = diagnosis.meaning
    if told is None:
        return {}
    carried = {}
    for place, latent in enumerate(told.latents):
        known = [column for column in range(len(told.factors)) if told.beyond_chance[place, column]]
        if known:
            best = max(known, key=lambda column: told.bits[place, column])
            carried[latent] = (told.factors[best], float(told.bits[place, best]))
    return carried
