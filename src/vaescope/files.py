"""Files that are written whole or not at all: an error or a crash leaves the old or the new content, never a part."""

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

# Opened by these names, a redirected stream would be written from its beginning.
STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}
KEPT_NAME = 40  # characters of a file's name in the name of its temporary file, which must not become too long

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
    with _naming(path), _replacing(path) as file:
        file.write(content)


@contextmanager
def open_output(path: Path) -> Iterator[BinaryIO]:
    """Open a file that a user named for new content, which replaces the old when the block ends without an error.

    Links are followed. Pipes and devices, which have no content to lose, are written directly.
    """
    with _naming(path):
        if _is_stream(path):
            with open(os.dup(STREAMS[str(path)]) if str(path) in STREAMS else path, "wb") as stream:
                yield stream
        else:
            with _replacing(_target(path)) as file:
                yield file


def write_text(path: Path, text: str) -> None:
    """Write text in UTF-8 to a file that a user named.

    What UTF-8 cannot hold is escaped: file names in another encoding have such characters.
    """
    with open_output(path) as file:
        file.write(text.encode(errors="backslashreplace"))


def check_writable(path: Path) -> None:
    """Raise the error of `open_output`, before hours of work are lost; leaves nothing behind."""
    with _naming(path):
        # A pipe would take opening and closing for the whole content.
        if not _is_stream(path):
            temporary = _temporary(_target(path))
            temporary.open("xb").close()
            temporary.unlink()


def write_error(path: Path, error: OSError) -> WriteError:
    """The error for a file that cannot be written."""
    kept = "; its previous content is unchanged" if os.path.isfile(path) else ""
    remedy = REMEDIES.get(error.errno or 0, "Choose another path.")
    return WriteError(f"{str(path)!r} cannot be written ({error.strerror or error}){kept}. {remedy}")


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise write_error(path, error) from error


def _is_stream(path: Path) -> bool:
    """Whether there is a pipe or a device."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    return str(path) in STREAMS or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _target(path: Path) -> Path:
    """The file that a path or a link leads to; a write-protected one is an error, although it could be replaced."""
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    if target.exists():
        target.open("ab").close()
    return target


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file, which takes the place of the old one, with its permissions, when it is written."""
    temporary = _temporary(path)
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


def _temporary(target: Path) -> Path:
    """A new name in the folder of a file."""
    return target.with_name(f".{target.name[:KEPT_NAME]}.{secrets.token_hex(8)}.part")


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
