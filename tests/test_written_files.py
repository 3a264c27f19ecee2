"""Files are written completely or not at all, however writing is interrupted; errors have the reason and a remedy."""

from __future__ import annotations

import errno
import os
import random
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from vaescope.cli.output import write_csv
from vaescope.codes import Representation
from vaescope.errors import WriteError
from vaescope.files import check_page, check_writable, open_output, write_atomically, write_error, write_text
from vaescope.reporting.page import write_page
from vaescope.runs.queries import write_parquet
from vaescope.training.checkpoint import save_tensors

POSIX = pytest.mark.skipif(os.name != "posix", reason="needs POSIX files")
ROWS = [{"name": f"{number:>40}", "value": number} for number in range(2000)]
OLD = b"what was there before"


def write_codes(path: Path) -> None:
    codes = torch.rand(2000, 4, dtype=torch.float64)
    Representation(codes, codes + 1, codes).save(path)


# Each writes over 16 kB.
WRITERS: dict[str, Callable[[Path], object]] = {
    "bytes": lambda path: write_atomically(path, bytes(100_000)),
    "page": lambda path: write_page(path, "word " * 20_000),
    "csv": lambda path: write_csv(ROWS, ["name", "value"], path),
    "parquet": lambda path: write_parquet(ROWS, ["name", "value"], path),
    "codes": write_codes,
    "tensors": lambda path: save_tensors(path, {"a": torch.rand(20_000)}),
}

