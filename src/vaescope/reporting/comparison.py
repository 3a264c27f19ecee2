"""The page that compares several models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from vaescope.diagnosis.compare import LOSS, Comparison
from vaescope.diagnosis.compared import distortions_comparable
from vaescope.diagnosis.names import ID_LENGTH
from vaescope.diagnosis.subject import Subject
from vaescope.markup import Markup, element
from vaescope.numerics.confidence import student_interval
from vaescope.numerics.variable_type_names import VARIABLE_TYPES
from vaescope.reporting import page
from vaescope.reporting.comparison_items import DecodedModels, decode_all, matched_latents, side_by_side
from vaescope.reporting.comparison_plots import (
    losses_plot,
    measured_rates_plot,
    rates_plot,
    types_over_strength_plot,
    types_plot,
)
from vaescope.reporting.heatmaps import layer_plots, similarity_plot
from vaescope.reporting.model_style import model_style
from vaescope.reporting.plots import Plot
from vaescope.runs import summary
from vaescope.tables import table, text

# Columns that are results of a run rather than settings.
RESULTS = ("active", "mixed", "passive", "rate", "test_loss", "test_reconstruction")
WITHOUT_LOSS = tuple(name for name in RESULTS if name != LOSS)
SMALL_RATE = 0.001  # nats; smaller rates are shown as below it
EMBEDDED = "It contains items of the data and what the models decode; use `images=False` to leave them out."
SPLITS = ("train_", "test_")  # prefixes of other columns of results
IDENTITY = ("name", "id", "seed", "status", "step", "rate_low", "rate_high")
# Columns of a row that the table of models shows, and results.
NOT_DETAILS = ("id", "name", "latents", *RESULTS, "rate_low", "rate_high")
ALWAYS_SHOWN = ("model", "objective", "latents")

Row = Mapping[str, object]


def comparison_page(found: Comparison, loaded: Sequence[Subject], *, images: bool = True) -> str:
    """The whole page about the compared models; without `images`, it contains no items and nothing decoded."""
    decoded, reasons = decode_all(loaded, images)
    if not decoded:
        # One sentence for all.
        reasons = {"Reconstructions": next(iter(reasons.values()))}
    rows: list[Row] = []
    for one, row in zip(loaded, found.rows(), strict=True):
        settings = summary(one.run) if one.run is not None and one.history else {}
        rows.append({**settings, **row})
        if "History" in one.missing:
            reasons[f"History of {one.name}"] = one.missing["History"]
    if found.layers is None and any(one.run is None for one in loaded[:2]):
        reasons["Layers"] = "those of models that are not runs are compared by `vs.compare(models, data, layers=True)`."
    matches = matched_latents(found, loaded, decoded)
    parts = [("models", "Models", models_table(found, loaded, decoded))]
    if decoded:
        parts.append(("items", "The same items", side_by_side(loaded, decoded)))
    if matches is not None:
        parts.append(("matches", "Matched latents", matches))
    parts.append(("cards", "Findings", page.cards(found.cards)))
    over_seeds = seed_rows(rows, RESULTS if found.losses_comparable else WITHOUT_LOSS)
    if over_seeds:
        caption = "Means over runs that differ only in their seed, with Student's 95% interval"
        parts.append(("seeds", "Over seeds", table(over_seeds, caption)))
    parts.append(("plots", "Plots", page.plots([plot for plot in _plots(found, loaded, rows, decoded) if plot])))
    return page.page(
        f"{len(found.names)} models compared",
        element("h1", "Did the models learn the same thing?"),
        element("p", f"{found.summary()}.", class_="verdict"),
        parts=parts,
        missing=reasons,
        embedded=EMBEDDED if decoded else "",
    )


def _plots(
    found: Comparison, loaded: Sequence[Subject], rows: Sequence[Row], decoded: DecodedModels
) -> Iterator[Plot | None]:
    """Every plot for which there are data."""
    errors = [decoded[place].error if place in decoded else None for place in range(len(loaded))]
    histories = [(one.name, one.history) for one in loaded]
    if distortions_comparable([one.run for one in loaded]):
        yield rates_plot(rows) or measured_rates_plot(rows, errors)
    else:
        yield measured_rates_plot(rows, errors)
    yield similarity_plot(found)
    yield types_plot(rows)
    yield types_over_strength_plot(rows)
    yield losses_plot(histories, comparable=found.losses_comparable)
    yield from layer_plots(found)


def models_table(found: Comparison, loaded: Sequence[Subject], decoded: DecodedModels) -> Markup:
    """One row per model: its mark and name, types, rate and error, and its id and settings folded away."""
    columns = [
        "model",
        "latents",
        *VARIABLE_TYPES,
        "rate (nats)",
        *(["mean squared error"] if decoded else []),
        "details",
    ]
    body = []
    for place, (one, row) in enumerate(zip(loaded, found.rows(), strict=True)):
        cells = [row["latents"], *(row[kind] for kind in VARIABLE_TYPES), _rate_words(row)]
        if decoded:
            error = decoded[place].error if place in decoded else None
            cells.append("" if error is None else f"{error:.3g}")
        head = element("th", model_style(place).label(one.name), scope="row")
        body.append(element("tr", head, *[element("td", text(cell)) for cell in cells], _details(one, row)))
    return element(
        "div",
        element(
            "table",
            element("caption", "Rates are means over the encoded items, with 95% intervals."),
            element("thead", element("tr", *[element("th", name, scope="col") for name in columns])),
            element("tbody", *body),
            class_="plain models",
        ),
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label="Models",
    )


def _rate_words(row: Row) -> str:
    """The rate with its interval; rates near zero without their digits."""
    rate, low, high = (float(str(row[name])) for name in ("rate", "rate_low", "rate_high"))
    return f"below {SMALL_RATE}" if high < SMALL_RATE else f"{rate:.4g} ({low:.4g} to {high:.4g})"


def _details(one: Subject, row: Row) -> Markup:
    """A cell with the id and the settings of a run."""
    if one.run is None:
        return element("td")
    shown = ("id", *(name for name in row if name not in NOT_DETAILS))
    entries = [f"{name.replace('_', ' ')} {text(row[name])}" for name in shown if row.get(name) is not None]
    return element("td", element("details", element("summary", f"run {one.run.id[:ID_LENGTH]}"), ", ".join(entries)))


def seed_rows(rows: Sequence[Row], results: Sequence[str] = RESULTS) -> list[dict[str, object]]:
    """One row per setting that was trained with several seeds: its results as means with Student's 95% intervals."""
    groups: dict[tuple[tuple[str, object], ...], list[Row]] = {}
    for row in rows:
        settings = tuple(
            (name, value)
            for name, value in row.items()
            if name not in (*IDENTITY, *RESULTS) and not name.startswith(SPLITS)
        )
        groups.setdefault(settings, []).append(row)
    differing = {name for row in rows for name in row if len({other.get(name) for other in rows}) > 1}
    found = []
    for settings, members in groups.items():
        if len(members) < 2 or len({row.get("seed") for row in members}) < 2:
            continue
        shown = {name: value for name, value in settings if name in ALWAYS_SHOWN}
        shown |= {name: value for name, value in settings if name in differing}
        shown["seeds"] = len(members)
        for name in results:
            values = [value for row in members if isinstance(value := row.get(name), int | float)]
            if len(values) == len(members):
                low, high = student_interval(values)
                shown[name] = f"{fmean(values):.4g} ({low:.4g} to {high:.4g})"
        found.append(shown)
    return found
