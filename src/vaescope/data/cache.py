"""Files of public data sets: found in the user's folder or the user cache, or downloaded and verified."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import sys
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from vaescope.codes.reading import reading
from vaescope.errors import DataError
from vaescope.progress import ProgressReport, progress_bar

PREFIX_BYTES = 4096
FOLDER_VARIABLE = "VAESCOPE_DATA"
GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True)
class PublicFile:
    """One file of a public data set.

    Attributes:
        names: The file names it may have; it is published and downloaded under the first.
        url: A direct link; "" if there is none.
        checksum: "md5:..." or "sha256:..." of the published file; "" if unknown.
        content: The same for the uncompressed content, which is equal for every mirror; "" if unknown.
        prefix_crc32: The CRC-32 of the first 4096 bytes of the content, for names that other data sets use as well;
            None if the names are unique.
        pictures: The suffix of the pictures inside, if a folder of them can replace the file.
        optional: Whether the data set opens without it.
    """

    names: tuple[str, ...]
    url: str = ""
    checksum: str = ""
    content: str = ""
    prefix_crc32: int | None = None
    pictures: str = ""
    optional: bool = False

    @property
    def verifiable(self) -> bool:
        """Whether a checksum is known."""
        return bool(self.checksum or self.content)


@dataclass(frozen=True)
class PublicSet:
    """The files of a public data set.

    Attributes:
        origin: The page that publishes them.
        folders: System folders that may contain them.
    """

    name: str
    origin: str
    files: tuple[PublicFile, ...]
    folders: tuple[Path, ...] = ()

    @property
    def downloadable(self) -> bool:
        """Whether all required files have a link and a checksum."""
        return all(file.url and file.verifiable for file in self.files if not file.optional)


def user_folder() -> Path | None:
    """The folder that the environment variable VAESCOPE_DATA names, or None if it is unset."""
    value = os.environ.get(FOLDER_VARIABLE)
    return Path(os.path.expanduser(value)) if value else None


def user_cache(name: str) -> Path | None:
    """The download folder of a data set; None without the package pooch, which defines the folder on each system."""
    try:
        import pooch
    except ImportError:
        return None
    return Path(pooch.os_cache("vaescope")) / name


def find(published: PublicSet, file: PublicFile) -> Path | None:
    """The current path of a file, or None."""
    own, cached = user_folder(), user_cache(published.name)
    if own and (path := _first([own / published.name], file)):
        return path
    if own and (path := _first([own], file)):
        crc = file.prefix_crc32
        if crc is None or zlib.crc32(read_prefix(path, PREFIX_BYTES)) == crc:
            return path
    return _first([*([cached] if cached else []), *published.folders], file)


def locate(published: PublicSet) -> str | None:
    """The folder or file that a data set would be opened from; None if something is missing.

    It is fast, because listing all data sets calls it: checksums are verified when a data set is opened.
    """
    own = user_folder()
    if own and not os.path.isdir(own):
        return None
    paths = [find(published, file) for file in published.files if not file.optional]
    if not paths or not all(paths):
        return None
    return str(paths[0] if len(paths) == 1 else os.path.commonpath([path for path in paths if path]))


def obtain(published: PublicSet, file: PublicFile) -> Path:
    """The path of a file, found or downloaded, and verified."""
    path = _found_or_downloaded(published, file)
    if path.is_file():
        _verify(published, file, path)
    return path


def read(published: PublicSet, file: PublicFile) -> bytes:
    """The uncompressed content of a file, found or downloaded, and verified."""
    path = _found_or_downloaded(published, file)
    content = read_content(path)
    _verify(published, file, path, content)
    return content


@contextmanager
def temporary_path(target: Path) -> Iterator[Path]:
    """A path in the folder of `target` to write to and then move; removed after the block if it still exists."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    os.close(handle)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def read_content(path: Path) -> bytes:
    """The content of a file, uncompressed if it is gzip, whatever its name."""
    if path.is_dir():
        raise DataError(f"{path} must be a file, but it is a folder. Pass the file inside it.")
    with reading(path, "a whole file, plain or gzip"):
        content = path.read_bytes()
        content = gzip.decompress(content) if content.startswith(GZIP_MAGIC) else content
    if not content:
        raise DataError(f"{path} is empty. Download it again.")
    return content


def read_prefix(path: Path, size: int) -> bytes:
    """The first bytes of a file's content, uncompressed if it is gzip; b"" if the file cannot be read."""
    try:
        with path.open("rb") as file:
            packed = file.read(len(GZIP_MAGIC)) == GZIP_MAGIC
            file.seek(0)
            with gzip.open(file) if packed else file as content:
                return content.read(size)
    except (EOFError, zlib.error, OSError):
        return b""


