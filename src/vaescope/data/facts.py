"""What is known about a data set without opening it: its registry entry in words, the same on every machine."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import partial

from vaescope.data.cache import FOLDER_VARIABLE, PublicFile
from vaescope.data.dataset import DatasetEntry

UNKNOWN_LICENCE = "not known; ask those who publish the data"


@dataclass(frozen=True)
class DatasetFacts:
    """ArrayFacts about a data set.

    Attributes:
        description: What an item is and how the items are ordered, in paragraphs.
        publication: Who introduced the data set.
        origin: The page that publishes the files.
        options: The options of `open_dataset` and their defaults.
        folder: Where to put the files.
        files: The files, with links and checksums.
    """

    name: str
    summary: str
    description: tuple[str, ...]
    publication: str
    origin: str
    licence: str
    items: int
    shape: tuple[int, ...]
    factors: tuple[str, ...]
    options: dict[str, object]
    folder: str
    how_to_get: str
    files: tuple[PublicFile, ...]

    def rows(self) -> list[tuple[str, str]]:
        """The short facts: a name and a text."""
        options = ", ".join(f"{option}={default!r}" for option, default in self.options.items())
        found = {
            "published by": self.publication,
            "source": self.origin,
            "licence": self.licence,
            "items": f"{self.items:,}" if self.items else "",
            "shape of an item": " x ".join(map(str, self.shape)),
            "factors": ", ".join(self.factors),
            "options": options,
            "folder": self.folder,
            "how to get it": self.how_to_get,
        }
        return [(name, text) for name, text in found.items() if text]

    def file_rows(self) -> list[dict[str, str]]:
        """The names, the link and the checksum of each file."""
        return [
            {
                "file": " or ".join(file.names) + (" (optional)" if file.optional else ""),
                "checksum": file.checksum or (f"{file.content} (uncompressed)" if file.content else "not known"),
                "link": file.url or "none",
            }
            for file in self.files
        ]


def facts_about(entry: DatasetEntry) -> DatasetFacts:
    """The facts about a registered data set."""
    published, opener = entry.published, entry.open.func if isinstance(entry.open, partial) else entry.open
    unknown = "" if published is None else UNKNOWN_LICENCE
    return DatasetFacts(
        name=entry.name,
        summary=entry.summary,
        description=_paragraphs(inspect.getdoc(opener) or ""),
        publication=entry.source,
        origin="" if published is None else published.origin,
        licence=entry.licence or unknown,
        items=entry.items,
        shape=entry.shape,
        factors=entry.factors,
        options={name: option.default for name, option in inspect.signature(entry.open).parameters.items()},
        folder="" if published is None else f"${FOLDER_VARIABLE}/{entry.name}",
        how_to_get=entry.how_to_get,
        files=() if published is None else published.files,
    )


def _paragraphs(docstring: str) -> tuple[str, ...]:
    """A docstring up to the list of its arguments, each paragraph on one line."""
    paragraphs = docstring.partition("\nArgs:")[0].strip().split("\n\n")
    return tuple(" ".join(paragraph.split()) for paragraph in paragraphs)
