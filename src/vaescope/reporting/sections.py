"""The sections of a page: facts, cards, plots, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vaescope.diagnosis.cards import BAD, GOOD, NOT_APPLICABLE, NOTE, WARNING, Card
from vaescope.markup import Json, Markup, element, json_script
from vaescope.reporting.assets import asset
from vaescope.reporting.plots import Plot
from vaescope.tables import table, text

# A sign next to the word, so that the colour is never the only cue.
SIGNS = {BAD: "✖", WARNING: "▲", NOTE: "●", GOOD: "✔", NOT_APPLICABLE: "–"}


def for_notebook(*content: Markup | str) -> Markup:
    """Parts of a page with their style, which affects nothing else in a notebook."""
    return element("div", Markup(f"<style>{asset('cards.css')}</style>"), *content, class_="vaescope")


def section(identity: str, title: str, *content: Markup | str | None) -> Markup:
    """A section with a heading that the menu links to."""
    return element("section", element("h2", title, id=identity), *content, aria_labelledby=identity)


def facts(rows: Mapping[str, object]) -> Markup:
    """A list of names and values; None is skipped."""
    entries = [
        element("div", element("dt", name.replace("_", " ")), element("dd", text(value)))
        for name, value in rows.items()
        if value is not None
    ]
    return element("dl", *entries, class_="facts")


def card(one: Card) -> Markup:
    """A card with its data folded away."""
    status = element("span", f"{SIGNS[one.status]} {one.status}", class_="status")
    return element(
        "article",
        element("header", element("h3", one.title), status),
        element("p", one.meaning),
        element("p", one.advice, class_="advice") if one.advice else None,
        element("details", element("summary", "data"), table(one.rows, one.title)) if one.rows else None,
        class_=f"card {one.status.replace(' ', '-')}",
    )


def cards(given: Sequence[Card]) -> Markup:
    """Cards in the given order."""
    return element("div", *[card(one) for one in given], class_="cards")


def plots(given: Sequence[Plot]) -> Markup:
    """Figures, each with its sentence and a button that downloads its numbers."""
    return element("div", *[_plot(number, one) for number, one in enumerate(given, 1)], class_="plots")


def _plot(number: int, one: Plot) -> Markup:
    figure, numbers = f"figure-{number}", f"numbers-{number}"
    file_name = "".join(letter if letter.isalnum() else "-" for letter in one.title.lower())
    height = f"height:{int(one.figure.layout.height)}px"
    label = f"Download CSV of {one.title}"
    return element(
        "figure",
        element("h3", one.title),
        element("figcaption", one.sentence),
        element("div", class_="holder", data_figure=figure, role="group", aria_label=one.title, style=height),
        element(
            "button", "Download CSV", type="button", data_csv=numbers, data_name=f"{file_name}.csv", aria_label=label
        ),
        json_script(figure, Json(one.figure.to_json())),
        json_script(numbers, one.csv()),
        class_="plot",
    )


def missing_parts(reasons: Mapping[str, str]) -> Markup | None:
    """What the page does not contain, and why; None if nothing is missing."""
    if not reasons:
        return None
    entries = [element("li", element("strong", f"{part}: "), reason) for part, reason in reasons.items()]
    return section("missing", "Not included", element("ul", *entries))
