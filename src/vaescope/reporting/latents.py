"""The table of latents: what each is, what it carries, and what it looks like when it moves."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vaescope.data import Dataset
from vaescope.encoding import Traversal, Traversals
from vaescope.markup import Markup, element, join
from vaescope.reporting.latent_rows import MOST, LatentRow, latent_rows, pictured
from vaescope.reporting.pictures import histogram_svg, strip
from vaescope.reporting.style import TYPE_STYLES

DASH = "–"
SMALL = 0.01  # nats, the least that two decimals can say

__all__ = ["MOST", "LatentRow", "latent_rows", "latents_table", "pictured"]


def latents_table(
    rows: Sequence[LatentRow],
    *,
    traversals: Traversals | None = None,
    items: Dataset | None = None,
    name: str = "latents",
) -> Markup:
    """One row for each latent, to be sorted by `latents.js`; what there is no material for is left out.

    `items` are those that were encoded, `name` tells the table from others on the page.
    """
    shown = set(pictured(rows))
    columns = [
        LATENT,
        TYPE,
        KL,
        DISTRIBUTIONS,
        CORRELATION,
        *([CARRIES] if any(row.bits is not None for row in rows) else []),
    ]
    columns += [] if traversals is None else [_traversal_column(traversals, shown)]
    columns += [] if items is None else [_example_column(items, shown)]
    head = element("thead", element("tr", *[_header(column) for column in columns]))
    lines = [element("tr", *[column.cell_of(row) for column in columns], class_=row.type) for row in rows]
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
class Column:
    """A column: its title, its class, what is in its cells, and by what they are sorted, where they can be."""

    title: str
    kind: str
    content: Callable[[LatentRow], Any]
    sort: Callable[[LatentRow], Any] | None = None
    first: str = "ascending"
    header: bool = False

    def cell_of(self, row: LatentRow) -> Markup:
        """The cell of a latent; without a value to sort by it comes last."""
        value = None if self.sort is None else self.sort(row)
        value = "Infinity" if value == math.inf else value  # what scripts read as a number
        name, scope = ("th", "row") if self.header else ("td", None)
        labels = {"data_sort": value, "data_label": self.title}
        return element(name, self.content(row), scope=scope, class_=self.kind, **labels)


def _header(column: Column) -> Markup:
    if column.sort is None:
        return element("th", column.title, scope="col", class_=column.kind)
    button = element("button", column.title, type="button", data_first=column.first)
    # The rows come in the order of the latents.
    sorted_by = "ascending" if column.header else None
    return element("th", button, scope="col", class_=column.kind, aria_sort=sorted_by)


def _sort_choice(columns: Sequence[Column], name: str) -> Markup:
    """What sorts where the header has no room; hidden until the script that it needs is there."""
    options = [
        element("option", column.title, value=place, data_first=column.first)
        for place, column in enumerate(columns)
        if column.sort is not None
    ]
    chooser = element("select", *options, class_="sort-by")
    turn = element("button", "Reverse", type="button", class_="sort-turn")
    return element("p", element("label", "Sort by ", chooser), turn, class_="sort-choice", data_table=name, hidden=True)


def _type(row: LatentRow) -> Markup:
    sign = element("span", TYPE_STYLES[row.type].sign, class_="sign", aria_hidden="true")
    return element("span", sign, " ", row.type, class_=f"type {row.type}")


def _kl(row: LatentRow) -> Markup:
    share = DASH if row.share is None else f"{row.share:.0%}"
    filled = element("span", style=f"width:{100 * (row.share or 0):.1f}%")
    number = "∞" if math.isinf(row.kl) else f"{row.kl:.2f}" if row.kl >= SMALL else f"<{SMALL}"
    bar = element("span", filled, class_="share", aria_hidden="true")
    return join(
        element("span", element("b", number), " nats", class_="line"), bar, element("span", share, class_="beside")
    )


def _distributions(row: LatentRow) -> Markup:
    low, high = row.range
    ends = f"{short_number(low)} to {short_number(high)}"
    axis = " to ".join(short_number(limit) for limit in row.limits)
    means = f"means of latent {row.latent}: from {ends}; bars from {axis}"
    variances = (
        f"variances of latent {row.latent}: {row.variance:.2g} on average; bars from 0 to 1, the last for 1 and above"
    )
    return join(
        _figure(histogram_svg(row.means, means), ends),
        _figure(histogram_svg(row.variances, variances), f"≈ {row.variance:.2g}"),
    )


def _correlation(row: LatentRow) -> Any:
    if row.correlation is None:
        return DASH
    return join(
        element("b", f"{row.correlation:.2f}", class_="line"),
        element("span", f"latent {row.correlated}", class_="beside"),
    )


def _carries(row: LatentRow) -> Any:
    if row.factor is None:
        return element("span", "no factor", class_="beside")
    return join(element("b", row.factor, class_="line"), element("span", f"{row.bits:.2f} bits", class_="beside"))


LATENT = Column("Latent", "latent", lambda row: row.latent, lambda row: row.latent, header=True)
TYPE = Column("Type", "kind", _type, lambda row: row.type)
KL = Column("KL, share of the rate", "kl", _kl, lambda row: row.kl, "descending")
DISTRIBUTIONS = Column("Means, variances", "distributions", _distributions, lambda row: row.variance)
CORRELATION = Column("Correlation with passive", "correlation", _correlation, lambda row: row.correlation, "descending")
CARRIES = Column("Carries", "carries", _carries, lambda row: row.factor)


def _traversal_column(found: Traversals, shown: set[int]) -> Column:
    """Both traversals, one above the other; vectors are drawn within limits that all latents share."""
    kinds = [
        ({one.latent: one for one in kind}, words, _limits([one.items for one in kind]))
        for kind, words in ((found.wide, "wide range"), (found.usual, "range of the data"))
    ]

    def content(row: LatentRow) -> Any:
        drawn = [_traversal(one[row.latent], words, limits) for one, words, limits in kinds if row.latent in one]
        return join(*drawn) if row.latent in shown and drawn else DASH

    return Column("Decoded while it moves", "traversals", content)


def _traversal(one: Traversal, words: str, limits: tuple[float, float]) -> Markup:
    low, high = short_number(one.values[0]), short_number(one.values[-1])
    alt = f"{len(one.values)} decoded items with latent {one.latent} at {low} to {high}, the others fixed"
    drawn = strip(one.items, one.items.shape[1:], alt, limits=limits)
    return _figure(drawn, element("span", low), element("span", words), element("span", high))


def _example_column(items: Dataset, shown: set[int]) -> Column:
    """The items at both ends, one above the other."""

    def content(row: LatentRow) -> Any:
        if row.latent not in shown:
            return DASH
        ends = [(items.batch(torch.tensor(places)), words) for places, words in _ends(row)]
        limits = _limits([drawn for drawn, _ in ends])
        return join(*[_examples(row, drawn, tuple(items.shape), words, limits) for drawn, words in ends])

    return Column("Items at its ends", "examples", content)


def _ends(row: LatentRow) -> tuple[tuple[tuple[int, ...], str], ...]:
    return (row.smallest, "smallest"), (row.largest, "largest")


def _examples(row: LatentRow, drawn: Tensor, shape: tuple[int, ...], words: str, limits: tuple[float, float]) -> Markup:
    alt = f"{len(drawn)} items with the {words} mean of latent {row.latent}"
    return _figure(strip(drawn, shape, alt, limits=limits), f"{words} mean")


def _figure(drawn: Markup, *words: Any) -> Markup:
    return element("figure", drawn, element("figcaption", *words))


def _limits(tables: Sequence[Tensor]) -> tuple[float, float]:
    return min(float(one.min()) for one in tables), max(float(one.max()) for one in tables)


def _caption(rows: Sequence[LatentRow]) -> str:
    """How many there are of each type."""
    kinds = [row.type for row in rows]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in TYPE_STYLES if kind in kinds)
    return f"{len(rows)} latent{'' if len(rows) == 1 else 's'}: {counts}"


def _notes(rows: Sequence[LatentRow], traversals: Traversals | None, items: Dataset | None) -> list[str]:
    """What has to be known to read the table."""
    notes = [
        "Histograms of means share one range, those of variances (over the prior's) go from 0 to 1 and above; ≈ is "
        "their mean.",
        "The correlation is the largest of a latent's means with those of another latent that is passive.",
    ]
    if traversals is not None:
        notes.append(
            f"From the code of item {traversals.example}, one latent is moved while the others stay: over one wide "
            "range for all, and from the 2% to the 98% quantile of its own means."
        )
    if len(rows) > MOST and not (traversals is None and items is None):
        notes.append(f"Pictures are of the {MOST} latents with the largest KL; the other {len(rows) - MOST} have none.")
    return notes


def short_number(value: float) -> str:
    """One decimal, below 1 two, without zeros at the end; the minus is as wide as a plus."""
    digits = f"{value:.{1 if abs(value) >= 1 else 2}f}".rstrip("0").rstrip(".")
    return "0" if digits == "-0" else digits.replace("-", "−")
