"""A self-contained HTML page, with text, data, styles and scripts in one file, and the elements of its sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from vaescope.diagnosis.cards import BAD, GOOD, NOT_APPLICABLE, NOTE, WARNING, Card
from vaescope.files import write_text
from vaescope.markup import Json, Markup, element, join, json_script, prose
from vaescope.reporting.assets import asset, render
from vaescope.reporting.plots import Plot, packed_plotly
from vaescope.reporting.style import DARK_COLOURS
from vaescope.tables import table, text

# The browser loads nothing from elsewhere, whatever the page contains.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; "
    "form-action 'none'"
)
NOTEBOOK_COLOURS = "color:#1a1a1a;background:#ffffff"  # of outputs, also where the notebook is dark
NOTEBOOK_STYLES = ("cards.css", "comparison.css")
STYLES = ("cards.css", "page.css", "latents.css", "comparison.css")
SCRIPTS = ("inflate.js", "page.js", "latents.js", "paint.js", "decoder.js", "live.js", "frames.js")


# A sign next to the word, so that the colour is never the only cue.
SIGNS: dict[str, str] = {BAD: "✖", WARNING: "▲", NOTE: "●", GOOD: "✔", NOT_APPLICABLE: "–"}
PROBLEMS, FOLDED = (BAD, WARNING), (GOOD, NOT_APPLICABLE)


def page(
    title: str,
    *content: Markup | None,
    parts: Sequence[tuple[str, str, Markup]] = (),
    missing: Mapping[str, str] | None = None,
    plotly: bool = True,
    embedded: str = "",
) -> str:
    """The whole document.

    Args:
        title: The title of the browser tab.
        content: Elements before the sections, in order; None is skipped.
        parts: The sections in the menu: the id and the text of the heading, and the content.
        missing: The missing parts, with the reasons.
        plotly: Whether to include plotly, which pages with plots need.
        embedded: What of the data the page contains, as a sentence for its end.
    """
    from vaescope import __version__

    return render(
        "page.html",
        title=title,
        policy=POLICY,
        styles=[_unescaped(asset(name), "style") for name in STYLES],
        scripts=[_unescaped(script, "script") for script in map(asset, SCRIPTS)],
        content=join(*content),
        parts=parts,
        missing={part: prose(reason) for part, reason in (missing or {}).items()},
        version=__version__,
        embedded=prose(embedded),
        packed=packed_plotly() if plotly else "",
        dark=json_script("dark-colours", {light.lower(): dark for light, dark in DARK_COLOURS.items()}),
    )


def write_plots(given: Sequence[Plot], path: str | Path, title: str) -> Path:
    """Write a page that contains only plots."""
    return write_page(path, page(title, element("h1", title), plots(given)))


def write_page(path: str | Path, text: str) -> Path:
    """Write the document to a file."""
    write_text(Path(path), text)
    return Path(path)


def for_notebook(*content: Markup | str | None) -> Markup:
    """Parts of a page with their style, which affects nothing else in a notebook."""
    style = "".join(asset(name) for name in NOTEBOOK_STYLES)
    return element("div", Markup(f"<style>{style}</style>"), *content, class_="vaescope", style=NOTEBOOK_COLOURS)


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
        element("p", prose(one.meaning)),
        element("p", prose(one.advice), class_="advice") if one.advice else None,
        element("details", element("summary", "data"), table(one.rows, one.title)) if one.rows else None,
        class_=f"card {one.status.replace(' ', '-')}",
    )


def cards(given: Sequence[Card]) -> Markup:
    """Cards by weight: problems large, notes side by side, and what is good or does not apply folded."""
    groups = [[one for one in given if one.status in statuses] for statuses in (PROBLEMS, (NOTE,), FOLDED)]
    problems, notes, folded = ([card(one) for one in group] for group in groups)
    words = "; ".join(
        f"{SIGNS[status]} {status}: {', '.join(titles)}"
        for status in FOLDED
        if (titles := [one.title for one in given if one.status == status])
    )
    return join(
        element("div", *problems, class_="cards problems") if problems else None,
        element("div", *notes, class_="cards notes") if notes else None,
        element("details", element("summary", words), element("div", *folded, class_="cards"), class_="folded-cards")
        if folded
        else None,
    )


def plots(given: Sequence[Plot], prefix: str = "") -> Markup:
    """Figures, each with its sentence and a button that downloads its numbers; ids begin with the prefix."""
    return element("div", *[_plot(f"{prefix}{number}", one) for number, one in enumerate(given, 1)], class_="plots")


def _plot(number: str, one: Plot) -> Markup:
    figure, numbers = f"figure-{number}", f"numbers-{number}"
    file_name = "".join(letter if letter.isalnum() else "-" for letter in one.title.lower())
    height = f"height:{int(one.figure.layout.height)}px"
    label = f"Download CSV of {one.title}"
    return element(
        "figure",
        element("h3", one.title),
        element("figcaption", one.sentence),
        element(
            "details",
            element("summary", "Plot and numbers", aria_label=f"Plot and numbers of {one.title}"),
            element("div", class_="holder", data_figure=figure, role="group", aria_label=one.title, style=height),
            element(
                "button",
                "Download CSV",
                type="button",
                data_csv=numbers,
                data_name=f"{file_name}.csv",
                aria_label=label,
            ),
            class_="plot-body",
            open=True,
        ),
        json_script(figure, Json(one.figure.to_json())),
        json_script(numbers, one.csv()),
        class_="plot",
    )


def _unescaped(text: str, tag: str) -> Markup:
    """A style or script of this package; it must not contain the end of its element."""
    if f"</{tag}" in text.lower():
        raise ValueError(f"a {tag} must not contain the end of its element, </{tag}>")
    return Markup(text)
