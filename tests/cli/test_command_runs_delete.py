"""`vaescope runs delete`: the listing and the confirmation, what is deleted, and what is refused and kept."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import vaescope as vs
from vaescope import cli
from vaescope.errors import BusyError, RunError
from vaescope.runs import FitOptions, deleting, fit_many
from vaescope.runs.deleting import disk_use
from vaescope.runs.folders import ENSEMBLES, locked
from vaescope.training import Member

ROWS = np.random.default_rng(0).random((40, 4)).astype(np.float32)
TINY = {
    "net": {"name": "mlp", "encoder_widths": (4,), "decoder_widths": (4,)},
    "steps": 2,
    "batch": 16,
    "progress": False,
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    for seed in range(3):
        vs.fit(ROWS, 2, seed=seed, runs=folder, **TINY)
    return folder


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "runs"))


def ids(store: Path) -> list[str]:
    return sorted(path.name for path in store.iterdir() if path.name[0] != ".")


def contents(folder: Path) -> dict[str, bytes]:
    """The content of every file except locks."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name not in (".lock", ".owner"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def call(*words: object, answer: str | None = None) -> Any:
    return CliRunner().invoke(cli.app, ["runs", "delete", *map(str, words)], input=answer)


def test_runs_are_listed_with_their_disk_use_and_deleted_after_confirmation(store: Path) -> None:
    first, second, third = ids(store)
    size = sum(disk_use(store / one) for one in (first, second))
    done = call(first[:6], store / second, "--runs", store, answer="y\n")
    assert done.exit_code == 0
    assert first in done.output
    assert second in done.output
    assert f"Delete 2 runs ({size / 1e6:,.1f} MB) from {store}? [y/N]" in done.output
    assert ids(store) == [third]
    assert [run.id for run in vs.Store(store).runs()] == [third]
    assert list((store / ENSEMBLES).iterdir()) == []


@pytest.mark.parametrize("answer", ["\n", "n\n", "no\n", "maybe\n"])
def test_any_other_answer_deletes_nothing(answer: str, store: Path) -> None:
    before = contents(store)
    done = call(ids(store)[0], "--runs", store, answer=answer)
    assert done.exit_code == 1
    assert "Nothing was deleted" in done.output
    assert contents(store) == before


def test_without_a_terminal_nothing_is_deleted(store: Path) -> None:
    before = contents(store)
    words = [sys.executable, "-m", "vaescope", "runs", "delete", ids(store)[0], "--runs", str(store)]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: deleting asks first")
    assert "--yes" in done.stderr
    assert contents(store) == before


def test_yes_and_json_for_scripts(store: Path, refused: Callable[..., str]) -> None:
    first, second, third = ids(store)
    size = disk_use(store / second)
    assert "Pass --yes" in refused("runs", "delete", second, "--json", "--runs", store)
    found = json.loads(call(second, second[:8], "--yes", "--json", "--runs", store).output)
    assert found["bytes"] == size
    assert [row["id"] for row in found["deleted"]] == [second]
    assert found["deleted"][0]["status"] == "complete"
    assert ids(store) == [first, third]


def test_if_another_process_trains_a_run_none_is_deleted(store: Path, refused: Callable[..., str]) -> None:
    first, second, _ = ids(store)
    before = contents(store)
    with locked([store / second]):
        assert "is being trained by another process" in refused("runs", "delete", first, second, "-y", "--runs", store)
        with pytest.raises(BusyError):
            vs.Store(store).delete(first, second)
    assert contents(store) == before


def linked(store: Path) -> Path:
    """A run elsewhere, and a link to it in the store."""
    outside = store.parent / "outside" / "abcdef123456"
    shutil.copytree(store / ids(store)[0], outside)
    (store / outside.name).symlink_to(outside, target_is_directory=True)
    return store / outside.name


def elsewhere(store: Path) -> Path:
    other = store.parent / "other" / ids(store)[0]
    return Path(shutil.copytree(store / ids(store)[0], other))


def not_a_run(store: Path) -> Path:
    folder = store / "photographs"
    folder.mkdir()
    (folder / "run.json").write_text("{}")
    (folder / "holiday.jpg").write_bytes(b"sea")
    return folder


def without_record(store: Path) -> Path:
    (store / "notes").mkdir()
    return store / "notes"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (linked, "it is a link to"),
        (elsewhere, "must be a run in"),
        (not_a_run, "must be the folder of a run"),
        (without_record, "No run in"),
        (lambda store: "..", "No run in"),
        (lambda store: store, "No run in"),
        (lambda store: "", "No run in"),
    ],
    ids=["link", "elsewhere", "not a run", "no record", "parent", "store", "empty"],
)
def test_other_folders_are_refused_and_kept(
    make: Callable[[Path], Any], words: str, store: Path, refused: Callable[..., str]
) -> None:
    target = make(store)
    before = contents(store.parent)
    assert words in refused("runs", "delete", ids(store)[0], target, "--yes", "--runs", store)
    assert contents(store.parent) == before


