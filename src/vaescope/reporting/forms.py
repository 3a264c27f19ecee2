"""How notebooks show what results come from: stores of runs, data sets, codes and histories."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
import torch
from jaxtyping import Float

from vaescope.codes import Representation
from vaescope.data import Dataset
from vaescope.diagnosis.names import NOT_SETTINGS, differing
from vaescope.errors import DataError
from vaescope.markup import Markup, element, join
from vaescope.numerics.variable_type_names import VARIABLE_TYPES
from vaescope.regime import collapse
from vaescope.reporting import page
from vaescope.reporting.downsample import SPLIT_NAMES
from vaescope.reporting.history_plots import history_plot
from vaescope.reporting.pictures import histogram_counts, histogram_svg, picture, value_range
from vaescope.reporting.style import TYPE_STYLES, plural
from vaescope.runs import Store
from vaescope.runs.history import History
from vaescope.runs.rows import read_rows
from vaescope.tables import table, text

SHOWN_ITEMS, SHOWN_ROWS, SHOWN_LATENTS = 10, 50, 32
BINS = 24
BAR_WIDTH, BAR_HEIGHT = 96, 12  # pixels
SPLITS = ("train_", "test_")  # prefixes of results
NOT_RANKED = "Losses of different objectives and strengths cannot be compared"
RESULTS = ("test_loss", "test_rate", "test_reconstruction")


def store_form(store: Store) -> Markup:
    """The runs of a folder: what differs between them, their status, types and last values on held-out items."""
    found = read_rows(store.folder)
    rows = list(found.rows.values())
    title = element("p", element("strong", f"{plural(len(rows), 'run')} in {store.folder}"))
    problems = [element("p", f"Left out: {problem}") for problem in found.problems.values()]
    settings = [{name: value for name, value in row.items() if not _is_result(name)} for row in rows]
    names = [name for name in ("data", "model", "latents", "objective") if any(name in row for row in rows)]
    names += [name for name in differing(settings) if name not in names]
    results = [name for name in RESULTS if any(name in row for row in rows)]
    body = [
        element(
            "tr",
            *[element("td", text(row.get(name))) for name in ("id", "status", *names)],
            element("td", _types_bar(row)),
            *[element("td", text(row.get(name))) for name in results],
        )
        for row in rows[:SHOWN_ROWS]
    ]
    columns = ["id", "status", *names, "types", *results]
    more = f"The first {SHOWN_ROWS} of {len(rows)}" if len(rows) > SHOWN_ROWS else NOT_RANKED
    return page.for_notebook(title, *problems, _table(columns, body, more) if rows else None)


def dataset_form(data: Dataset) -> Markup:
    """The size of a data set, its factors and labels, and its first items."""
    factors = data.factor_table
    facts = {
        "items": f"{len(data):,}",
        "shape": " x ".join(map(str, data.shape)),
        "factors": None if factors is None else _listed(zip(factors.names, factors.sizes, strict=True)),
        "labels": None if data.labels is None else f"{len(data.labels.unique())} classes",
        "missing values": data.missing,
    }
    words = "; ".join(f"{name}: {value}" for name, value in facts.items() if value is not None)
    title = element("p", element("strong", f"Data set {data.name}. "), words)
    return page.for_notebook(title, _first_items(data))


def codes_form(codes: Representation) -> Markup:
    """One row per latent, the largest rate first: type, rate, and the distribution of its means."""
    words = f"{codes.item_count:,} items, {plural(codes.latents, 'latent')}"
    if codes.positions is not None:
        words += f" at {' x '.join(map(str, codes.positions))} positions"
    if codes.factors is not None:
        words += f"; factors: {', '.join(codes.factor_names or ())}" if codes.factor_names else "; with factors"
    words += "; with labels" if codes.labels is not None else ""
    title = element("p", element("strong", "Codes. "), f"{words}.")
    try:
        found = collapse(codes)
    except DataError as error:
        return page.for_notebook(title, element("p", str(error)))
    order = sorted(range(codes.latents), key=lambda latent: -found.rates[latent])
    mean = codes.item_means().double().cpu().numpy()
    body = [
        element(
            "tr",
            element("th", str(latent), scope="row"),
            element("td", f"{TYPE_STYLES[found.types.types[latent]].sign} {found.types.types[latent]}"),
            element("td", _nats(found.rates[latent])),
            element("td", _histogram(mean[:, latent], latent)),
        )
        for latent in order[:SHOWN_LATENTS]
    ]
    more = f"The {SHOWN_LATENTS} latents with the largest rates" if codes.latents > SHOWN_LATENTS else "Sorted by rate"
    return page.for_notebook(title, _table(["latent", "type", "rate (nats)", "means"], body, more))


def history_form(history: History) -> Markup:
    """The terms over training, and the last row of each split."""
    last = {row["split"]: row for row in history if row["split"] in SPLIT_NAMES}
    plot = history_plot(history)
    title = element("p", element("strong", f"History of {plural(len(history), 'row')}"))
    drawn = None if plot is None else Markup(plot._repr_html_())
    return join(page.for_notebook(title, table(list(last.values()), "Last rows") if last else None), drawn)


def _is_result(name: str) -> bool:
    return name in NOT_SETTINGS or name.startswith(SPLITS)


def _types_bar(row: Mapping[str, object]) -> Markup | None:
    """Numbers of latents by type as one bar; the numbers are its text."""
    counts = {kind: count for kind in VARIABLE_TYPES if isinstance(count := row.get(kind), int)}
    total = sum(counts.values())
    if not total:
        return None
    words, start, parts = ", ".join(f"{count} {kind}" for kind, count in counts.items()), 0.0, []
    for kind, count in counts.items():
        width = BAR_WIDTH * count / total
        place = {"x": f"{start:.1f}", "y": 0, "width": f"{width:.1f}", "height": BAR_HEIGHT}
        parts.append(element("rect", fill=TYPE_STYLES[kind].colour, **place))
        start += width
    bar = element("svg", element("title", words), *parts, width=BAR_WIDTH, height=BAR_HEIGHT, role="img")
    return join(bar, " ", words)


def _first_items(data: Dataset) -> Markup | None:
    """The first items as pictures, if they are images, signals or vectors."""
    if len(data.shape) > 3 or not len(data):
        return None
    items = data.in_data_scale(torch.arange(min(SHOWN_ITEMS, len(data))))
    limits = data.range_in_data_scale if data.is_image else value_range([items])
    drawn = [picture(one, data.shape, f"item {place}", limits=limits) for place, one in enumerate(items)]
    return element("div", *drawn, style="display:flex;flex-wrap:wrap;gap:6px")


def _histogram(values: Float[np.ndarray, "items"], latent: int) -> Markup:
    low, high = value_range([values])
    counts = histogram_counts(values, (low, high if high > low else low + 1.0), BINS)
    return histogram_svg(counts, f"means of latent {latent} from {low:.3g} to {high:.3g}")


def _table(columns: Iterable[str], body: Iterable[Markup], caption: str) -> Markup:
    head = element("tr", *[element("th", name.replace("_", " "), scope="col") for name in columns])
    whole = element(
        "table", element("caption", caption), element("thead", head), element("tbody", *body), class_="plain"
    )
    return element("div", whole, class_="scroll")


def _listed(factors: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} ({size} values)" for name, size in factors)


def _nats(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "infinite"
