"""A run reopens its data: with their options, and within a process also arrays in memory."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import vaescope as vs
from vaescope.errors import DataError
from vaescope.runs.remembered import recall
from vaescope.runs.store import data_of

ROWS = np.random.default_rng(0).random((60, 5)).astype(np.float32)
TINY = {
    "net": {"name": "mlp", "encoder_widths": (8,), "decoder_widths": (8,)},
    "steps": 2,
    "batch": 16,
    "progress": False,
}


class Tuples(torch.utils.data.Dataset):
    """A torch Dataset of items and labels."""

    def __len__(self) -> int:
        return len(ROWS)

    def __getitem__(self, position: int) -> tuple[torch.Tensor, int]:
        return torch.from_numpy(ROWS[position]), position % 3


@pytest.fixture
def pictures(tmp_path: Path) -> str:
    """A folder of images of two sizes."""
    folder = tmp_path / "pngs"
    folder.mkdir()
    for position in range(30):
        side = 20 if position % 2 else 24
        pixels = np.random.default_rng(position).integers(0, 256, (side, side), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{position:02}.png")
    return str(folder)


KINDS = {
    "array": lambda: ROWS.copy(),
    "tensor": lambda: torch.from_numpy(ROWS.copy()),
    "list": lambda: ROWS.tolist(),
    "data set": lambda: vs.open_dataset(ROWS.copy(), labels=np.arange(60) % 2),
    "torch Dataset": Tuples,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("onnx_operators")
def test_data_in_memory_need_not_be_passed_again(kind: str, tmp_path: Path) -> None:
    run = vs.fit(KINDS[kind](), 3, runs=tmp_path / "runs", **TINY)
    gc.collect()  # only the run holds the data
    assert run.provenance.source is None
    assert len(run.encode()) == len(ROWS)
    assert vs.diagnose(run).name == run.id
    assert vs.diagnose(run.id, runs=tmp_path / "runs").name == run.id
    pruned = vs.prune(run, keep=[0, 1])
    assert vs.diagnose(pruned.run).types.types
    assert vs.export(run, tmp_path / "onnx", check_items=5).items == 5
    assert vs.compare([run, pruned.run]).names
    vs.report(run, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "vs.fondue(data)" in page
    assert "vaescope fondue" not in page


def test_data_are_held_only_by_runs_and_the_caller(tmp_path: Path) -> None:
    run = vs.fit(ROWS.copy(), 3, runs=tmp_path, **TINY)
    fingerprint = run.configuration.data["fingerprint"]
    assert len(recall(fingerprint)) == 1
    path = run.path
    del run
    gc.collect()
    assert recall(fingerprint) == []
    with pytest.raises(DataError, match=r"does not have\. Pass data"):
        vs.diagnose(path)


def test_reopened_runs_find_the_data_while_the_caller_holds_them(tmp_path: Path) -> None:
    rows = ROWS.copy()
    identity = vs.fit(rows, 3, runs=tmp_path, **TINY).id
    gc.collect()
    assert len(vs.load(identity[:6], runs=tmp_path).encode()) == len(ROWS)


def test_a_change_in_memory_is_noticed(tmp_path: Path) -> None:
    rows = ROWS.copy()
    run = vs.fit(rows, 3, runs=tmp_path, **TINY)
    rows *= 2
    with pytest.raises(DataError, match=r"have changed since\. Pass data"):
        run.encode()
    assert len(run.encode(rows)) == len(ROWS)


def test_a_change_in_memory_to_data_that_cannot_be_used_is_noticed(tmp_path: Path) -> None:
    rows = ROWS.copy()
    run = vs.fit(rows, 3, runs=tmp_path, **TINY)
    rows[:] = 0
    with pytest.raises(DataError, match=r"have changed in memory: .*must differ.*Or pass data"):
        run.encode()


def test_the_same_items_with_and_without_labels_are_kept_apart(tmp_path: Path) -> None:
    rows, kinds = ROWS.copy(), np.arange(60) % 3
    labelled = vs.open_dataset(rows, labels=kinds)
    conditional = vs.fit(labelled, 3, model="conditional", runs=tmp_path, **TINY)
    plain = vs.fit(rows, 3, runs=tmp_path, **TINY)
    for run in (conditional, vs.load(conditional.id, runs=tmp_path)):
        assert run.encode().labels.tolist() == kinds.tolist()
    assert plain.encode().labels is None


OTHER_PROCESS = """
import sys
import vaescope as vs
from vaescope.runs.store import data_of

for identity in sys.argv[2:]:
    run = vs.load(identity, runs=sys.argv[1])
    print(data_of(run).fingerprint, len(vs.diagnose(run).types.types))
"""


def test_another_process_opens_the_same_items_with_the_same_options(tmp_path: Path, pictures: str) -> None:
    folder = str(tmp_path / "runs")
    opened = vs.open_dataset(pictures, size=16)
    part = vs.open_dataset(pictures, size=[12, 16]).draw(20, seed=1).split(5)[0]
    runs = [
        vs.fit(opened, 3, runs=folder, **TINY),
        vs.fit({"name": pictures, "size": [16, 12]}, 3, runs=folder, **TINY),
        vs.fit(part, 3, runs=folder, **TINY),
    ]
    words = [sys.executable, "-c", OTHER_PROCESS, folder, *(run.id for run in runs)]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines == [f"{run.configuration.data['fingerprint']} 3" for run in runs]
    assert runs[0].provenance.source == {"name": pictures, "size": 16}


def test_images_of_several_sizes_say_how_to_open_them(tmp_path: Path, pictures: str) -> None:
    with pytest.raises(DataError, match=r"Pass size=64 to open_dataset to resize them"):
        vs.fit(pictures, 3, runs=tmp_path, **TINY)


def test_a_data_set_that_was_opened_is_not_opened_again(tmp_path: Path, pictures: str) -> None:
    opened = vs.open_dataset(pictures, size=16)
    run = vs.fit(opened, 3, runs=tmp_path / "runs", **TINY)
    for path in Path(pictures).iterdir():
        path.unlink()
    assert data_of(run) is opened
    del opened
    gc.collect()
    with pytest.raises(DataError, match=r"cannot be opened.*Or pass data"):
        data_of(run)


def test_the_report_names_the_options_of_the_data(tmp_path: Path, pictures: str) -> None:
    run = vs.fit(vs.open_dataset(pictures, size=16), 3, runs=tmp_path / "runs", **TINY)
    vs.report(run, tmp_path / "report.html")
    # A page that may be passed on names the folder, and not where it is.
    assert f"vaescope fondue {Path(pictures).name} --size 16" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("kind", [str, Path])
def test_stores_and_runs_are_named_by_text_or_path(kind: Any, tmp_path: Path) -> None:
    run = vs.fit(ROWS, 3, runs=tmp_path, **TINY)
    store = vs.Store(kind(tmp_path))
    assert store.find(run.id[:4]) == run
    assert store.find(kind(run.path)) == run
    assert [one.id for one in store.runs()] == [run.id]
    assert store == vs.Store(tmp_path)
    assert vs.load(run.id[:4], runs=kind(tmp_path)) == vs.load(kind(run.path)) == vs.load(run) == run


def test_wrong_stores_and_runs_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(vs.VaescopeError, match="folder of runs must be a path, got 3"):
        vs.Store(3)
    with pytest.raises(vs.VaescopeError, match=r"No run in .* starts with 'abc'"):
        vs.load("abc", runs=tmp_path)
    for wrong in (3, None, ROWS):
        with pytest.raises(vs.VaescopeError, match=r"^run must be a run, its folder"):
            vs.load(wrong, runs=tmp_path)
