"""`vaescope datasets`: every data set by name, and where it is."""

from __future__ import annotations

from vaescope.cli import options
from vaescope.cli.output import print_json, print_rows


def datasets(json: options.Json = False) -> None:
    """List the data sets that have a name: items, shape, factors, location.

    Your own data need no name: pass the path of a .npy, .npz or .csv file, or of a folder of images.
    """
    from vaescope.data import DATASETS

    rows = [
        {
            "name": name,
            "items": entry.items or None,
            "shape": " x ".join(map(str, entry.shape)),
            "factors": ", ".join(entry.factors),
            "where": entry.locate() or entry.how_to_get,
            "what": entry.summary,
        }
        for name, entry in sorted(DATASETS.items())
    ]
    if json:
        print_json(rows)
    else:
        print_rows(rows, first=("name", "where", "what", "items", "shape"))
