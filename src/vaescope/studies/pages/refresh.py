"""Kept studies as they are today: measured numbers stay, published ones, differences and verdicts are made again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from vaescope.checks import without_infinities
from vaescope.errors import ConfigurationError
from vaescope.studies.context import ABSENT
from vaescope.studies.numbers import VALUES
from vaescope.studies.published import published_cells
from vaescope.studies.results import JsonTable
from vaescope.studies.running import STUDIES
from vaescope.studies.settings import StudySettings
from vaescope.studies.study import Cell, Findings, Reproduction, Study

NEEDED = (
    "study",
    "source",
    "question",
    "left_open",
    "shared",
    "scale",
    "scale_words",
    "made_by",
    "summary",
    "claims",
    "rows",
    "notes",
    "charts",
)


def read_all(folder: str | Path) -> dict[Path, JsonTable]:
    """Every kept study of a folder, as it is today."""
    place = Path(folder)
    if not place.is_dir():
        raise ConfigurationError(f"{folder} must be a folder with the results of studies as JSON, there is none.")
    return {file: refreshed(_read(file)) for file in sorted(place.glob("*.json"))}


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


def kept_json(plain: JsonTable) -> str:
    """A study as the text of its JSON file."""
    return f"{json.dumps(without_infinities(plain), indent=1, default=_plain_value, allow_nan=False)}\n"


def refreshed(plain: JsonTable) -> JsonTable:
    """A kept study with the words, published numbers and claims of today; measured numbers and charts stay.

    A study that is not known here stays as it is.
    """
    study = STUDIES.get(plain["study"])
    if study is None:
        return plain
    found = reproduction_of(study, plain)
    kept = {name: plain[name] for name in ("made_by", "charts")}
    return {**found.plain(), **kept, "notes": [_short_note(note) for note in plain["notes"]]}


def _short_note(note: str) -> str:
    """A note on absent data without the folders and links that are shown to whoever runs the study."""
    return f"{note.partition('.')[0]}." if note.startswith(ABSENT) else note


def reproduction_of(study: Study, plain: JsonTable) -> Reproduction:
    """The numbers of a kept study, measured ones alone, compared with the published ones of today."""
    published = published_cells(study.name)
    notes = {cell.key: cell.note for cell in published}
    cells = []
    for row in plain["rows"]:
        if row["seeds"] is not None:
            of = {name: value for name, value in row.items() if name not in VALUES and value is not None}
            cell = Cell(of, row["ours"], row["sd"], row["seeds"], row["note"])
            cells.append(
                Cell(of, row["ours"], row["sd"], row["seeds"], _own_note(row["note"], notes.get(cell.key, "")))
            )
    scale = plain["scale_words"]
    return Reproduction(study, StudySettings(plain["scale"]), Findings(tuple(cells)), published, scale)


def _own_note(note: str, published: str) -> str:
    """The note without that of the published number, which comes last."""
    return note.removesuffix(published).removesuffix("; ") if published else note


def _plain_value(value: Any) -> Any:
    """Numbers of numpy and torch as Python's; anything else as its text."""
    return value.item() if hasattr(value, "item") else str(value)