def fetch(url: str, target: Path, title: str) -> None:
    """Download `url` to `target`; the package pooch must be installed."""
    import pooch

    with progress_bar(title, 100) as report:
        pooch.HTTPDownloader(progressbar=_PercentMeter(report))(url, str(target), None)


class _PercentMeter:
    """Converts the bytes that pooch reports to the percents of a progress bar; pooch sets `total` itself."""

    def __init__(self, report: ProgressReport) -> None:
        self.report = report
        self.total = 0
        self.done = 0

    def update(self, amount: int) -> None:
        # The last block is reported in full size, and a server may not say how many bytes it will send.
        self.done = min(self.done + amount, self.total or sys.maxsize)
        percent = 100 * self.done // self.total if self.total else 0
        self.report(percent, f"{self.done / 1e6:.1f} MB")

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        """Do nothing: the progress bar ends with its block."""


def _first(folders: list[Path], file: PublicFile) -> Path | None:
    for path in (folder / name for folder in folders for name in file.names):
        if os.path.isfile(path):
            return path
        if file.pictures and os.path.isdir(path):
            # Not `glob`, which lists all 200,000 files of a large set before it yields the first.
            with reading(path, "a folder of pictures"), os.scandir(path) as entries:
                if any(entry.name.endswith(file.pictures) and not entry.name.startswith(".") for entry in entries):
                    return path
    return None


def _found_or_downloaded(published: PublicSet, file: PublicFile) -> Path:
    own = user_folder()
    if own and not os.path.isdir(own):
        raise DataError(f"{FOLDER_VARIABLE} must name a folder, got {str(own)!r}. Create it or unset the variable.")
    return find(published, file) or _download(published, file)


def _download(published: PublicSet, file: PublicFile) -> Path:
    if not file.url or not file.verifiable:
        raise _missing(published, file, "there is no public link with a known checksum")
    folder = user_cache(published.name)
    if folder is None:
        raise _missing(published, file, "downloading needs the package pooch, which is not installed")
    target = folder / file.names[0]
    try:
        with temporary_path(target) as part:
            fetch(file.url, part, f"{published.name}/{target.name}")
            if not _is_intact(file, part):
                raise DataError(
                    f"{published.name}: {file.url} must have the published checksum {file.content or file.checksum}, "
                    f"but the download has another and was discarded. Get {target.name} from {published.origin} and "
                    f"put it into ${FOLDER_VARIABLE}/{published.name}/."
                )
            os.replace(part, target)
    except OSError as error:
        # The message of requests about a lost network names its classes and has several lines.
        text = str(error).partition(" for url")[0]
        reason = text if len(text) < 100 else type(error).__name__
        raise _missing(published, file, f"downloading {file.url} into {folder} failed ({reason})") from error
    return target


def _missing(published: PublicSet, file: PublicFile, why: str) -> DataError:
    """The error for a missing file: its name, where to put it, where to get it."""
    absent = (part for part in published.files if not part.optional and not find(published, part))
    names = ", ".join(part.names[0] for part in absent) or file.names[0]
    own = user_folder()
    ignored = f" ({other} is another file)" if own and (other := _first([own], file)) else ""
    return DataError(
        f"{published.name}: {names} must be in ${FOLDER_VARIABLE}/{published.name}/, but nothing was found there or "
        f"in the user cache{ignored}, and {why}. Get it from {published.origin} and put it there."
    )


def _verify(published: PublicSet, file: PublicFile, path: Path, content: bytes | None = None) -> None:
    if not _matches(file, path, content):
        raise DataError(
            f"{published.name}: {file.names[0]} must have the published checksum {file.content or file.checksum}, "
            f"but {path} has another. Get the file again from {published.origin} and replace this one."
        )


def _is_intact(file: PublicFile, path: Path) -> bool:
    """Whether a download has the published checksum; False for a compressed file that cannot be read."""
    try:
        return _matches(file, path)
    except DataError:
        return False


def _matches(file: PublicFile, path: Path, content: bytes | None = None) -> bool:
    if not file.verifiable:
        return True
    with reading(path, "a whole file"), path.open("rb") as stream:
        if file.checksum and _digest(stream, file.checksum) == file.checksum:
            return True
    return bool(file.content) and _digest(io.BytesIO(content or read_content(path)), file.content) == file.content


def _digest(stream: io.BufferedIOBase, like: str) -> str:
    """The checksum of a stream as "algorithm:digits", with the algorithm of another checksum."""
    algorithm = like.partition(":")[0]
    digest = hashlib.file_digest(stream, lambda: hashlib.new(algorithm, usedforsecurity=False))
    return f"{algorithm}:{digest.hexdigest()}"
