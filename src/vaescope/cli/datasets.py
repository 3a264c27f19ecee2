"""`vaescope datasets` lists data sets, and shows what is known about one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from typer import Argument

from vaescope.cli import options
from vaescope.cli.output import print_json, print_rows, print_table
from vaescope.errors import unknown_name
from vaescope.terminal import print_line


def datasets(
    name: Annotated[str | None, Argument(help="Show this data set: source, licence, files, checksums.")] = None,
    json: options.Json = False,
) -> None:
    """List the named data sets: items, shape, factors, location. Or show one in full.

    Your own data need no name: pass the path of a .npy, .npz, .csv, .h5ad or .tar file, or of a folder of images or
    tar files.
    """
    from vaescope.data import DATASETS

    if name is not None:
        _show(name, json)
        return
    rows = [
        {
            "name": known,
            "items": entry.items or None,
            "shape": " x ".join(map(str, entry.shape)),
            "factors": ", ".join(entry.factors),
            "where": entry.locate() or entry.how_to_get,
            "what": entry.summary,
        }
        for known, entry in sorted(DATASETS.items())
    ]
    if json:
        print_json(rows)
        return
    # How to get the others, and where exactly they are, is shown for one at a time.
    short = [
        {
            **row,
            "items": f"{row['items']:,}" if row["items"] else None,
            "where": "on this machine" if Path(str(row["where"])).exists() else str(row["where"]).partition(":")[0],
        }
        for row in rows
    ]
    more = "`vaescope datasets NAME` shows everything about one"
    print_rows(
        short,
        ("name", "what", "items", "shape", "where", "factors"),
        first=("name", "what", "items", "where"),
        more=more,
    )


def _show(name: str, json: bool) -> None:
    """Print the facts about one data set, and where its files are on this machine."""
    from vaescope.data import DATASETS
    from vaescope.data.cache import user_cache
    from vaescope.data.facts import facts_about

    if name not in DATASETS:
        raise unknown_name("data set", name, DATASETS)
    facts, where = facts_about(DATASETS[name]), DATASETS[name].locate()
    cache = user_cache(name) if facts.files else None
    if json:
        print_json({**asdict(facts), "cache": None if cache is None else str(cache), "where": where})
        return
    here = [("cache", "" if cache is None else str(cache)), ("where it is now", where or "not on this machine")]
    print_table(["name", name], [row for row in [("what it is", facts.summary), *facts.rows(), *here] if row[1]])
    for paragraph in facts.description:
        print_line(paragraph)
    if facts.files:
        print_rows(facts.file_rows(), title="files")
    print_line(f"Train on it with `vaescope fit {name}`")
