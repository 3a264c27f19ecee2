"""Files that are written completely or not at all: an error or a crash leaves the old or the new content."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from vaescope.errors import WriteError

# Opening a redirected stream by these names would overwrite it from the start.
STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}
PAGE_ENDINGS = (".html", ".htm")
PART_SUFFIX = ".part"  # of temporary files
KEPT_NAME = 40  # characters of a file's name in the name of its temporary file, to limit its length

SPACE = "Free some space, then run the same command again, or choose another folder."
PERMISSION = "Change its permissions, or choose another folder."
REMEDIES = {
    errno.ENOSPC: SPACE,
    errno.EDQUOT: SPACE,
    errno.EFBIG: "Raise the limit on the size of files (`ulimit -f`), then run the same command again.",
    errno.EACCES: PERMISSION,
    errno.EPERM: PERMISSION,
    errno.EROFS: "Choose a folder that is not read-only.",
    errno.ENOENT: "Create its folder first.",
    errno.ENOTDIR: "Choose a path whose parents are all folders.",
    errno.EISDIR: "Choose the name of a file.",
    errno.ENAMETOOLONG: "Choose a shorter name.",
}


def write_atomically(path: Path, content: bytes) -> None:
    """Replace the content of a file of a run; a link, which may come with a run from elsewhere, is not followed."""
    with write_errors(path), _replacing(path) as file:
        file.write(content)


@contextmanager
def open_output(path: Path) -> Iterator[BinaryIO]:
    """Open a file that a user named for new content, which replaces the old when the block ends without an error.

    Links are followed. Pipes and devices, which have no content to lose, are written directly.
    """
    with write_errors(path):
        if _is_stream(path):
            with open(os.dup(STREAMS[str(path)]) if str(path) in STREAMS else path, "wb") as stream:
                yield stream
        else:
            with _replacing(_target(path)) as file:
                yield file


def write_text(path: Path, text: str) -> None:
    """Write text in UTF-8 to a file that a user named.

    Characters that UTF-8 cannot encode are escaped: file names in other encodings contain them.
    """
    with open_output(path) as file:
        file.write(text.encode(errors="backslashreplace"))


def check_writable(path: Path) -> None:
    """Raise the error of `open_output`, before hours of work are lost; leaves nothing behind."""
    with write_errors(path):
        # Opening and closing a pipe would end its content.
        if not _is_stream(path):
            temporary = temporary_sibling(_target(path))
            temporary.open("xb").close()
            temporary.unlink()


def check_page(path: Path) -> None:
    """Raise an error if a page's name ends like a file of another format; `beta-0.5` has no such ending."""
    ending = path.suffix.lower()
    if ending[1:].isalpha() and ending not in PAGE_ENDINGS:
        raise WriteError(f"{str(path)!r} must end in .html: pages are written as HTML. Change its ending.")


def write_error(path: Path, error: OSError) -> WriteError:
    """The error for a file that cannot be written."""
    kept = "; its previous content is unchanged" if os.path.isfile(path) else ""
    remedy = REMEDIES.get(error.errno or 0, "Choose another path.")
    return WriteError(f"{str(path)!r} cannot be written ({error.strerror or error}){kept}. {remedy}")


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Turn errors of the system inside the block into the error for a file that cannot be written."""
    try:
        yield
    except OSError as error:
        raise write_error(path, error) from error


def _is_stream(path: Path) -> bool:
    """Whether the path is a pipe or a device."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    return str(path) in STREAMS or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _target(path: Path) -> Path:
    """The target of a path or a link; a write-protected file is an error, although it could be replaced."""
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    if target.exists():
        target.open("ab").close()
    return target


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file, which replaces the old one and takes its permissions when the block ends."""
    temporary = temporary_sibling(path)
    try:
        with temporary.open("xb") as file:
            if path.is_file() and not path.is_symlink():
                temporary.chmod(stat.S_IMODE(path.stat().st_mode))
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)


def temporary_sibling(target: Path) -> Path:
    """A new name for content that will replace a file, in its folder."""
    return target.with_name(f".{target.name[:KEPT_NAME]}.{secrets.token_hex(8)}{PART_SUFFIX}")


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
