"""Finding and fetching public files: the user's folder, the user's cache, then a download that is checked."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from vaescope.data.download import fetch
from vaescope.data.idx import read_content, read_opening
from vaescope.errors import DataError

OPENING_BYTES = 4096
VARIABLE = "VAESCOPE_DATA"


@dataclass(frozen=True)
class PublicFile:
    """One file of a public data set.

    Attributes:
        names: the names it may lie under; the first is the one it is published and downloaded under.
        url: a direct link, or "" when there is none.
        checksum: "md5:..." or "sha256:..." of the file as published, or "" when unknown.
        content: the same of its unpacked content, which mirrors that pack anew leave alone; "" when unknown.
        opening: the CRC-32 of the first 4096 bytes of its content, where other sets use the same names and only
            the content tells them apart; None when the names are its own.
        pictures: the ending of the pictures inside, when a folder of them may stand for the file.
        optional: whether the set opens without it.
    """

    names: tuple[str, ...]
    url: str = ""
    checksum: str = ""
    content: str = ""
    opening: int | None = None
    pictures: str = ""
    optional: bool = False

    @property
    def checked(self) -> bool:
        """Whether a checksum can tell this file from any other."""
        return bool(self.checksum or self.content)


@dataclass(frozen=True)
class PublicSet:
    """The files of a public data set.

    Attributes:
        origin: the page they come from.
        folders: folders of the system that may hold them.
    """

    name: str
    origin: str
    files: tuple[PublicFile, ...]
    folders: tuple[Path, ...] = ()


def user_folder() -> Path | None:
    """The folder named by the environment variable VAESCOPE_DATA, or None when it is unset."""
    value = os.environ.get(VARIABLE)
    return Path(value).expanduser() if value else None


def user_cache(name: str) -> Path | None:
    """Where downloads of a set are kept; None without the package pooch, which knows each system's place."""
    if importlib.util.find_spec("pooch") is None:
        return None
    import pooch

    return Path(pooch.os_cache("vaescope")) / name


def find(published: PublicSet, file: PublicFile) -> Path | None:
    """Where a file lies now, or None."""
    own, cached = user_folder(), user_cache(published.name)
    if own and (path := _first([own / published.name], file)):
        return path
    if own and (path := _first([own], file)) and _begins_right(file, path):
        return path
    return _first([*([cached] if cached else []), *published.folders], file)


def locate(published: PublicSet) -> str | None:
    """The folder or file a set opens from now, or None when something would have to be fetched or mended.

    It is quick, as a list of all sets needs it: checksums are left for when the set is opened.
    """
    own = user_folder()
    if own and not own.is_dir():
        return None
    paths = [find(published, file) for file in published.files if not file.optional]
    if not paths or not all(paths):
        return None
    return str(paths[0] if len(paths) == 1 else os.path.commonpath([path for path in paths if path]))


def obtain(published: PublicSet, file: PublicFile) -> Path:
    """The path of a file, found or downloaded, with its checksum verified."""
    path = _found_or_downloaded(published, file)
    if path.is_file():
        _verify(published, file, path)
    return path


def read(published: PublicSet, file: PublicFile) -> bytes:
    """The unpacked content of a file, found or downloaded, with its checksum verified."""
    path = _found_or_downloaded(published, file)
    content = read_content(path)
    _verify(published, file, path, content)
    return content


def missing(published: PublicSet, file: PublicFile, why: str) -> DataError:
    """The error for a file that is not there: which, where to put it, where it comes from."""
    absent = (part for part in published.files if not part.optional and not find(published, part))
    names = ", ".join(part.names[0] for part in absent) or file.names[0]
    own = user_folder()
    passed = f" ({foreign} holds something else)" if own and (foreign := _first([own], file)) else ""
    return DataError(
        f"{published.name}: {names} must lie in ${VARIABLE}/{published.name}/, nothing was found there or in "
        f"the user cache{passed}, and {why}. Get it from {published.origin} and put it there."
    )


@contextmanager
def temporary_beside(target: Path) -> Iterator[Path]:
    """A path to write to and then move to `target`; what is still there after the block is removed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    os.close(handle)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _first(folders: list[Path], file: PublicFile) -> Path | None:
    for path in (folder / name for folder in folders for name in file.names):
        if path.is_file() or (file.pictures and path.is_dir() and _holds_pictures(path, file.pictures)):
            return path
    return None


def _holds_pictures(folder: Path, suffix: str) -> bool:
    """Whether there is one; `glob` would list all 200,000 of a large set before it names the first."""
    with os.scandir(folder) as entries:
        return any(entry.name.endswith(suffix) and not entry.name.startswith(".") for entry in entries)


def _begins_right(file: PublicFile, path: Path) -> bool:
    """Whether a file under a name that other sets use too begins as this set's does."""
    return file.opening is None or zlib.crc32(read_opening(path, OPENING_BYTES)) == file.opening


def _is_foreign(file: PublicFile, path: Path) -> bool:
    """Whether what was downloaded is something else or damaged, both of which the caller tells as one."""
    try:
        return not _matches(file, path)
    except DataError:
        return True


def _found_or_downloaded(published: PublicSet, file: PublicFile) -> Path:
    own = user_folder()
    if own and not own.is_dir():
        raise DataError(f"{VARIABLE} must name a folder, got {str(own)!r}. Make it or unset the variable.")
    return find(published, file) or _download(published, file)


def _download(published: PublicSet, file: PublicFile) -> Path:
    if not file.url or not file.checked:
        raise missing(published, file, "it has no public link with a known checksum")
    folder = user_cache(published.name)
    if folder is None:
        raise missing(published, file, "downloading needs the package pooch, which is not installed")
    target = folder / file.names[0]
    try:
        with temporary_beside(target) as part:
            fetch(file.url, part, f"{published.name}/{target.name}")
            if _is_foreign(file, part):
                raise DataError(
                    f"{published.name}: {file.url} must have the published checksum "
                    f"{file.content or file.checksum}, what came has another and was not kept. Get "
                    f"{target.name} from {published.origin} and put it into ${VARIABLE}/{published.name}/."
                )
            os.replace(part, target)
    except OSError as error:
        # What requests says of a lost network names its own classes and runs over several lines.
        text = str(error).partition(" for url")[0]
        reason = text if len(text) < 100 else type(error).__name__
        raise missing(published, file, f"downloading {file.url} into {folder} failed ({reason})") from error
    return target


def _verify(published: PublicSet, file: PublicFile, path: Path, content: bytes | None = None) -> None:
    if not _matches(file, path, content):
        raise DataError(
            f"{published.name}: {file.names[0]} must have the published checksum "
            f"{file.content or file.checksum}, {path} has another. Delete that file and fetch it again "
            f"from {published.origin}."
        )


def _matches(file: PublicFile, path: Path, content: bytes | None = None) -> bool:
    if not file.checked:
        return True
    if file.checksum and _file_digest(path, file.checksum.partition(":")[0]) == file.checksum:
        return True
    if not file.content:
        return False
    algorithm = file.content.partition(":")[0]
    digest = hashlib.new(algorithm, content or read_content(path), usedforsecurity=False)
    return f"{algorithm}:{digest.hexdigest()}" == file.content


def _file_digest(path: Path, algorithm: str) -> str:
    try:
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, lambda: hashlib.new(algorithm, usedforsecurity=False))
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror or error}).") from error
    return f"{algorithm}:{digest.hexdigest()}"
