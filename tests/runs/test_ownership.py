"""Of two processes that train one run only one continues, and errors of the operating system are reported as such."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vaescope
from vaescope.errors import BusyError, DamagedRunWarning, RunError
from vaescope.runs import FitOptions, Run, Store, fit, fit_many
from vaescope.runs.folders import ENSEMBLES, MEMBERS_FILE, locked
from vaescope.runs.rows import read_rows
from vaescope.sizing.store import load_checks, load_results
from vaescope.training import Member, Trainer

DATA = np.random.default_rng(0).normal(size=(40, 5))
SETTINGS: dict[str, Any] = {
    "net": {"name": "mlp", "encoder_widths": [6], "decoder_widths": [6]},
    "steps": 12,
    "batch": 8,
    "log_every": 2,
    "evaluate_every": 4,
    "checkpoint_seconds": 0.0,
    "device": "cpu",
    "progress": False,
}


def disturbed(monkeypatch: pytest.MonkeyPatch, disturb: Callable[[], object]) -> None:
    """Calls a function once, during training."""
    advance, left = Trainer.advance, [3]

    def wrapped(trainer: Trainer) -> Any:
        left[0] -= 1
        if not left[0]:
            disturb()
        return advance(trainer)

    monkeypatch.setattr(Trainer, "advance", wrapped)


@pytest.mark.parametrize("members", [1, 3], ids=["alone", "stacked"])
def test_a_process_whose_run_was_trained_again_elsewhere_stops(
    members: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A suspended process continues after its store was deleted and the same fit was started again."""
    wanted, options = [Member(2, seed=seed) for seed in range(members)], FitOptions(runs=tmp_path / "runs", **SETTINGS)
    whole = fit_many(DATA, wanted, FitOptions(runs=tmp_path / "whole", **SETTINGS))

    def again() -> None:
        shutil.rmtree(tmp_path / "runs")
        fit_many(DATA, wanted, options)

    disturbed(monkeypatch, again)
    with pytest.raises(RunError, match=r"moved or deleted|taken"):
        fit_many(DATA, wanted, options)
    assert [Run.open(tmp_path / "runs" / run.id).history for run in whole] == [run.history for run in whole]


def test_the_process_that_started_last_owns_a_run(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with locked([path]) as first:
        first.check()
        shutil.rmtree(path)
        with pytest.raises(RunError, match="moved or deleted"):
            first.check()
        with locked([path]) as second:
            with pytest.raises(BusyError, match="another one has taken it over"):
                first.check()
            second.check()
            first.release(path)
            second.check()


def test_a_store_deleted_during_training_is_an_error_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disturbed(monkeypatch, lambda: shutil.rmtree(tmp_path / "runs"))
    with pytest.raises(RunError, match="moved or deleted") as met:
        fit(DATA, 2, runs=tmp_path / "runs", **SETTINGS)
    assert "space" not in str(met.value)


@pytest.mark.parametrize("content", ["{", "5", "null", "[1]", "[" * 100_000, '{"a": 1}'], ids=lambda text: text[:9])
def test_damaged_members_of_an_ensemble_stop_no_other_run(content: str, tmp_path: Path) -> None:
    file = tmp_path / ENSEMBLES / "0123456789ab" / MEMBERS_FILE
    file.parent.mkdir(parents=True)
    file.write_text(content)
    with pytest.warns(UserWarning, match=r"members\.json is damaged"):
        assert fit(DATA, 2, runs=tmp_path, **SETTINGS).status == "complete"
    assert [row["status"] for row in read_rows(tmp_path).rows.values()] == ["complete"]


@pytest.mark.parametrize("content", ["[]", "{}", "3", "{", '{"summary": 1, "data": []}', "[" * 100_000])
@pytest.mark.parametrize(
    ("name", "load"), [("fondue-1/fondue.json", load_results), ("elbow-1/elbow.json", load_checks)]
)
def test_a_damaged_result_of_a_search_hides_no_other(
    name: str, load: Callable[[Path], object], content: str, tmp_path: Path
) -> None:
    good = {"summary": "3 latents", "data": {"fingerprint": "0"}}
    for file, text in ((tmp_path / name, content), (tmp_path / name.replace("-1", "-2"), json.dumps(good))):
        file.parent.mkdir()
        file.write_text(text)
    with pytest.warns(DamagedRunWarning, match=f"{name} is damaged"):
        assert load(tmp_path) == [good]


def test_impossible_file_names_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for folder in (tmp_path / "loop", tmp_path / ("a" * 300), tmp_path / ("a/" * 2500)):
        with pytest.raises(RunError, match=r"Too many levels|too long"):
            read_rows(folder)
        with pytest.raises(RunError):
            fit(DATA, 2, runs=folder, **SETTINGS)
    for identity in ("a" * 300, "a" * 5000, "\0"):
        with pytest.raises(RunError):
            Store(tmp_path).find(identity)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user can look into, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o777)
        yield Path(name)


