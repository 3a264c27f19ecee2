"""Facts about the rows of large files, kept in the user cache, so that a file that did not change is read only once."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from vaescope.data.cache import user_cache
from vaescope.data.file_rows import FileRows, Rows
from vaescope.errors import WriteError
from vaescope.files import write_atomically

FACTS_FILE = "fingerprints.json"
MIN_BYTES = 2**26  # smaller files are read faster than it is worth
MAX_FILES = 1000
# The clock of a file system may tick this slowly: a file that was modified later may have changed since with no sign.
SETTLED_SECONDS = 2.0


@dataclass(frozen=True)
class ArrayFacts:
    """The smallest and the largest number of an array, and a hash of its content."""

    minimum: float
    maximum: float
    digest: str


def known_facts(rows: Rows, inspect: Callable[[], ArrayFacts], settings: str = "") -> ArrayFacts:
    """The facts about rows: those kept for their file if it has not changed since, else those that `inspect` finds.

    `settings` tells apart inspections that check different things.
    """
    if not (isinstance(rows, FileRows) and _is_large(rows)) or (folder := user_cache("")) is None:
        return inspect()
    settled = time.time_ns() - rows.version[2] > SETTLED_SECONDS * 1e9
    kept, place = _read(folder / FACTS_FILE), f"{rows.path.absolute()}: {_view(rows)} {settings}"
    if settled and (found := _facts(kept.get(place), rows)) is not None:
        return found
    found = inspect()
    if settled:
        # Read again, because it may have taken a minute; the last files come last.
        kept = {name: one for name, one in _read(folder / FACTS_FILE).items() if name != place}
        kept[place] = {"version": list(rows.version), **asdict(found)}
        with suppress(WriteError, OSError):  # the next opening takes longer, nothing else
            folder.mkdir(parents=True, exist_ok=True)
            content = dict(list(kept.items())[-MAX_FILES:])
            write_atomically(folder / FACTS_FILE, json.dumps(content, indent=1).encode())
    return found


def _is_large(rows: FileRows) -> bool:
    """Whether the rows were read from a large file; what a memory map shows may be a file that was replaced since."""
    size = rows.dtype.itemsize * len(rows) * math.prod(rows.stored)
    return size >= MIN_BYTES and not isinstance(rows.held, np.memmap)


def _view(rows: FileRows) -> str:
    """How the bytes of the file become rows: their place and type, and where `arrange` puts each number of a row."""
    places = np.arange(math.prod(rows.stored)).reshape(1, *rows.stored)
    arranged = np.ascontiguousarray(rows.arrange(places))
    order = hashlib.sha256(f"{arranged.dtype.str}{arranged.shape}".encode() + arranged.tobytes()).hexdigest()
    return f"{rows.offset} {rows.dtype.str} {rows.stored} {order[:16]}"


def _read(path: Path) -> dict[str, object]:
    """The kept facts by file; none if there are none or the file is damaged."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _facts(entry: object, rows: FileRows) -> ArrayFacts | None:
    """The facts in an entry, if they are about this version of the file."""
    match entry:
        case {
            "version": version,
            "minimum": float() as minimum,
            "maximum": float() as maximum,
            "digest": str() as digest,
        }:
            whole = len(digest) == hashlib.sha256().digest_size * 2 and -math.inf < minimum <= maximum < math.inf
            return ArrayFacts(minimum, maximum, digest) if whole and version == list(rows.version) else None
    return None