def test_links_inside_a_run_are_not_followed(store: Path) -> None:
    kept = store.parent / "kept"
    kept.mkdir()
    (kept / "precious.txt").write_text("here")
    run = store / ids(store)[0]
    (run / "folder").symlink_to(kept, target_is_directory=True)
    (run / "file").symlink_to(kept / "precious.txt")
    freed = vs.Store(store).delete(run.name)
    assert not run.exists()
    assert (kept / "precious.txt").read_text() == "here"
    assert freed > 0


def test_a_store_behind_a_link_is_the_users_choice(store: Path) -> None:
    link = store.parent / "link"
    link.symlink_to(store, target_is_directory=True)
    first, *others = ids(store)
    assert call(first, "--yes", "--runs", link).exit_code == 0
    assert ids(store) == others


def test_an_ambiguous_id_deletes_none(store: Path, refused: Callable[..., str]) -> None:
    first = ids(store)[0]
    shutil.copytree(store / first, store / f"{first}-copy")
    before = contents(store)
    assert "2 runs in" in refused("runs", "delete", first[:8], "--yes", "--runs", store)
    assert contents(store) == before


def test_a_damaged_run_can_be_deleted(store: Path) -> None:
    first = ids(store)[0]
    (store / first / "run.json").write_text("{")
    done = call(first, "--yes", "--runs", store)
    assert done.exit_code == 0
    assert "damaged" in done.output
    assert first not in ids(store)


def test_an_interrupted_ensemble_is_deleted_with_its_last_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vaescope.training import Trainer

    def stop(trainer: Trainer) -> Any:
        raise KeyboardInterrupt

    members = [Member(2, seed=seed) for seed in range(2)]
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "advance", stop)
        with pytest.raises(KeyboardInterrupt):
            fit_many(ROWS, members, FitOptions(runs=tmp_path, **TINY))
    store, (one, other) = vs.Store(tmp_path), ids(tmp_path)
    assert len(list((tmp_path / ENSEMBLES).iterdir())) == 1
    store.delete(one)
    assert len(list((tmp_path / ENSEMBLES).iterdir())) == 1
    store.delete(other)
    assert list((tmp_path / ENSEMBLES).iterdir()) == []


def test_the_remains_of_a_killed_deletion_are_no_run_and_are_removed_by_the_next_training(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(folder: Path) -> None:
        raise KeyboardInterrupt

    first = ids(store)[0]
    with monkeypatch.context() as patch:
        patch.setattr(deleting, "delete_folder", stop)
        with pytest.raises(KeyboardInterrupt):
            vs.Store(store).delete(first)
    assert first not in ids(store)
    assert len(vs.runs.table(store)) == 2
    assert len(list((store / ENSEMBLES).iterdir())) == 1
    vs.fit(ROWS, 1, runs=store, **TINY)
    assert list((store / ENSEMBLES).iterdir()) == []


def test_a_deleted_run_trains_again_to_the_same_weights(store: Path) -> None:
    first = vs.load(ids(store)[0], runs=store)
    weights = first.model.state_dict()
    vs.Store(store).delete(first.path)
    again = vs.fit(ROWS, 2, seed=first.configuration.member.seed, runs=store, **TINY)
    assert again.id == first.id
    assert all((value == weights[name]).all() for name, value in again.model.state_dict().items())


def test_disk_use_is_a_column_on_request(store: Path) -> None:
    words = ["runs", "--runs", str(store), "--disk", "--sort", "-bytes", "--json"]
    rows = json.loads(CliRunner().invoke(cli.app, words).output)
    assert {row["id"]: row["bytes"] for row in rows} == {one: disk_use(store / one) for one in ids(store)}
    assert disk_use(store / ids(store)[0]) > (store / ids(store)[0] / "model.safetensors").stat().st_size
    shown = json.loads(CliRunner().invoke(cli.app, ["runs", "--runs", str(store), "--json"]).output)
    assert "bytes" not in shown[0]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_store_is_named(store: Path) -> None:
    store.chmod(0o500)
    try:
        with pytest.raises(RunError, match=r"must be (removable|a folder that can be written to)"):
            vs.Store(store).delete(ids(store)[0])
    finally:
        store.chmod(0o700)
