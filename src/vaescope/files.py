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


@contextmanager
def open_atomically(path: Path) -> Iterator[BinaryIO]:
    """Open a file for new content, which replaces that of `path` when the block ends without an error.

    Permissions are kept and links are followed. Pipes and devices, which have no content to lose, are written directly.
    """
    try:
        mode = _mode(path)
        if str(path) in STREAMS or not (mode is None or stat.S_ISREG(mode)):
            with open(os.dup(STREAMS[str(path)]) if str(path) in STREAMS else path, "wb") as stream:
                yield stream
            return
        target = _target(path)
        temporary = _temporary(target)
        try:
            with temporary.open("xb") as file:
                if mode is not None:
                    temporary.chmod(stat.S_IMODE(mode))
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(target.parent)
    except OSError as error:
        raise write_error(path, error) from error


def write_atomically(path: Path, content: bytes) -> None:
    """Replace the content of a file."""
    with open_atomically(path) as file:
        file.write(content)


def write_text(path: Path, text: str) -> None:
    """Replace the content of a file by text in UTF-8.

    What UTF-8 cannot hold is escaped: file names in another encoding have such characters.
    """
    write_atomically(path, text.encode(errors="backslashreplace"))


def check_writable(path: Path) -> None:
    """Raise an error if the file cannot be written, before hours of work are lost; leaves nothing behind."""
    try:
        mode = _mode(path)
        # Other kinds, such as pipes, would take opening and closing for their whole content.
        if mode is None or stat.S_ISREG(mode) or stat.S_ISDIR(mode):
            temporary = _temporary(_target(path))
            temporary.open("xb").close()
            temporary.unlink()
    except OSError as error:
        raise write_error(path, error) from error


def write_error(path: Path, error: OSError) -> WriteError:
    """The error for a file that cannot be written."""
    kept = "; its previous content is unchanged" if os.path.isfile(path) else ""
    remedy = REMEDIES.get(error.errno or 0, "Choose another path.")
    return WriteError(f"{str(path)!r} cannot be written ({error.strerror or error}){kept}. {remedy}")


def _mode(path: Path) -> int | None:
    """The kind and the permissions of what is there; None if nothing is."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


def _target(path: Path) -> Path:
    """The file that a path or a link leads to; a write-protected one is an error, although it could be replaced."""
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    if target.exists():
        target.open("ab").close()
    return target


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
