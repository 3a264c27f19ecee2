"""A self-contained HTML page, with text, data, styles and scripts in one file, and what its sections consist of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from plotly.offline import get_plotlyjs

from vaescope.diagnosis.cards import BAD, GOOD, NOT_APPLICABLE, NOTE, WARNING, Card
from vaescope.files import write_text
from vaescope.markup import Json, Markup, element, join, json_script
from vaescope.reporting.assets import asset, render
from vaescope.reporting.plots import Plot
from vaescope.tables import table, text

# The browser loads nothing from elsewhere, whatever the page contains.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; "
    "form-action 'none'"
)
STYLES = ("cards.css", "page.css", "latents.css")
SCRIPTS = ("page.js", "latents.js", "decoder.js", "live.js")


# A sign next to the word, so that the colour is never the only cue.
SIGNS = {BAD: "✖", WARNING: "▲", NOTE: "●", GOOD: "✔", NOT_APPLICABLE: "–"}


def page(
    title: str,
    *content: Markup | None,
    parts: Sequence[tuple[str, str, Markup]] = (),
    missing: Mapping[str, str] | None = None,
    plotly: bool = True,
) -> str:
    """The whole document.

    Args:
        title: The title of the browser tab.
        content: What stands before the sections, in order; None is skipped.
        parts: The sections in the menu: the id and the text of the heading, and the content.
        missing: What the page does not contain, and why.
        plotly: Whether to include plotly, which pages with plots need.
    """
    from vaescope import __version__

    scripts = [get_plotlyjs()] if plotly else []
    return render(
        "page.html",
        title=title,
        policy=POLICY,
        styles=[_unescaped(asset(name), "style") for name in STYLES],
        scripts=[_unescaped(script, "script") for script in [*scripts, *map(asset, SCRIPTS)]],
        content=join(*content),
        parts=parts,
        missing=missing,
        version=__version__,
    )


def write_plots(given: Sequence[Plot], path: str | Path, title: str) -> Path:
    """Write a page that contains only plots."""
    return write_page(path, page(title, element("h1", title), plots(given)))


def write_page(path: str | Path, text: str) -> Path:
    """Write the document to a file."""
    write_text(Path(path), text)
    return Path(path)


def for_notebook(*content: Markup | str) -> Markup:
    """Parts of a page with their style, which affects nothing else in a notebook."""
    return element("div", Markup(f"<style>{asset('cards.css')}</style>"), *content, class_="vaescope")


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


def _unescaped(text: str, tag: str) -> Markup:
    """A style or script of this package; it must not contain the end of its element."""
    assert f"</{tag}" not in text.lower(), tag
    return Markup(text)
