"""`vaescope datasets`: every data set by name, and where it lies."""

from __future__ import annotations

from typing import Annotated

import typer


def datasets(json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False) -> None:
    """List the data sets that can be opened by name: items, shape, factors, where found.

    Your own data need no name: pass a path to a .npy, .npz or .csv file or to a folder of images.
    """
    from vaescope.cli.tables import print_json, print_table
    from vaescope.data import DATASETS

    rows = [
        {
            "name": name,
            "items": entry.items or None,
            "shape": " x ".join(map(str, entry.shape)),
            "factors": ", ".join(entry.factors),
            "where": entry.locate() or "not found: opening it fetches it or says how to get it",
            "what": entry.summary,
        }
        for name, entry in sorted(DATASETS.items())
    ]
    if json:
        print_json(rows)
    else:
        print_table(
            list(rows[0]), [list(row.values()) for row in rows], first=("name", "where", "what", "items", "shape")
        )
