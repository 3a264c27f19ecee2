"""The parts of a page: verdict, facts, cards, plots, and what was left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vaescope.diagnosis.cards import BAD, GOOD, NOT_APPLICABLE, NOTE, WARNING, Card
from vaescope.markup import Json, Markup, element, join, json_script
from vaescope.reporting.assets import asset
from vaescope.reporting.plots import Plot
from vaescope.tables import table, text

# A sign beside the word, so that the colour is never alone.
SIGNS = {BAD: "✖", WARNING: "▲", NOTE: "●", GOOD: "✔", NOT_APPLICABLE: "–"}


def for_notebook(*content: Any) -> Markup:
    """Parts of a page with the style that they need, which touches nothing else in a notebook."""
    return element("div", Markup(f"<style>{asset('cards.css')}</style>"), *content, class_="vaescope")


def section(identity: str, title: str, *content: Any) -> Markup:
    """A part of the page with a heading that the navigation leads to."""
    return element("section", element("h2", title, id=identity), *content, aria_labelledby=identity)


def facts(rows: Mapping[str, Any]) -> Markup:
    """Names and values side by side."""
    told = [
        element("div", element("dt", name.replace("_", " ")), element("dd", text(value)))
        for name, value in rows.items()
        if value is not None
    ]
    return element("dl", *told, class_="facts")


def card(one: Card) -> Markup:
    """A card with its data folded away."""
    data = element("details", element("summary", "data"), table(one.rows, one.title)) if one.rows else None
    return element(
        "article",
        element(
            "header", element("h3", one.title), element("span", f"{SIGNS[one.status]} {one.status}", class_="status")
        ),
        element("p", one.meaning),
        element("p", one.advice, class_="advice") if one.advice else None,
        data,
        class_=f"card {one.status.replace(' ', '-')}",
    )


def cards(given: Sequence[Card]) -> Markup:
    """Cards in their order, which is by severity."""
    return element("div", *[card(one) for one in given], class_="cards")


def plots(given: Sequence[Plot]) -> Markup:
    """Figures, each with its sentence, its numbers to download, and what the page draws it from."""
    return element("div", *[_plot(number, one) for number, one in enumerate(given, 1)], class_="plots")


def _plot(number: int, one: Plot) -> Markup:
    figure, numbers = f"figure-{number}", f"numbers-{number}"
    name = "".join(letter if letter.isalnum() else "-" for letter in one.title.lower())
    return element(
        "figure",
        element("h3", one.title),
        element("figcaption", one.sentence),
        element(
            "div",
            class_="holder",
            data_figure=figure,
            role="group",
            aria_label=one.title,
            style=f"height:{int(one.figure.layout.height)}px",
        ),
        element(
            "button",
            "Download CSV",
            type="button",
            data_csv=numbers,
            data_name=f"{name}.csv",
            aria_label=f"Download CSV of {one.title}",
        ),
        join(json_script(figure, Json(one.figure.to_json())), json_script(numbers, one.csv())),
        class_="plot",
    )


def left_out(reasons: Mapping[str, str]) -> Markup | None:
    """What the page lacks, and why."""
    if not reasons:
        return None
    told = [element("li", element("strong", f"{part}: "), reason) for part, reason in reasons.items()]
    return section("left-out", "Left out", element("ul", *told))
