"""Tables on a terminal: words and ids are not cut, the most informative columns are shown, the others are counted."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vaescope.cli.output import MAX_UNBROKEN_WORD, PLAIN_PADDING, RULED_PADDING, layout
from vaescope.objectives import Beta
from vaescope.runs import FitOptions, Run, fit_many
from vaescope.runs.sealed import sealed
from vaescope.training import Member

pty = pytest.importorskip("pty", reason="needs a pseudo-terminal")

NET = {"name": "mlp", "encoder_widths": [6], "decoder_widths": [6]}
MOST_IMPORTANT = {"id", "latents", "beta", "test_loss", "active", "mixed", "passive", "status"}
ASKED = {*MOST_IMPORTANT, "data", "model", "objective", "seed", "step"}
UNITS = "Losses and their terms are in nats per item."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    data = np.random.default_rng(0).normal(size=(40, 5))
    members = [Member(latents, Beta(beta)) for latents in (1, 2) for beta in (1.0, 4.0)]
    fit_many(data, members, FitOptions(net=NET, steps=4, batch=8, runs=folder, device="cpu"))
    return folder


def on_terminal(width: int, *arguments: str) -> list[str]:
    """The printed lines for a terminal with `columns` columns, without colours."""
    import fcntl
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    rest = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    command = [sys.executable, "-m", "vaescope", *arguments]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env={**rest, "TERM": "xterm"}) as worker:
        os.close(theirs)
        sent = b"".join(iter(lambda: _read(ours), b""))
    os.close(ours)
    assert worker.returncode == 0, sent
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", sent.decode()).replace("\r\n", "\n").splitlines()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # how Linux reports that the last writer has closed it
        return b""


def in_pipe(*arguments: str) -> list[str]:
    command = [sys.executable, "-m", "vaescope", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def heads(line: str) -> list[str]:
    return line.replace("┃", " ").split()


@pytest.mark.parametrize("width", [80, 120])
def test_a_list_of_runs_is_readable_on_a_terminal(width: int, folder: Path) -> None:
    lines = on_terminal(width, "runs", "--runs", str(folder))
    assert max(map(len, lines)) <= width
    shown = heads(lines[0])
    assert set(shown) >= (ASKED if width == 120 else MOST_IMPORTANT)
    ids = sorted(path.parent.name for path in folder.glob("*/run.json"))
    assert [line.split()[0] for line in lines[2:-3]] == ids
    everything = heads(in_pipe("runs", "--runs", str(folder))[1])
    assert [name for name in everything if name in shown] == shown
    hidden = len(everything) - len(shown)
    assert lines[-3].startswith(f"{hidden} columns not shown: ")
    assert lines[-2:] == [UNITS, "Types of latents were counted over 40 items after training."]


def test_a_wide_terminal_shows_the_same_as_a_pipe(folder: Path) -> None:
    assert on_terminal(400, "runs", "--runs", str(folder)) == in_pipe("runs", "--runs", str(folder))


def test_settings_that_vary_come_first(folder: Path, tmp_path: Path) -> None:
    data = np.random.default_rng(0).normal(size=(40, 5))
    members = [Member(2, learning_rate=rate) for rate in (0.001, 0.002)]
    runs = fit_many(data, members, FitOptions(net=NET, steps=4, batch=8, runs=tmp_path, device="cpu"))
    shown = heads(on_terminal(60, "runs", "--runs", str(tmp_path))[0])
    assert {"id", "learning_rate", "test_loss", "active", "mixed", "passive"} <= set(shown)
    assert "model" not in shown
    for run in runs:
        (run.path / "results.json").write_text(json.dumps(sealed({"mig": {"values": {"mig": 0.5}}})))
    assert "mig" in heads(on_terminal(100, "runs", "--runs", str(tmp_path))[0])


def test_selected_columns_are_shown_in_their_order(folder: Path) -> None:
    names = "test_reconstruction,train_reconstruction,id,train_rate,seed,train_loss"
    lines = on_terminal(60, "runs", "--runs", str(folder), "--columns", names)
    assert heads(lines[0]) == ["test_reconstruction", "train_reconstruction", "id", "seed"]
    assert lines[-1].startswith("2 columns not shown: ")


def test_why_a_run_failed_is_shown_in_whole_words(folder: Path, tmp_path: Path) -> None:
    configuration = Run.open(next(folder.glob("*/run.json")).parent).configuration
    path = tmp_path / configuration.id
    path.mkdir()
    words = [f"word{number}" for number in range(40)]
    Run.create(path, configuration).fail({"error": " ".join(words)})
    lines = on_terminal(80, "runs", "show", configuration.id, "--runs", str(tmp_path))
    assert [word for line in lines for word in re.findall(r"\bword\d+\b", line)] == words


def test_every_column_that_fits_is_shown() -> None:
    columns = [["id", "0123456789ab"], ["seed", "1"], ["what", "a sentence of words"]]
    wide = layout(columns, 60, [0, 1, 2])
    assert (wide.shown, wide.widths, wide.ruled) == ((0, 1, 2), (12, 4, 19), True)
    columns[2][1] = "a sentence of a few more words"
    wrapped = layout(columns, 55, [0, 1, 2])
    assert (wrapped.shown, wrapped.widths, wrapped.ruled) == ((0, 1, 2), (12, 4, 29), True)
    columns[2][1] = "a sentence of words"
    bare = layout(columns, 38, [0, 1, 2])
    assert (bare.shown, bare.widths, bare.ruled) == ((0, 1, 2), (12, 4, 19), False)
    assert layout(columns, 28, [0, 1, 2]).shown == (0, 1)
    assert layout(columns, 32, [2, 0, 1]).shown == (0, 2)
    assert (layout(columns, 10, [2, 0, 1]).shown, layout(columns, 10, [2, 0, 1]).widths) == ((2,), (10,))
    assert layout([["path", "/" + "x" * 99]], 80, [0]).widths == (76,)


CELLS = st.text(alphabet="ab ü語", max_size=40)
COLUMNS = st.integers(0, 4).flatmap(
    lambda rows: st.lists(st.lists(CELLS, min_size=rows + 1, max_size=rows + 1), min_size=1, max_size=8)
)


@given(COLUMNS, st.integers(MAX_UNBROKEN_WORD, 120), st.randoms(use_true_random=False))
def test_a_table_is_never_wider_than_the_terminal(columns: list[list[str]], room: int, random: Random) -> None:
    order = list(range(len(columns)))
    random.shuffle(order)
    found = layout(columns, room, order)
    padding = RULED_PADDING * len(found.shown) + 1 if found.ruled else PLAIN_PADDING * (len(found.shown) - 1)
    assert sum(found.widths) + padding <= room
    assert order[0] in found.shown
    assert all(width >= 1 for width in found.widths)
    assert list(found.shown) == sorted(found.shown)