OUTPUTS = ("page", "csv", "parquet", "codes")  # files that users name


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("name", WRITERS)
def test_a_limit_on_file_sizes_leaves_the_old_file_whole(name: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(OLD)
    with file_size_limit(4096), pytest.raises(WriteError, match="too large"):
        WRITERS[name](file)
    assert file.read_bytes() == OLD
    assert list(tmp_path.iterdir()) == [file]


class Killed(BaseException):
    """Looks like the end of the process to the code under test."""


@pytest.mark.parametrize("name", WRITERS)
def test_new_content_appears_in_one_step_after_it_is_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_bytes(OLD)
    seen: list[bytes] = []
    replace = Path.replace

    def watched(self: Path, target: Path) -> Path:
        seen.append(file.read_bytes())
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", watched)
    WRITERS[name](file)
    assert seen == [OLD]
    assert len(file.read_bytes()) > 16_000
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("name", WRITERS)
def test_content_is_on_disk_before_it_replaces_the_old_and_the_name_is_afterwards(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, replace = list[str](), Path.replace

    def synced(descriptor: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")

    def replaced(self: Path, target: Path) -> Path:
        done.append("replaced")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    WRITERS[name](tmp_path / "file")
    assert done == ["file", "replaced", *(["folder"] if os.name == "posix" else [])]


WORKER = """
import sys
from pathlib import Path
from vaescope.files import write_atomically
print("started", flush=True)
while True:
    for letter in b"ab":
        write_atomically(Path(sys.argv[1]), bytes([letter]) * 3_000_000)
"""


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_a_whole_file(tmp_path: Path) -> None:
    file, moments = tmp_path / "file", random.Random(0)
    write_atomically(file, b"a" * 3_000_000)
    for _ in range(15):
        with subprocess.Popen([sys.executable, "-c", WORKER, str(file)], stdout=subprocess.PIPE, text=True) as worker:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "started\n"
            time.sleep(moments.uniform(0, 0.1))
            worker.kill()
        content = file.read_bytes()
        assert len(content) == 3_000_000
        assert set(content) in ({ord("a")}, {ord("b")})


@pytest.mark.parametrize("end", [KeyboardInterrupt, ValueError, Killed])
def test_an_exception_while_writing_propagates_and_leaves_no_temporary_file(
    end: type[BaseException], tmp_path: Path
) -> None:
    def write() -> None:
        with open_output(file) as opened:
            opened.write(b"half")
            raise end

    file = tmp_path / "file"
    file.write_bytes(OLD)
    with pytest.raises(end):
        write()
    assert file.read_bytes() == OLD
    assert list(tmp_path.iterdir()) == [file]


@POSIX
def test_permissions_of_a_file_are_kept_and_a_new_file_has_the_default_ones(tmp_path: Path) -> None:
    kept, new, usual = tmp_path / "kept", tmp_path / "new", tmp_path / "usual"
    kept.write_bytes(OLD)
    kept.chmod(0o640)
    usual.touch()
    for file in (kept, new):
        write_text(file, "new")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o640
    assert new.stat().st_mode == usual.stat().st_mode


@POSIX
def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("there", "not there"):
        target, link = tmp_path / "folder" / name, tmp_path / f"link to {name}"
        link.symlink_to(target)
        if name == "there":
            target.write_bytes(OLD)
        check_writable(link)
        write_text(link, "new")
        assert link.is_symlink()
        assert target.read_text() == "new"
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for write in (check_writable, lambda path: write_text(path, "new")):
        with pytest.raises(WriteError, match="loop"):
            write(loop)
    assert loop.is_symlink()


@POSIX
@pytest.mark.parametrize("name", ["bytes", "tensors"])
def test_a_file_of_a_run_replaces_a_link_and_a_pipe(name: str, tmp_path: Path) -> None:
    # A malicious run may contain them to make vaescope write elsewhere or block.
    target, link, pipe = tmp_path / "target", tmp_path / "link", tmp_path / "pipe"
    target.write_bytes(OLD)
    link.symlink_to(target)
    os.mkfifo(pipe)
    for path in (link, pipe):
        WRITERS[name](path)
        assert path.is_file()
        assert not path.is_symlink()
    assert target.read_bytes() == OLD


@POSIX
def test_a_pipe_is_written_directly(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    for name in OUTPUTS:
        check_writable(pipe)
        reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
        reader.start()
        WRITERS[name](pipe)
        reader.join()
        assert len(read[-1]) > 16_000, name
    assert list(tmp_path.iterdir()) == [pipe]


@POSIX
@pytest.mark.parametrize("mode", ["wb", "ab"])
def test_a_redirected_stream_gets_the_content_in_its_place(mode: str, tmp_path: Path) -> None:
    code = (
        "import pathlib; from vaescope.files import write_text; write_text(pathlib.Path('/dev/stdout'), 'one '); "
        "print('two')"
    )
    file = tmp_path / "file"
    file.write_text("zero ")
    with file.open(mode) as stream:
        subprocess.run([sys.executable, "-c", code], stdout=stream, check=True)
    assert file.read_text() == ("zero one two\n" if mode == "ab" else "one two\n")


UNPRIVILEGED = """
import os, sys
from pathlib import Path
from vaescope.errors import WriteError
from vaescope.files import check_writable, write_text
os.umask(0o22)
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
os.chdir(sys.argv[1])
Path("protected").write_text("old")
Path("protected").chmod(0o444)
Path("folder").mkdir()
Path("folder/file").write_text("old")
Path("folder").chmod(0o555)
for name in ("protected", "folder/file", "folder/new"):
    for write in (check_writable, lambda path: write_text(path, "new")):
        try:
            write(Path(name))
        except WriteError as error:
            print(error)
for name in ("protected", "folder/file"):
    assert Path(name).read_text() == "old"
Path("folder").chmod(0o755)
print(sorted(os.listdir("folder")), sorted(os.listdir(".")))
"""


@POSIX
def test_missing_write_permission_is_an_error_before_and_after_the_work() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        done = subprocess.run([sys.executable, "-c", UNPRIVILEGED, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *errors, left = done.stdout.splitlines()
    assert [error.split("'")[1] for error in errors] == [
        name for name in ("protected", "folder/file", "folder/new") for _ in range(2)
    ]
    assert all("Permission denied" in error for error in errors)
    assert left == "['file'] ['folder', 'protected']"


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "space"),
        (errno.EFBIG, "ulimit"),
        (errno.EACCES, "permissions"),
        (errno.EROFS, "read-only"),
        (errno.ENOENT, "Create its folder"),
        (errno.EISDIR, "name of a file"),
        (errno.ENAMETOOLONG, "shorter name"),
        (errno.EIO, "another path"),
    ],
)
def test_the_advice_depends_on_the_errno(number: int, words: str, tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    old.write_bytes(OLD)
    for file in (new, old):
        text = str(write_error(file, OSError(number, os.strerror(number))))
        assert words in text
        assert os.strerror(number) in text
        assert ("unchanged" in text) is (file == old)
        assert "resume" not in text


@pytest.mark.parametrize("name", ["no folder/file", "x" * 300, "x" * 5000, ".", "file/file"])
def test_an_impossible_path_is_named_and_nothing_is_written(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(OLD)
    for write in (check_writable, *WRITERS.values()):
        with pytest.raises(WriteError, match="cannot be written"):
            write(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_longest_file_name_that_the_system_allows_can_be_written(tmp_path: Path) -> None:
    file = tmp_path / ("ü" * 127)
    check_writable(file)
    write_text(file, "new")
    assert file.read_text() == "new"


def test_text_that_utf8_cannot_encode_is_escaped(tmp_path: Path) -> None:
    write_page(tmp_path / "file", os.fsdecode(b"caf\xe9 \xc3\xa9"))
    assert (tmp_path / "file").read_text(encoding="utf-8") == "caf\\udce9 é"


@pytest.mark.parametrize("name", ["page.html", "PAGE.HTM", "page", "beta-0.5"])
def test_a_page_may_have_any_name_that_promises_no_other_format(name: str) -> None:
    check_page(Path(name))
    with pytest.raises(WriteError, match=r"must end in \.html"):
        check_page(Path(f"{name}.pdf"))
