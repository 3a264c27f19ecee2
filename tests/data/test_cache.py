"""Files of public data sets: where they are searched, how downloads are verified, what errors name."""

from __future__ import annotations

import gzip
import hashlib
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from vaescope.data import DATASETS, cache, open_dataset
from vaescope.data.cache import PublicFile, PublicSet
from vaescope.errors import DataError

CONTENT = b"a few bytes of data"
DIGEST = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""

    def end_headers(self) -> None:
        # A connection that ends early: the server announces more than it sends.
        if self.path.endswith("short.bin"):
            self.send_header("Connection", "close")
        super().end_headers()

    def send_header(self, keyword: str, value: str) -> None:
        if keyword == "Content-Length" and self.path.endswith("short.bin"):
            value = "1000"
        super().send_header(keyword, value)


@pytest.fixture
def places(folder: Path) -> Path:
    """A folder with data/, which is $VAESCOPE_DATA, and cache/, the user cache."""
    return folder.parent


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "served"
    folder.mkdir()
    for name in ("set.bin", "short.bin"):
        (folder / name).write_bytes(CONTENT)
    (folder / "set.gz").write_bytes(gzip.compress(CONTENT))
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder))) as listener:
        thread = threading.Thread(target=listener.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{listener.server_port}/"
        listener.shutdown()
        thread.join()


def one_file(
    name: str = "set.bin",
    url: str = "",
    *,
    content: str = "",
    checksum: str = "",
    prefix_crc32: int | None = None,
    folders: tuple[Path, ...] = (),
) -> PublicSet:
    file = PublicFile((name,), url, checksum=checksum, content=content, prefix_crc32=prefix_crc32)
    return PublicSet("little", "https://example.org/little", (file,), folders)


def kept_files(places: Path) -> list[str]:
    return sorted(path.name for path in (places / "cache").rglob("*") if path.is_file())


def write(path: Path, content: bytes = CONTENT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_the_folder_of_a_set_is_searched_before_the_data_folder_the_cache_and_the_system(places: Path) -> None:
    published = one_file(folders=(places / "system",))
    order = [
        places / "data" / "little" / "set.bin",
        places / "data" / "set.bin",
        places / "cache" / "vaescope" / "little" / "set.bin",
        places / "system" / "set.bin",
    ]
    assert cache.locate(published) is None
    for path in reversed(order):
        write(path)
        assert cache.find(published, published.files[0]) == path
        assert cache.locate(published) == str(path)


def test_without_the_variable_the_cache_is_searched(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VAESCOPE_DATA")
    path = write(places / "cache" / "vaescope" / "little" / "set.bin")
    assert cache.obtain(one_file(), one_file().files[0]) == path


def test_a_variable_that_names_a_missing_folder_is_an_error(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VAESCOPE_DATA", str(places / "typo"))
    write(places / "cache" / "vaescope" / "little" / "set.bin")
    assert cache.locate(one_file()) is None
    with pytest.raises(DataError, match=r"VAESCOPE_DATA .*typo"):
        cache.obtain(one_file(), one_file().files[0])


def test_a_file_of_another_set_with_the_same_name_is_ignored_and_named(places: Path) -> None:
    foreign = write(places / "data" / "set.bin", b"another set's")
    published = one_file(content=DIGEST, prefix_crc32=zlib.crc32(CONTENT))
    assert cache.locate(published) is None
    with pytest.raises(DataError, match=r"set\.bin is another file"):
        cache.obtain(published, published.files[0])
    right = write(places / "cache" / "vaescope" / "little" / "set.bin")
    assert cache.obtain(published, published.files[0]) == right
    foreign.write_bytes(CONTENT)
    assert cache.obtain(published, published.files[0]) == foreign


def test_an_unreadable_file_with_a_shared_name_is_ignored_and_named(places: Path) -> None:
    write(places / "data" / "set.bin", gzip.compress(CONTENT)[:12])
    published = one_file(content=DIGEST, prefix_crc32=zlib.crc32(CONTENT))
    assert cache.locate(published) is None
    with pytest.raises(DataError, match=r"set\.bin is another file"):
        cache.obtain(published, published.files[0])


def test_a_file_with_a_shared_name_that_is_damaged_after_its_prefix_is_refused(places: Path) -> None:
    whole = bytes(range(256)) * 40
    write(places / "data" / "set.bin", whole[:-1] + b"x")
    digest = f"sha256:{hashlib.sha256(whole).hexdigest()}"
    published = one_file(content=digest, prefix_crc32=zlib.crc32(whole[:4096]))
    with pytest.raises(DataError, match="published checksum"):
        cache.read(published, published.files[0])


def test_a_download_is_verified_and_kept(places: Path, server: str) -> None:
    published = one_file("set.bin", server + "set.bin", checksum=DIGEST)
    path = cache.obtain(published, published.files[0])
    assert path == places / "cache" / "vaescope" / "little" / "set.bin"
    assert path.read_bytes() == CONTENT
    assert kept_files(places) == ["set.bin"]
    assert cache.locate(published) == str(path)


def test_a_download_is_made_once(places: Path, server: str) -> None:
    published = one_file("set.bin", server + "set.bin", checksum=DIGEST)
    first = cache.obtain(published, published.files[0])
    gone = one_file("set.bin", server + "gone.bin", checksum=DIGEST)
    assert cache.obtain(gone, gone.files[0]) == first


def test_a_checksum_of_the_content_accepts_any_compression(places: Path, server: str) -> None:
    published = one_file("set.gz", server + "set.gz", content=DIGEST)
    assert cache.read(published, published.files[0]) == CONTENT


def test_a_download_with_another_checksum_is_refused_and_not_kept(places: Path, server: str) -> None:
    published = one_file("set.bin", server + "set.bin", checksum="md5:" + 32 * "0")
    with pytest.raises(DataError, match=r"set\.bin .* published checksum md5:000.* discarded"):
        cache.obtain(published, published.files[0])
    assert kept_files(places) == []


def test_a_connection_that_ends_early_leaves_no_partial_file(places: Path, server: str) -> None:
    published = one_file("short.bin", server + "short.bin", checksum=DIGEST)
    with pytest.raises(DataError, match=r"^little: short\.bin .*\$VAESCOPE_DATA/little/.* failed"):
        cache.obtain(published, published.files[0])
    assert kept_files(places) == []


def test_a_missing_page_is_an_error_that_names_the_origin(places: Path, server: str) -> None:
    published = one_file("gone.bin", server + "gone.bin", checksum=DIGEST)
    with pytest.raises(DataError, match=r"404.*https://example.org/little"):
        cache.obtain(published, published.files[0])
    assert kept_files(places) == []


def test_without_a_network_the_error_names_the_link_on_one_line(places: Path) -> None:
    published = one_file(url="http://127.0.0.1:9/set.bin", checksum=DIGEST)
    with pytest.raises(DataError, match=r"http://127.0.0.1:9/set.bin .* failed") as raised:
        cache.obtain(published, published.files[0])
    assert "\n" not in str(raised.value)


def test_a_cache_that_is_not_writable_is_named(places: Path, server: str) -> None:
    write(places / "cache", b"a file where the cache should be")
    published = one_file("set.bin", server + "set.bin", checksum=DIGEST)
    with pytest.raises(DataError, match=r"downloading .* into .*cache.* failed"):
        cache.obtain(published, published.files[0])


def test_a_link_without_a_checksum_is_never_followed(places: Path, server: str) -> None:
    published = one_file("set.bin", server + "set.bin")
    with pytest.raises(DataError, match="no public link"):
        cache.obtain(published, published.files[0])


def test_a_found_file_with_another_checksum_is_named(places: Path) -> None:
    path = write(places / "data" / "little" / "set.bin", b"changed")
    published = one_file(checksum=DIGEST)
    with pytest.raises(DataError, match="published checksum") as raised:
        cache.obtain(published, published.files[0])
    assert str(path) in str(raised.value)
    assert path.exists()


def test_all_missing_files_are_listed_but_not_the_optional(places: Path) -> None:
    files = (PublicFile(("a",)), PublicFile(("b",)), PublicFile(("c",), optional=True))
    write(places / "data" / "little" / "a")
    with pytest.raises(DataError, match=r"^little: b must be in"):
        cache.obtain(PublicSet("little", "somewhere", files), files[1])


def test_without_pooch_the_data_folder_still_works(places: Path) -> None:
    path = write(places / "data" / "little" / "set.bin")
    code = (
        "import sys; sys.modules['pooch'] = None\n"
        "import importlib.util; real = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *a: None if name == 'pooch' else real(name, *a)\n"
        "from vaescope.data.cache import *\n"
        "from vaescope.errors import DataError\n"
        f"held, gone = PublicFile(('set.bin',)), PublicFile(('gone',), 'http://x', checksum='md5:0')\n"
        "little = PublicSet('little', 'o', (held, gone))\n"
        f"assert str(obtain(little, held)) == {str(path)!r}\n"
        "try:\n    obtain(little, gone)\n"
        "except DataError as error:\n    assert 'package pooch' in str(error)\n"
        "else:\n    raise AssertionError\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_the_progress_bar_follows_a_download_on_a_terminal(
    places: Path, server: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    published = one_file("set.bin", server + "set.bin", checksum=DIGEST)
    cache.obtain(published, published.files[0])
    shown = capsys.readouterr().err
    assert "little/set.bin" in shown
    assert "100%" in shown


@pytest.mark.parametrize("value", ["a" * 300, "a" * 5000, "~nobody-has-this-name/data", "loop"])
def test_an_impossible_data_folder_is_named_and_other_data_sets_are_still_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    monkeypatch.setenv("VAESCOPE_DATA", value)
    assert DATASETS["mnist"].locate() is None
    assert DATASETS["dsprites"].locate() is not None
    with pytest.raises(DataError, match="VAESCOPE_DATA must name a folder"):
        open_dataset("mnist")
