"""Published numbers: a JSON file for each document, study by study, with where each stands."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

from vaescope.studies.results import JsonTable
from vaescope.studies.study import Cell


def published_cells(name: str) -> tuple[Cell, ...]:
    """What is published of the study with this name ('rolinek-table2'); nothing where only a picture is.

    Its count is the number of runs that the source names, 0 where it names none.
    """
    document, _, part = name.partition("-")
    table = _document(document).get(part, {})
    return tuple(Cell(**{"count": table.get("seeds", 0), **cell}) for cell in table.get("cells", []))


@cache
def _document(name: str) -> JsonTable:
    file = files(__name__).joinpath(f"{name}.json")
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
