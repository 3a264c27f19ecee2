"""JSON files that carry the SHA-256 of their own content, so that a number that was changed is noticed when it is read.

Nothing here loads torch: listings of thousands of runs read such files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from vaescope.errors import RunError, unreadable

CHECKSUM = "sha256"
NO_MATCH, NO_CHECKSUM = "its checksum does not match its content", "its checksum was removed"
# What to do about a damaged file of a run.
RESTORE = "Restore the file from a backup, or move the run's folder elsewhere and train the run again."
# What reading a file that is not what it should be raises.
DAMAGE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


def digest_of(content: object) -> str:
    """The SHA-256 of the content as canonical JSON."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def sealed(table: Mapping[str, object]) -> dict[str, object]:
    """The table with its checksum, to be written as JSON."""
    return {CHECKSUM: digest_of(table), **table}


def read_sealed(file: str | Path) -> tuple[dict[str, object], bool]:
    """The table that a JSON file holds, without its checksum, and whether it had one; one that is wrong is an error.

    Use it within `naming`, which turns errors into a sentence.
    """
    with open(file, "rb") as opened:
        table = json.loads(opened.read())
    if not isinstance(table, dict):
        raise TypeError(f"it must hold a table, got {type(table).__name__}")
    checksum = table.pop(CHECKSUM, None)
    if checksum is not None and checksum != digest_of(table):
        raise ValueError(NO_MATCH)
    return table, checksum is not None


@contextmanager
def naming(file: str | Path, remedy: str = RESTORE) -> Iterator[None]:
    """Turn what goes wrong while a file is read into one sentence that names the file and says what to do.

    What a missing file means depends on the file: FileNotFoundError is left to the caller.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise unreadable(file, error) from error
    except DAMAGE as error:
        what = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
        raise RunError(f"{file} is damaged ({what}). {remedy}") from error
