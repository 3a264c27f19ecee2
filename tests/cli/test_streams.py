"""Output of commands: data cannot control the terminal; closed, full or unread streams end them quietly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import pytest

from vaescope import cli
from vaescope.models import Architecture
from vaescope.runs import Configuration, Run, Split
from vaescope.tables import csv_text
from vaescope.training import Member, Plan

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")
HOSTILE = "=a\x1b[31m\x9b\x07\r\u202e" + os.fsdecode(b"\xe9") + ".npy"
SHOWN = "=a\\x1b[31m\\x9b\\x07\\r\\u202e\\udce9.npy"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run on data with a hostile name, and enough runs that a listing exceeds a buffer."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in range(40):
        data = {"name": HOSTILE, "items": 4, "shape": [5], "fingerprint": "0"}
        configuration = Configuration(
            data, Split(), Architecture(net="mlp", likelihood="gaussian"), Plan(9), Member(2, seed=seed)
        )
        (folder / configuration.id).mkdir()
        Run.create(folder / configuration.id, configuration)
    return folder


def called(*words: object, monkeypatch: pytest.MonkeyPatch) -> object:
    """Run a command in this process; its exit code."""
    monkeypatch.setattr(sys, "argv", ["vaescope", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return end.value.code


@pytest.mark.parametrize(
    "words",
    [[], ["--columns", "id,data"], ["sql", "SELECT data FROM runs"], ["sql", "SELECT 1 AS \"a\x1b[31m\", '\x1b[31m'"]],
    ids=["list", "columns", "sql", "names"],
)
def test_names_of_data_cannot_control_the_terminal(
    words: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = words.index("sql") + 1 if "sql" in words else 0
    assert called("runs", *words[:place], "--runs", folder, *words[place:], monkeypatch=monkeypatch) == 0
    captured = capsys.readouterr()
    assert "\\x1b[31m" in captured.out
    assert all(one.isprintable() or one == "\n" for one in captured.out + captured.err)


def test_one_run_is_shown_without_control_characters_and_json_keeps_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    identity = next(folder.iterdir()).name
    assert called("runs", "show", identity, "--runs", folder, monkeypatch=monkeypatch) == 0
    assert SHOWN in capsys.readouterr().out
    assert called("runs", "--json", "--runs", folder, monkeypatch=monkeypatch) == 0
    captured = capsys.readouterr().out
    assert captured.isascii()
    assert {row["data"] for row in json.loads(captured)} == {HOSTILE.replace("\udce9", "\\udce9")}


def test_errors_cannot_control_the_terminal(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / "no folder\x1b[31m" / HOSTILE
    assert called("runs", "--runs", folder, "--csv", file, monkeypatch=monkeypatch) == 2
    assert called("fit", f"/nowhere\x1b[31m/{HOSTILE}", monkeypatch=monkeypatch) == 2
    captured = capsys.readouterr().err
    assert captured.count("\\x1b[31m") >= 3
    assert all(one.isprintable() or one == "\n" for one in captured)


def test_hostile_names_are_escaped_in_files(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, other = tmp_path / "runs.csv", tmp_path / "runs.parquet"
    words = ("--columns", "data", "--csv", file, "--parquet", other)
    assert called("runs", "--runs", folder, *words, monkeypatch=monkeypatch) == 0
    assert "'=a\x1b" in file.read_bytes().decode()
    assert b"=a\x1b" in other.read_bytes()


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_a_spreadsheet_does_not_run_text_as_a_formula(start: str) -> None:
    text = f"{start}cmd|calc"
    written = csv_text([{text: text, "number": -0.5, "middle": f"a{text}", "none": None}])
    assert written.count(f"'{text}") == 2
    assert ",-0.5," in written
    assert f"a{text}" in written


def command(words: Sequence[object], stdout: IO[bytes] | int) -> subprocess.CompletedProcess[bytes]:
    line = [sys.executable, "-m", "vaescope", *map(str, words)]
    return subprocess.run(line, stdout=stdout, stderr=subprocess.PIPE, check=False)


@LINUX
@pytest.mark.parametrize("words", [["--json"], ["--limit", "1"]], ids=["long", "short"])
def test_a_full_stream_is_reported_in_one_sentence(words: list[str], folder: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = command(["runs", "--runs", folder, *words], full)
    assert done.returncode == 2
    assert done.stderr == b"error: the output cannot be written (No space left on device).\n"


@pytest.mark.parametrize("words", [["--json"], ["--limit", "1"]], ids=["long", "short"])
def test_a_closed_pipe_ends_the_command_quietly(words: list[str], folder: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = command(["runs", "--runs", folder, *words], writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.skipif(os.name != "posix", reason="needs a shell")
@pytest.mark.parametrize("words", ["runs", "--version", "runs sql 'SELECT 1'", "runs --json"])
def test_closed_streams_are_quiet_and_no_file_receives_the_output(words: str, folder: Path, tmp_path: Path) -> None:
    line = f"cd '{folder.parent}' && '{sys.executable}' -m vaescope {words}"
    at = f" --runs '{folder}'" if words.startswith("runs") else ""
    done = subprocess.run(f"{line}{at} >&-", shell=True, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    done = subprocess.run(f"{line}{at} --nonsense >&- 2>&-", shell=True, check=False)
    assert done.returncode == 2
