"""Published numbers: a JSON file for each document, study by study, with where each stands."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files

from vaescope.studies.results import JsonTable
from vaescope.studies.study import Cell


def published_cells(name: str) -> tuple[Cell, ...]:
    """What is published of the study with this name ('rolinek-table2'); nothing where only a picture is."""
    document, _, part = name.partition("-")
    return tuple(Cell(**cell) for cell in _document(document).get(part, {}).get("cells", []))


@cache
def _document(name: str) -> JsonTable:
    file = files(__name__).joinpath(f"{name}.json")
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
