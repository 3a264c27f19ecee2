"""A study as files: a page for people, its numbers as CSV, and all of it as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from vaescope.errors import ConfigurationError
from vaescope.markup import Markup, element
from vaescope.reporting import page
from vaescope.studies import Reproduction
from vaescope.studies.charts import chart_of
from vaescope.studies.numbers import ERRORS, VALUES
from vaescope.studies.pages.plots import plots_and_pictures
from vaescope.studies.pages.refresh import kept_json
from vaescope.studies.pages.verdicts import is_quick, scale_and_cost, verdict_text
from vaescope.studies.results import JsonTable
from vaescope.tables import columns_of, csv_text, table

UNFOLDED = 15  # rows of a table that is not folded
WITHIN, BEYOND = "agrees", "differs"  # up to two standard errors of the difference, and beyond


def study_page(plain: JsonTable) -> str:
    """The page of what `Reproduction.plain` gives: claims and verdicts, figures, numbers, what the source left open."""
    plots, pictures = plots_and_pictures([chart_of(chart) for chart in plain["charts"]])
    of_quick = " of a quick stand-in" if is_quick(plain) else ""
    parts: list[tuple[str, str, Markup]] = []
    if plain["claims"]:
        parts.append(("claims", "What holds", _claims(plain["claims"])))
    if plots:
        parts.append(("figures", f"Figures{of_quick}", page.plots(plots)))
    if pictures:
        parts.append(("pictures", f"Pictures{of_quick}", element("div", *pictures, class_="plots")))
    parts.append(("numbers", "Ours and the published", _numbers(plain)))
    left_open = [element("p", said) for said in (plain["left_open"], *(one["text"] for one in plain["shared"])) if said]
    if left_open:
        parts.append(("left-open", "What the source left open", element("div", *left_open)))
    if plain["notes"]:
        items = [element("li", note) for note in plain["notes"]]
        parts.append(("notes", "Notes", element("ul", *items)))
    facts = {"study": plain["study"], "source": plain["source"], "runs and cost": scale_and_cost(plain)}
    return page.page(
        f"{plain['study']}: {plain['source']}",
        element("h1", f"vaescope reproduces {plain['source']}"),
        element("p", f"{plain['summary']}.", class_="verdict"),
        element("p", plain["question"]),
        page.facts(facts),
        parts=parts,
        plotly=bool(plots),
    )


def _claims(claims: Sequence[JsonTable]) -> Markup:
    items = [
        element("li", element("strong", f"{verdict}. "), claim, " ", element("span", why, class_="quiet"))
        for verdict, claim, why in map(verdict_text, claims)
    ]
    return element("ul", *items)


def _numbers(plain: JsonTable) -> Markup:
    """The table; folded where it is long, and where it has the numbers of a quick stand-in, which are no results."""
    if not plain["rows"]:
        return element("p", "No number was measured, and none is published.")
    caption = "Mean ± standard deviation over seeds, ours and the published numbers"
    numbers = table(rows_for_people(plain["rows"]), caption)
    if is_quick(plain):
        return element("details", element("summary", "Numbers of a quick stand-in, which are no results"), numbers)
    if len(plain["rows"]) > UNFOLDED:
        return element("details", element("summary", f"{len(plain['rows'])} numbers"), numbers)
    return numbers


def write_study(found: Reproduction, folder: str | Path) -> dict[str, Path]:
    """Write NAME.html, NAME.csv and NAME.json into a folder, which is made where it is not there.

    The name is the study's, with that of the data where only some were asked for: they have pages of their own.
    """
    place, name = make_output(folder), "-".join([found.study.name, *found.settings.data])
    kept = kept_json(found.plain())
    texts = {"html": study_page(json.loads(kept)), "csv": csv_text(found.rows()), "json": kept}
    # Names have points of their own, so that a suffix is added, not put in place of another.
    return {kind: page.write_page(place / f"{name}.{kind}", text) for kind, text in texts.items()}


def make_output(folder: str | Path) -> Path:
    """The folder, made where it is not there; or an error that says why it cannot be."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"{folder} must be a folder that can be written in, it cannot ({error.strerror}). Choose another folder."
        ) from error
    return Path(folder)


def rows_for_people(rows: Sequence[JsonTable]) -> list[JsonTable]:
    """The rows of a reproduction as people read them: each number with its spread, and a word for how far they lie.

    Columns that would be empty are left out.
    """
    readable = [_readable(row) for row in rows]
    shown = [name for name in columns_of(readable) if any(row[name] not in (None, "") for row in readable)]
    return [{name: row[name] for name in shown} for row in readable]


def _readable(row: JsonTable) -> JsonTable:
    difference = row["difference_se"]
    return {
        **{name: value for name, value in row.items() if name not in VALUES},
        "ours": _with_spread(row["ours"], row["sd"]),
        "seeds": None if row["ours"] is None else row["seeds"],
        "published": _with_spread(row["published"], row["published_sd"]),
        "difference in standard errors": "" if difference is None else f"{difference:+.2f}",
        "agreement": "" if difference is None else BEYOND if abs(difference) > ERRORS else WITHIN,
        "note": row["note"],
    }


def _with_spread(value: float | None, spread: float | None) -> str:
    number = "" if value is None else f"{value:.4g}"
    return number if value is None or spread is None else f"{number} ± {spread:.2g}"
