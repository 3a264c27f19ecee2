"""Pages about studies in Markdown from results kept as JSON: `python -m vaescope.studies.pages.docs FOLDER`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from vaescope.errors import ConfigurationError, VaescopeError
from vaescope.reporting import page
from vaescope.studies.charts import chart_of
from vaescope.studies.pages.figures import alt_text, can_draw, figure_names, published_of, sentence_of, write_figures
from vaescope.studies.pages.page import rows_for_people
from vaescope.studies.results import JsonTable
from vaescope.tables import columns_of, text
from vaescope.terminal import print_line, printable

INDEX = "README.md"
FIGURES = "figures"  # the folder of the figures
SHOWN = 120  # rows that a page shows; its JSON has all
NEEDED = ("study", "source", "question", "left_open", "scale", "made_by", "summary", "rows", "notes", "charts")
ABOUT = (
    "Each page and its figures are made from the JSON of the same name, and from remarks in a .txt file if there is "
    "one, by "
    "`python -m vaescope.studies.pages.docs docs/studies`. A page names the command that writes its JSON, or several "
    "whose rows were put together; `vaescope reproduce --list` names every study. "
    "The folder `results` has values measured on a GPU: with `--device cuda --results NEW --results "
    "docs/studies/results` the command uses them in place of training."
)


def markdown(plain: JsonTable, drawn: Collection[str] = (), remarks: str = "") -> str:
    """The page of one study; `drawn` are the names of the figures that there are, `remarks` are ours."""
    parts = [
        f"# {_escaped(plain['source'])}",
        f"Asked: {_escaped(plain['question'])}",
        f"Made by {', '.join(f'`{command}`' for command in plain['made_by'])}.",
        "## Ours and the published",
        *_numbers(plain),
        *(["## Figures", *_figures(plain, drawn)] if plain["charts"] else []),
        "## What it means",
        f"{_escaped(plain['summary'])}.",
        *(_escaped(paragraph) for paragraph in remarks.split("\n\n") if paragraph.strip()),
    ]
    if plain["left_open"]:
        parts.append(f"What the source left open: {_escaped(plain['left_open'])}")
    if plain["notes"]:
        parts += ["## Notes", "\n".join(f"- {_escaped(note)}" for note in plain["notes"])]
    return "\n\n".join(parts) + "\n"


def index(kept: Sequence[JsonTable]) -> str:
    """The page that leads to the others."""
    rows = [
        {
            "study": f"[{plain['study']}]({plain['study']}.md)",
            "asked": _escaped(plain["question"]),
            "outcome": _escaped(plain["summary"]),
        }
        for plain in sorted(kept, key=lambda plain: _natural(plain["study"]))
    ]
    return "\n\n".join(["# Studies", ABOUT, _table(rows) if rows else "No results are kept yet."]) + "\n"


def pages(folder: str | Path) -> dict[str, str]:
    """Name of the file -> its text, for every kept study of a folder and the index."""
    place = Path(folder)
    if not place.is_dir():
        raise ConfigurationError(f"{folder} must be a folder with the results of studies as JSON, there is none.")
    drawn = {figure.name for figure in (place / FIGURES).glob("*.svg")}
    made, kept = {}, []
    for file in sorted(place.glob("*.json")):
        plain = _read(file)
        kept.append(plain)
        remarks = file.with_name(f"{file.stem}.txt")
        said = remarks.read_text(encoding="utf-8") if remarks.is_file() else ""
        made[f"{file.stem}.md"] = markdown(plain, drawn, said)
    return {**made, INDEX: index(kept)}


def write_pages(folder: str | Path) -> list[Path]:
    """Write all pages again, and their figures if matplotlib is there."""
    drawn = draw_figures(folder) if can_draw() else []
    return drawn + [page.write_page(Path(folder) / name, text) for name, text in pages(folder).items()]


def draw_figures(folder: str | Path) -> list[Path]:
    """Draw the figures of every kept study of a folder; those that no study has any more are removed."""
    place = Path(folder) / FIGURES
    drawn: list[Path] = []
    for file in sorted(Path(folder).glob("*.json")):
        place.mkdir(exist_ok=True)
        drawn += write_figures(_read(file), place)
    for old in set(place.glob("*.svg")) - set(drawn):
        old.unlink()
    return drawn


def _read(file: Path) -> JsonTable:
    try:
        plain = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{file} must be a study as JSON, it cannot be read: {error}.") from error
    missing = [name for name in NEEDED if not isinstance(plain, dict) or name not in plain]
    if missing or plain["study"] != file.stem:
        wrong = f"it lacks {', '.join(missing)}" if missing else f"it is {plain['study']!r}"
        raise ConfigurationError(
            f"{file} must be what `vaescope reproduce {file.stem}` writes, {wrong}. Make it again, or move it away."
        )
    return dict(plain)


def _numbers(plain: JsonTable) -> list[str]:
    rows = plain["rows"]
    if not rows:
        return ["The source gives a figure without numbers, and so do we."]
    shown = _table(
        [{name: _escaped(text(value)) for name, value in row.items()} for row in rows_for_people(rows)[:SHOWN]]
    )
    more = f"The first {SHOWN} of {len(rows)} rows; [all of them]({plain['study']}.json)."
    return [shown, more] if len(rows) > SHOWN else [shown]


def _figures(plain: JsonTable, drawn: Collection[str]) -> list[str]:
    """Each figure under its title, with its sentence."""
    parts = []
    for name, chart in zip(figure_names(plain), map(chart_of, plain["charts"]), strict=True):
        words = _escaped(alt_text(chart, published_of(chart, plain))).replace("[", "(").replace("]", ")")
        picture = [f"![{words}]({FIGURES}/{name})"] if name in drawn else []
        parts += [f"### {_escaped(chart.title)}", *picture, _escaped(sentence_of(chart))]
    return parts


def _table(rows: Sequence[Mapping[str, str]]) -> str:
    names = columns_of(rows)
    lines = [[name.replace("_", " ") for name in names], ["---"] * len(names)]
    lines += [[row.get(name, "") for name in names] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escaped(words: Any) -> str:
    """Words that stay what they are: no tags, no cells, one line."""
    line = " ".join(str(words).split())
    return line.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").replace("*", "\\*")


def _natural(name: str) -> list[Any]:
    """figure2 before figure10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def main() -> None:
    """Make the pages of the folder that is named."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m vaescope.studies.pages.docs FOLDER")
    try:
        written = write_pages(sys.argv[1])
    except VaescopeError as error:
        sys.exit(printable(f"error: {error}"))
    print_line("\n".join(map(str, written)))
    if not can_draw():
        print_line(
            "The figures were not drawn again: matplotlib is missing. Install it: pip install 'vaescope[plots]'."
        )


if __name__ == "__main__":
    main()
