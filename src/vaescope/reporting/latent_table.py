"""The table of latents: the type of each, what it encodes, and its traversal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.codes import Representation
from vaescope.data import Dataset
from vaescope.diagnosis.diagnose import Diagnosis
from vaescope.encoding import Traversal, Traversals
from vaescope.errors import DataError
from vaescope.markup import Markup, element, join
from vaescope.metrics.meaning import Meaning
from vaescope.numerics.linalg import correlation_matrices
from vaescope.numerics.moments import Moments
from vaescope.reporting.pictures import histogram_counts, histogram_svg, strip
from vaescope.reporting.style import TYPE_STYLES, plural

MAX_PICTURED = 64  # latents with pictures
EXTREME_ITEMS = 3  # at either end of a latent's range
BINS = 21  # odd, so that one bar is centred at 0
DASH = "–"
SMALLEST_KL = 0.01  # nats; smaller values show as '<0.01'


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
    encoded = {} if diagnosis.meaning is None else _encoded_factors(diagnosis.meaning)
    no_bits = None if diagnosis.meaning is None else 0.0
    count = min(EXTREME_ITEMS, len(codes))
    rows = []
    for found in diagnosis.types.rows():
        latent = found["latent"]
        mean = codes.mean[:, latent]
        order = mean.argsort(stable=True).tolist()
        correlation, correlated = correlations[latent]
        factor, bits = encoded.get(latent, (None, no_bits))
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
                factor=factor,
                bits=bits,
                smallest=tuple(order[:count]),
                largest=tuple(order[: -count - 1 : -1]),
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
    columns = [LATENT, TYPE, KL, DISTRIBUTIONS, CORRELATION]
    columns += [ENCODES] if any(row.bits is not None for row in rows) else []
    columns += [] if traversals is None else [_traversal_column(traversals, pictured)]
    columns += [] if items is None else [_extremes_column(items, pictured)]
    head = element("thead", element("tr", *[_header(column) for column in columns]))
    lines = [element("tr", *[column.cell(row) for column in columns], class_=row.type) for row in rows]
    caption = element("caption", _caption(rows))
    table = element("table", caption, head, element("tbody", *lines), class_="sortable", id=name)
    return element(
        "div",
        _sort_choice(columns, name),
        element("div", table, class_="latents-scroll", tabindex=0, role="region", aria_label=f"Table of {name}"),
        element("p", " ".join(_notes(rows, traversals, items)), class_="quiet"),
        class_="latents",
    )


@dataclass(frozen=True)
class LatentColumn:
    """A column: its title, its CSS class, the content of its cells, and the value to sort by, if any."""

    title: str
    css_class: str
    content: Callable[[LatentRow], Markup | str]
    sort: Callable[[LatentRow], float | str | None] | None = None
    first: str = "ascending"
    header: bool = False

    def cell(self, row: LatentRow) -> Markup:
        """The cell of one latent; cells without a value to sort by come last."""
        value = None if self.sort is None else self.sort(row)
        value = "Infinity" if value == math.inf else value  # which JavaScript parses as a number
        name, scope = ("th", "row") if self.header else ("td", None)
        labels = {"data_sort": value, "data_label": self.title}
        return element(name, self.content(row), scope=scope, class_=self.css_class, **labels)


def _header(column: LatentColumn) -> Markup:
    if column.sort is None:
        return element("th", column.title, scope="col", class_=column.css_class)
    button = element("button", column.title, type="button", data_first=column.first)
    # Initially, the rows are sorted by latent.
    sorted_by = "ascending" if column.header else None
    return element("th", button, scope="col", class_=column.css_class, aria_sort=sorted_by)


def _sort_choice(columns: Sequence[LatentColumn], name: str) -> Markup:
    """A menu that sorts on narrow screens; hidden until its script runs."""
    options = [
        element("option", column.title, value=place, data_first=column.first)
        for place, column in enumerate(columns)
        if column.sort is not None
    ]
    menu = element("label", "Sort by ", element("select", *options, class_="sort-by"))
    reverse = element("button", "Reverse", type="button", class_="sort-turn")
    return element("p", menu, reverse, class_="sort-choice", data_table=name, hidden=True)


def _two_lines(value: str, note: str) -> Markup:
    return join(element("b", value, class_="line"), element("span", note, class_="note"))


def _type(row: LatentRow) -> Markup:
    sign = element("span", TYPE_STYLES[row.type].sign, class_="sign", aria_hidden="true")
    return element("span", sign, " ", row.type, class_=f"type {row.type}")


def _kl(row: LatentRow) -> Markup:
    share = DASH if row.share is None else f"{row.share:.0%}"
    filled = element("span", style=f"width:{100 * (row.share or 0):.1f}%")
    number = "∞" if math.isinf(row.kl) else f"{row.kl:.2f}" if row.kl >= SMALLEST_KL else f"<{SMALLEST_KL}"
    bar = element("span", filled, class_="share", aria_hidden="true")
    line = element("span", element("b", number), " nats", class_="line")
    return join(line, bar, element("span", share, class_="note"))


def _distributions(row: LatentRow) -> Markup:
    ends, axis = (" to ".join(map(short_number, pair)) for pair in (row.range, row.limits))
    means = f"means of latent {row.latent}: {ends}; bars from {axis}"
    variances = f"variances of latent {row.latent}: mean {row.variance:.2g}; bars from 0 to 1, the last for 1 and above"
    return join(
        _figure(histogram_svg(row.means, means), ends),
        _figure(histogram_svg(row.variances, variances), f"mean {row.variance:.2g}"),
    )


def _correlation(row: LatentRow) -> Markup | str:
    return DASH if row.correlation is None else _two_lines(f"{row.correlation:.2f}", f"latent {row.correlated}")


def _encodes(row: LatentRow) -> Markup:
    if row.factor is None:
        return element("span", "no factor", class_="note")
    return _two_lines(row.factor, f"{row.bits:.2f} bits")


LATENT = LatentColumn("Latent", "latent", lambda row: str(row.latent), lambda row: row.latent, header=True)
TYPE = LatentColumn("Type", "kind", _type, lambda row: row.type)
KL = LatentColumn("KL, share of the rate", "kl", _kl, lambda row: row.kl, "descending")
DISTRIBUTIONS = LatentColumn("Means, variances", "distributions", _distributions, lambda row: row.variance)
CORRELATION = LatentColumn(
    "Correlation with passive", "correlation", _correlation, lambda row: row.correlation, "descending"
)
ENCODES = LatentColumn("Encodes", "encodes", _encodes, lambda row: row.factor)


def _traversal_column(found: Traversals, pictured: set[int]) -> LatentColumn:
    """Both traversals, one above the other; vectors are drawn within limits that all latents share."""
    kinds = [
        ({one.latent: one for one in kind}, words, _limits([one.items for one in kind]))
        for kind, words in ((found.wide, "wide range"), (found.usual, "range of the data"))
    ]

    def content(row: LatentRow) -> Markup | str:
        strips = [_traversal(one[row.latent], words, limits) for one, words, limits in kinds if row.latent in one]
        return join(*strips) if row.latent in pictured and strips else DASH

    return LatentColumn("Traversal", "traversals", content)


def _traversal(one: Traversal, words: str, limits: tuple[float, float]) -> Markup:
    low, high = short_number(one.values[0]), short_number(one.values[-1])
    alt = f"{len(one.values)} decoded items with latent {one.latent} from {low} to {high}, the others fixed"
    drawn = strip(one.items, one.items.shape[1:], alt, limits=limits)
    return _figure(drawn, element("span", low), element("span", words), element("span", high))


def _extremes_column(items: Dataset, pictured: set[int]) -> LatentColumn:
    """The items with the smallest and the largest means, one above the other."""

    def content(row: LatentRow) -> Markup | str:
        if row.latent not in pictured:
            return DASH
        ends = {"smallest": row.smallest, "largest": row.largest}
        batches = {words: items.batch(torch.tensor(places)) for words, places in ends.items()}
        limits = _limits(list(batches.values()))
        return join(*[_extremes(row.latent, batch, words, limits) for words, batch in batches.items()])

    return LatentColumn("Extreme items", "examples", content)


def _extremes(latent: int, batch: Tensor, words: str, limits: tuple[float, float]) -> Markup:
    alt = f"{len(batch)} items with the {words} mean of latent {latent}"
    return _figure(strip(batch, batch.shape[1:], alt, limits=limits), f"{words} mean")


def _figure(drawn: Markup, *caption: Markup | str) -> Markup:
    return element("figure", drawn, element("figcaption", *caption))


def _limits(tables: Sequence[Tensor]) -> tuple[float, float]:
    return min(float(one.min()) for one in tables), max(float(one.max()) for one in tables)


def _caption(rows: Sequence[LatentRow]) -> str:
    kinds = [row.type for row in rows]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in TYPE_STYLES if kind in kinds)
    return f"{plural(len(rows), 'latent')}: {counts}"


def _notes(rows: Sequence[LatentRow], traversals: Traversals | None, items: Dataset | None) -> list[str]:
    """How to read the table."""
    notes = [
        "Histograms of means share one range; histograms of variances (relative to the prior's) run from 0 to 1 and "
        "above.",
        "Correlation: the largest correlation of a latent's means with those of another, passive latent.",
    ]
    if traversals is not None:
        notes.append(
            f"Traversal: one latent of the code of item {traversals.example} changes while the others stay fixed, "
            "over a wide range that all latents share and over the 2% to 98% quantiles of the latent's own means."
        )
    if len(rows) > MAX_PICTURED and not (traversals is None and items is None):
        others = len(rows) - MAX_PICTURED
        notes.append(f"Only the {MAX_PICTURED} latents with the largest KL have pictures, the other {others} do not.")
    return notes


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


def _encoded_factors(meaning: Meaning) -> dict[int, tuple[str, float]]:
    """Latent -> the factor about which it carries most bits beyond chance, and the bits."""
    encoded = {}
    for place, latent in enumerate(meaning.latents):
        known = [column for column in range(len(meaning.factors)) if meaning.beyond_chance[place, column]]
        if known:
            best = max(known, key=lambda column: meaning.bits[place, column])
            encoded[latent] = (meaning.factors[best], float(meaning.bits[place, best]))
    return encoded
