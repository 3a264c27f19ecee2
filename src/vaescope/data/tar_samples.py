"""Samples in tar files in the layout of WebDataset: members of one name but for the suffix, `1.png`, `1.cls`, `1.json`.

Nothing is extracted: members are read into memory one by one, and links are refused.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from vaescope.codes.reading import parsing, reading
from vaescope.errors import DataError

IMAGE_TYPES = ("png", "jpg", "jpeg")
MAX_IMAGE_BYTES = 2**28
MAX_TEXT_BYTES = 2**20


@dataclass(frozen=True)
class Sample:
    """The members of a tar file that belong together, by type ("png", "cls", ...); read before the next sample."""

    archive: tarfile.TarFile
    path: Path
    name: str
    members: Mapping[str, tarfile.TarInfo]

    @property
    def place(self) -> Path:
        """The tar file and the member of the image, for messages."""
        return self.path / self._image.name

    def image(self) -> bytes:
        """The content of the only image."""
        return self._content(self._image, MAX_IMAGE_BYTES)

    def text(self, kind: str) -> str | None:
        """The text of a member, or None if the sample has no such member."""
        if kind not in self.members:
            return None
        with parsing(self.path / self.members[kind].name, "text in UTF-8"):
            return self._content(self.members[kind], MAX_TEXT_BYTES).decode().strip()

    def table(self) -> Mapping[str, object]:
        """The content of the `.json` member; empty if there is none."""
        text = self.text("json")
        if text is None:
            return {}
        with parsing(self.path / self.members["json"].name, "a JSON object"):
            found = json.loads(text)
            if not isinstance(found, dict):
                raise ValueError(f"it is a {type(found).__name__}")
            return found

    @property
    def _image(self) -> tarfile.TarInfo:
        images = [member for kind, member in self.members.items() if kind in IMAGE_TYPES]
        if len(images) != 1:
            raise DataError(
                f"{self.path}: each sample must have one image ({', '.join(IMAGE_TYPES)}), but {self.name} has "
                f"{len(images)}: it has {', '.join(member.name for member in self.members.values())}."
            )
        return images[0]

    def _content(self, member: tarfile.TarInfo, most: int) -> bytes:
        place = self.path / member.name
        if member.size > most:
            raise DataError(f"{place} must have at most {most:,} bytes, but it has {member.size:,}.")
        with parsing(place, "a whole member of a tar file", tarfile.TarError):
            file = self.archive.extractfile(member)
            content = b"" if file is None else file.read()
            if len(content) != member.size:
                raise EOFError("it is cut off")
        return content


def samples_in(path: Path) -> Iterator[Sample]:
    """The samples of a tar file, in its order; members of a sample follow one another."""
    with ExitStack() as stack:
        with reading(path, "a whole tar file that is not compressed", tarfile.TarError):
            archive = stack.enter_context(_Archive.open(path, "r:"))
        name, members = "", dict[str, tarfile.TarInfo]()
        for member in _members(archive, path):
            place = PurePosixPath(member.name)
            stem, dot, kind = place.name.partition(".")
            if not (stem and dot):  # hidden files, and those of no sample
                continue
            if members and str(place.with_name(stem)) != name:
                yield Sample(archive, path, name, members)
                members = {}
            name, kind = str(place.with_name(stem)), kind.lower()
            if kind in members:
                raise DataError(f"{path} must have each member once, but {member.name} is there twice.")
            members[kind] = member
        if members:
            yield Sample(archive, path, name, members)


class _Archive(tarfile.TarFile):
    """A tar file, with the attribute that lists the members so far."""

    members: list[tarfile.TarInfo]


def _members(archive: _Archive, path: Path) -> Iterator[tarfile.TarInfo]:
    """The regular files of an archive; folders are left out, and other kinds of members are an error."""
    last = "its start"
    while True:
        with parsing(f"{path}, after {last},", "a whole tar file", tarfile.TarError):
            member = archive.next()
            if member is None:
                _check_end(archive)
                return
        last = member.name
        archive.members.clear()  # tarfile keeps all of them
        if member.isdir():
            continue
        if not member.isreg() or member.issparse():
            raise DataError(
                f"{path} must contain regular files only, but {member.name} is a link, a device or sparse. Write the "
                "tar file again with the files themselves."
            )
        yield member


def _check_end(archive: tarfile.TarFile) -> None:
    """Raise an error unless an empty block ends the archive: tarfile stops without one at a damaged header."""
    assert archive.fileobj is not None
    archive.fileobj.seek(archive.offset)
    block = archive.fileobj.read(tarfile.BLOCKSIZE)
    if len(block) < tarfile.BLOCKSIZE or any(block):
        raise tarfile.ReadError("a header is damaged or the end is missing")
