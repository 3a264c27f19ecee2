"""Small results of studies on disk: a checksummed JSON file for each measured value, found without a run's weights."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from vaescope.errors import ConfigurationError, RunError
from vaescope.files import write_atomically
from vaescope.runs import make_folder

FORMAT = 1
CHECKSUM = "sha256"
LEFTOVER_SECONDS = 60.0
_AGAIN = "Move the file away: the same command makes it again."
# A table that was or will be JSON; what a value is, its measurement says.
JsonTable: TypeAlias = dict[str, Any]
Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"


@dataclass(frozen=True)
class ResultKey:
    """What a value is of: a subject (the id of a run, or a hash of several), the measurement, its options, its version.

    A measurement whose function changes its meaning gets a new version, so that old values are not mistaken for new.
    """

    subject: str
    measurement: str
    options: str = "{}"
    version: int = 1

    @classmethod
    def of(
        cls, subject: str, measurement: str, options: Mapping[str, Json] | None = None, version: int = 1
    ) -> ResultKey:
        """The key with its options in a canonical text."""
        return cls(subject, measurement, _canonical(dict(options or {})), version)

    @property
    def file_name(self) -> str:
        """A readable name that differs between keys."""
        digest = _sha256([self.measurement, self.options, self.version])
        return f"{self.subject}-{self.measurement}-{digest[:10]}.json"


@dataclass(frozen=True)
class Result:
    """A value, or the reason why a run that diverged has none, and what is known about how it was made.

    `made` (device, versions, times) is no part of the value: results of two machines are equal if their values are.
    """

    value: Json
    failure: str | None = None
    made: Mapping[str, Json] = field(default_factory=dict, compare=False)


class ResultStore:
    """The results in a folder. Files appear whole or not at all, and each is verified when it is read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[ResultKey, Result] = {}

    def find(self, key: ResultKey) -> Result | None:
        """The result, or None where there is none yet."""
        if key not in self._known:
            file = self.folder / key.file_name
            if not file.is_file():
                return None
            found, result = _read(file)
            if found != key:
                raise RunError(
                    f"{file} must hold {key.measurement} of {key.subject}, it holds another result. {_AGAIN}"
                )
            self._known[key] = result
        return self._known[key]

    def add(self, key: ResultKey, result: Result) -> None:
        """Write a result; one that is there with another value is never overwritten."""
        if not self._is_new(key, result, "the new measurement"):
            return
        make_folder(self.folder)
        table: dict[str, Json] = {
            "format": FORMAT,
            "subject": key.subject,
            "measurement": key.measurement,
            "version": key.version,
            "options": json.loads(key.options),
            "made": dict(result.made),
            "failure": result.failure,
            "value": result.value,
        }
        content = json.dumps({**table, CHECKSUM: _sha256(table)}, separators=(",", ":")) + "\n"
        write_atomically(self.folder / key.file_name, content.encode())
        self._known[key] = result

    def merge(self, other: Path) -> int:
        """Copy results of another folder that are missing here, and count them; equal keys must have equal values."""
        if not other.is_dir():
            raise ConfigurationError(f"{other} must be a folder with results of studies; there is no such folder.")
        found = {file: _read(file) for file in sorted(other.glob("*.json"))}
        missing = [(key, result) for file, (key, result) in found.items() if self._is_new(key, result, file)]
        for key, result in missing:
            self.add(key, result)
        return len(missing)

    def _is_new(self, key: ResultKey, result: Result, source: Path | str) -> bool:
        """Whether there is no result yet; one with another value is an error."""
        known = self.find(key)
        if known is not None and known != result:
            raise ConfigurationError(
                f"{self.folder / key.file_name} and {source} must hold the same value of {key.measurement} for "
                f"{key.subject}; they differ. Keep one of the two."
            )
        return known is None

    def clean(self) -> None:
        """Remove what a killed process was writing; other processes may be writing now."""
        for part in self.folder.glob(".*.part") if self.folder.is_dir() else ():
            with suppress(FileNotFoundError):
                if time.time() - part.stat().st_mtime > LEFTOVER_SECONDS:
                    part.unlink()


def _read(file: Path) -> tuple[ResultKey, Result]:
    """The key and the result in a file, after its checksum was verified."""
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
        given = table.pop(CHECKSUM)
        key = ResultKey.of(table["subject"], table["measurement"], table["options"], table["version"])
        result = Result(table["value"], table["failure"], table["made"])
        newer = table["format"] > FORMAT
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunError(f"{file} is damaged ({type(error).__name__}: {error}). {_AGAIN}") from error
    if newer:
        raise RunError(f"{file} was written by a newer version of vaescope. Update vaescope to read it.")
    if given != _sha256(table):
        raise RunError(f"{file} is damaged: its checksum does not match its content. {_AGAIN}")
    return key, result


def _canonical(value: Json) -> str:
    """The same text for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _sha256(value: Json) -> str:
    return hashlib.sha256(_canonical(value).encode()).hexdigest()
