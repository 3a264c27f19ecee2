"""Pages about studies in Markdown from results kept as JSON: `python -m vaescope.studies.pages.docs FOLDER`."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from vaescope.errors import VaescopeError
from vaescope.reporting import page
from vaescope.studies.charts import chart_of
from vaescope.studies.pages.figures import alt_text, can_draw, figure_names, published_of, sentence_of, write_figures
from vaescope.studies.pages.page import UNFOLDED, rows_for_people
from vaescope.studies.pages.refresh import kept_json, read_all
from vaescope.studies.pages.verdicts import (
    HOW,
    by_document,
    count_rows,
    failed_claims,
    is_quick,
    scale_and_cost,
    scale_or_reason,
    scale_text,
    summary_sentences,
    verdict_text,
)
from vaescope.studies.results import JsonTable
from vaescope.tables import columns_of, text
from vaescope.terminal import print_line, printable

INDEX = "README.md"
SETTINGS = "settings.md"
FIGURES = "figures"  # the folder of the figures
SHOWN = 120  # rows that a page shows; its JSON has all
ABOUT = (
    "Each page and its figures are made from the JSON of the same name, and from remarks in a .txt file if there is "
    "one, by `python -m vaescope.studies.pages.docs docs/studies`, which also judges the claims again. A page names "
    "the command that writes its JSON, or several whose rows were put together; `vaescope reproduce --list` names "
    "every study, its cost and its state. The folder `results` has the values of some studies, measured on a GPU: with "
    "`--device cuda --results NEW --results docs/studies/results` the command uses those in place of training."
)
SEE = (
    'More: [what "reproduced" means](../concepts/reproduced.md), [how to run a study](../reproduce.md), and the '
    "[errata of the sources](../reference/errata.md)."
)


def markdown(plain: JsonTable, drawn: Collection[str] = (), remarks: str = "") -> str:
    """The page of one study; `drawn` are the names of the figures that there are, `remarks` are ours.

    Quick stand-ins are no results: their page has no numbers and no figures.
    """
    quick = is_quick(plain)
    figures = _figures(plain, drawn) if plain["charts"] and not quick else []
    parts = [
        f"# {_escaped(plain['source'])}",
        f"{_escaped(plain['question'])}",
        *_verdicts(plain),
        _escaped(scale_and_cost(plain)),
        *(["## Figures", *figures] if figures else []),
        *([] if quick else ["## Numbers", *_numbers(plain)]),
    ]
    said = [] if quick else [_escaped(paragraph) for paragraph in remarks.split("\n\n") if paragraph.strip()]
    parts += ["## Remarks", *said] if said else []
    parts += ["## What the source left open", *_left_open(plain)] if plain["left_open"] or plain["shared"] else []
    if plain["notes"] and not quick:
        parts += ["## Notes", "\n".join(f"- {_escaped(note)}" for note in plain["notes"])]
    return "\n\n".join(parts) + "\n"


def index(kept: Sequence[JsonTable]) -> str:
    """The page that leads to the others: what holds in a few sentences, and a line for each claim."""
    ordered = sorted(kept, key=lambda plain: _natural(plain["study"]))
    parts = ["# Studies", summary_sentences(ordered) if kept else "No results are kept yet."]
    parts += [_table(count_rows(ordered))] if kept else []
    failed = [
        f"- {_escaped(claim['claim'])} ({_link(plain)}, {_escaped(scale_text(plain))})<br>{_escaped(claim['why'])}"
        for plain, claim in failed_claims(ordered)
    ]
    parts += ["## What does not hold in our runs", "\n".join(failed)] if failed else []
    parts += ["## Claims", HOW]
    for title, own in by_document(ordered).items():
        rows = [
            {
                "study": _link(plain),
                "claim": _escaped(claim["claim"]),
                "verdict": claim["verdict"],
                "training, or why it was not tested": _escaped(scale_or_reason(plain, claim)),
            }
            for plain in own
            for claim in plain["claims"]
        ]
        parts += [f"### {_escaped(title)}", _table(rows)] if rows else []
    return "\n\n".join([*parts, "## How the pages are made", ABOUT, SEE]) + "\n"


def settings_page(kept: Sequence[JsonTable]) -> str:
    """What sources left open for several of their tables and figures, once for all pages."""
    texts = {one["title"]: one["text"] for plain in kept for one in plain["shared"]}
    parts = ["# Settings that several studies share", "What the sources left open, and what was chosen here."]
    for title, said in texts.items():
        users = [plain["study"] for plain in kept if title in [one["title"] for one in plain["shared"]]]
        links = ", ".join(f"[{name}]({name}.md)" for name in sorted(users, key=_natural))
        parts += [f"## {_escaped(title)}", _escaped(said), f"Used by {links}."]
    return "\n\n".join(parts) + "\n"


def pages(folder: str | Path) -> dict[str, str]:
    """Name of the file -> its text: every kept study of a folder as JSON and as a page, settings and the index."""
    place = Path(folder)
    kept = read_all(place)
    drawn = {figure.name for figure in (place / FIGURES).glob("*.svg")}
    made = {}
    for file, plain in kept.items():
        remarks = file.with_name(f"{file.stem}.txt")
        said = remarks.read_text(encoding="utf-8") if remarks.is_file() else ""
        made[file.name] = kept_json(plain)
        made[f"{file.stem}.md"] = markdown(plain, drawn, said)
    shared = any(plain["shared"] for plain in kept.values())
    settings = {SETTINGS: settings_page(list(kept.values()))} if shared else {}
    return {**made, **settings, INDEX: index(list(kept.values()))}


def write_pages(folder: str | Path) -> list[Path]:
    """Write all pages again, and their figures if matplotlib is there."""
    drawn = draw_figures(folder) if can_draw() else []
    return drawn + [page.write_page(Path(folder) / name, text) for name, text in pages(folder).items()]


def draw_figures(folder: str | Path) -> list[Path]:
    """Draw the figures of every kept study of a folder but quick stand-ins; figures that no page shows are removed."""
    place = Path(folder) / FIGURES
    drawn: list[Path] = []
    for plain in read_all(folder).values():
        place.mkdir(exist_ok=True)
        drawn += [] if is_quick(plain) else write_figures(plain, place)
    for old in set(place.glob("*.svg")) - set(drawn):
        old.unlink()
    return drawn


def _verdicts(plain: JsonTable) -> list[str]:
    """Each claim with its verdict and the reason; that of quick stand-ins is the same for all, and follows."""
    lines = []
    for verdict, claim, why in map(verdict_text, plain["claims"]):
        reason = "" if is_quick(plain) else f"<br>{_escaped(why)}"
        lines.append(f"- **{verdict}.** {_escaped(claim)}{reason}")
    return ["\n".join(lines)] if lines else []


def _left_open(plain: JsonTable) -> list[str]:
    links = [f"[{_escaped(one['title'])}]({SETTINGS}#{_anchor(one['title'])})" for one in plain["shared"]]
    also = [f"Settings that it shares with other studies: {', '.join(links)}."] if links else []
    return [*([_escaped(plain["left_open"])] if plain["left_open"] else []), *also]


def _numbers(plain: JsonTable) -> list[str]:
    rows = plain["rows"]
    if not rows:
        return ["The source gives a figure without numbers, and so do we."]
    shown = _table(
        [{name: _escaped(text(value)) for name, value in row.items()} for row in rows_for_people(rows)[:SHOWN]]
    )
    more = (
        [f"The first {SHOWN} of {len(rows)} rows; [all of them]({plain['study']}.json)."] if len(rows) > SHOWN else []
    )
    if len(rows) <= UNFOLDED:
        return [shown, *more]
    return [f"<details><summary>{len(rows)} numbers</summary>", shown, *more, "</details>"]


def _figures(plain: JsonTable, drawn: Collection[str]) -> list[str]:
    """Each figure under its title, with its sentence."""
    parts = []
    for name, chart in zip(figure_names(plain), map(chart_of, plain["charts"]), strict=True):
        words = _escaped(alt_text(chart, published_of(chart, plain))).replace("[", "(").replace("]", ")")
        picture = [f"![{words}]({FIGURES}/{name})"] if name in drawn else []
        parts += [f"### {_escaped(chart.title)}", *picture, _escaped(sentence_of(chart))]
    return parts


def _link(plain: JsonTable) -> str:
    return f"[{plain['study']}]({plain['study']}.md)"


def _table(rows: Sequence[Mapping[str, str]]) -> str:
    names = columns_of(rows)
    lines = [[name.replace("_", " ") for name in names], ["---"] * len(names)]
    lines += [[row.get(name, "") for name in names] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _escaped(words: Any) -> str:
    """Words that stay what they are: no tags, no cells, one line."""
    line = " ".join(str(words).split())
    return line.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").replace("*", "\\*")


def _anchor(title: str) -> str:
    """The link to a heading, as GitHub and mkdocs make it."""
    return re.sub(r"[^\w-]", "", title.lower().replace(" ", "-"))


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