CHILD = """
import json, os, sys, warnings
import numpy as np
from pathlib import Path
import vaescope as vs
from vaescope.errors import VaescopeError
from vaescope.runs.folders import remove_finished_ensembles
from vaescope.runs.rows import read_rows
folder, identity, cases = Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
vs.Run.open(folder / identity).model  # loads all that is needed
vs.runs.table(folder), vs.Store(folder)
warnings.simplefilter("always")
user, printed = os.geteuid(), {}
for name, (call, refused) in cases.items():
    modes = {folder / one: (folder / one).stat().st_mode for one in refused}
    for file in modes:
        file.chmod(0)
    if user == 0:
        os.seteuid(65534)
    with warnings.catch_warnings(record=True) as met:
        try:
            printed[name] = str(eval(call))
        except VaescopeError as error:
            printed[name] = f"error: {error}"
    printed[name] += "".join(f" warning: {one.message}" for one in met)
    os.seteuid(user)
    for file, mode in modes.items():
        file.chmod(mode)
print(json.dumps(printed))
"""
# The action, the start of its message, and the files that may not be read.
CASES = {
    "run.json": ("vs.Run.open(folder / identity)", "error: ", ["{}/run.json"]),
    "run.json in a listing": (
        "list(read_rows(folder).problems.values())",
        "[RunError",
        ["{}/run.json", "{}/summary.json"],
    ),
    "model.safetensors": ("vs.Run.open(folder / identity).model", "error: ", ["{}/model.safetensors"]),
    "history.jsonl": ("vs.Run.open(folder / identity).history", "error: ", ["{}/history.jsonl"]),
    "a folder of a run": ("vs.runs.table(folder)", "[] warning: ", ["{}"]),
    "the store": ("vs.runs.table(folder)", "error: ", ["."]),
    "the store in SQL": ("vs.Store(folder).query('SELECT * FROM runs')", "error: ", ["."]),
    "the store in a training": ("vs.fit(np.eye(8), 2, steps=2, runs=folder, device='cpu')", "error: ", ["."]),
    "history.jsonl in SQL": (
        "vs.Store(folder).query('SELECT run FROM history')[1]",
        "[] warning: ",
        ["{}/history.jsonl"],
    ),
    "a store that is searched": ("vs.Store(folder).find('abc')", "error: ", ["."]),
    "an ensemble that cannot be removed": ("remove_finished_ensembles(folder)", "None warning: ", []),
}


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
def test_errors_of_the_system_are_named_and_not_reported_as_damage(open_folder: Path) -> None:
    identity = fit(DATA, 2, runs=open_folder, **SETTINGS).id
    left = open_folder / ENSEMBLES / ".gone-abc"
    left.mkdir(parents=True)
    (left / "history.jsonl").write_text("")
    left.chmod(0o555)
    cases = {name: (call, [one.format(identity) for one in files]) for name, (call, _, files) in CASES.items()}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(open_folder), identity, json.dumps(cases)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(vaescope.__file__).parents[1])},
        check=True,
    )
    left.chmod(0o755)
    printed = json.loads(done.stdout)
    assert {name: text[: len(CASES[name][1])] for name, text in printed.items()} == {
        name: begin for name, (_, begin, _) in CASES.items()
    }
    for text in printed.values():
        assert "Permission denied" in text
        assert not re.search(r"damaged|delete|Restore", text)
